"""B2-DiffuRL: sparse rewards of denoising, learnt from the last steps on and from forks (Hu et al., arXiv:2503.11240).

The reward of a picture says little about its first steps. Backward progressive training learns the last k steps alone,
and k grows towards the first. Samples of a prompt share the state in which these k steps begin, so their scores differ
by the trained steps alone: they are a branch set, of which the best and the worst sample are learnt from.
`BackwardSampling` is that rollout: steps before the fork have no noise and begin with one noise for the whole set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.noise_laws import FlowSDE, Window
from hocket.core.signals import returns
from hocket.credit.pairs import members_by_group
from hocket.methods.base.flow_grpo import DDPO
from hocket.rollout.noisy_sampling import NoisySampling
from hocket.stages import Credit, State


@dataclass(frozen=True)
class BackwardSampling(NoisySampling):
    """`NoisySampling` whose window ends with the last step and grows towards the first.

    Attributes:
        reach: steps of the window in the first training steps; after every `every` training steps `moving` more.
        total: steps of a sample, beyond which the window does not grow.
    """

    same_noise: bool = True
    moving: int = 2
    every: int = 10
    reach: int = 4
    total: int = 10

    def __post_init__(self) -> None:
        self.sampling()
        if not 1 <= self.reach <= self.total or self.samples < 2:
            raise ValueError(f"reach must lie in 1 to {self.total} and samples be at least 2, not {self.reach}")
        if self.moving < 0 or self.every < 1 or self.steps not in (None, self.total):
            raise ValueError("moving must be at least 0, every at least 1, and steps null or equal to total")

    def at(self, step: int) -> BackwardSampling:
        """With the window of `step`."""
        count = min(self.total, self.reach + self.moving * ((step - 1) // self.every))
        return replace(self, window=Window(self.total - count, count), steps=self.total)


@dataclass(frozen=True)
class BranchExtremes(Credit):
    """`A_i = (R_i - mean)/(std + epsilon)` of a branch set's best and worst sample, where beyond `threshold`; else 0.

    Mean and deviation are those of the scenario's last `history` returns, these samples among them; while there are
    fewer than `least`, those of the batch, as in DDPO's tracker. Stateful. Ties are resolved by assignment order. Other
    samples get weight 0.
    """

    threshold: float = 0.5
    history: int = 32
    least: int = 16
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.threshold < 0 or self.least < 2 or self.history < self.least:
            raise ValueError("threshold must be at least 0, least at least 2 and history at least `least`")

    def init(self) -> State:
        """No returns of any scenario."""
        return {"returns": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        """The batch's occurrences with advantages `[E]` float64, and the state after this step."""
        value, groups = returns(batch), members_by_group(batch, GroupBy("scenario"))
        every = value[[i for members in groups for i in members]]
        advantage, remembered = torch.zeros(batch.trajectories, dtype=torch.float64), dict(state["returns"])
        for members in groups:
            name = batch.names["scenario"][int(batch.scenario[members[0]])]
            past = [*remembered.get(name, ()), *value[members].tolist()][-self.history :]
            remembered[name] = past
            known = torch.tensor(past, dtype=torch.float64) if len(past) >= self.least else every
            score = (value - known.mean()) / (known.std(correction=0) + self.epsilon)
            best = max(members, key=lambda i: float(score[i]))
            worst = min(members, key=lambda i: float(score[i]))
            if score[best] > self.threshold:
                advantage[best] = score[best]
            if score[worst] < -self.threshold:
                advantage[worst] = score[worst]
        occurrences = batch.occurrences
        credit = advantage[occurrences.trajectory]
        weight = torch.where(credit != 0, occurrences.weight, torch.zeros_like(occurrences.weight))
        return replace(occurrences, advantage=credit, weight=weight), {"returns": remembered}


B2_DIFFURL = DDPO.but(
    name="b2-diffurl",
    title="B2-DiffuRL: backward progressive training and branch sampling for sparse rewards",
    source="Hu et al., arXiv:2503.11240; code of hu-zijing/B2-DiffuRL",
    catalogue_ids=("b2-diffurl",),
    axes=("rollout", "credit", "policy", "data"),
    formula="L = -mean min(r_it A_i, clip(r_it) A_i) over the last k steps, k growing; A_i = (R_i - mean)/std of a "
    "branch set's best sample if > c and of its worst if < -c, else 0",
    conventions={
        **DDPO.conventions,
        "noisy steps": "the last four, and two more after every ten updates",
        "before the fork": "no noise, from one noise for all samples of a prompt; the paper draws these steps too",
        "branch sets": "one a prompt, of all its samples",
        "compared": "the prompt's last 32 returns; the step's samples while there are fewer than 16, as with prompts "
        "that do not recur",
        "threshold": "0.5 deviations either side",
    },
    rollout=BackwardSampling(samples=8, law=FlowSDE(0.7)),
    credit=BranchExtremes(),
)
