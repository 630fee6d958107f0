"""PF-PPO: PPO on a resampled batch, in which reliable rewards are more frequent (Shen et al., arXiv:2409.06957; verl).

Rewards far from the middle are those that a reward model is surest of. After credit, as many answers as there are are
drawn again with replacement (`ResampledByReward`): in the loss an answer counts as often as it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.segments import segment_count
from hocket.core.signals import counted_trajectories, returns
from hocket.methods.base.ppo import PPO
from hocket.stages import Correction

Preference = Literal["pow", "max_min", "max_random"]

LEAST = 1e-8
"""Added to every answer's chance, as in verl, so that something is drawn."""


def chances(value: Tensor, by: Preference, power: float) -> Tensor:
    """What each answer's chance is proportional to, `[N]`, from returns `[N]`."""
    if by == "pow":
        chance = value.abs() ** power
    elif by == "max_min":
        chance = ((value == value.max()) | (value == value.min())).to(value.dtype)
    else:
        chance = torch.where(value == value.max(), 0.4, 0.1).to(value.dtype)
    return (chance + LEAST).clamp(min=LEAST)


def draws(value: Tensor, by: Preference, power: float, key: Key) -> Tensor:
    """How often each of N answers is drawn in N draws with replacement, `[N]` long."""
    share = chances(value, by, power).double().numpy()
    drawn = key.numpy().choice(len(share), size=len(share), p=share / share.sum())
    return torch.bincount(torch.from_numpy(drawn), minlength=len(share))


@dataclass(frozen=True)
class ResampledByReward(Correction):
    """Weighs each answer by how often it is drawn, with a chance that grows with its reward's size.

    The weights are scaled so that a mean over decisions is that of the drawn batch. Answers that are not drawn get 0.

    Attributes:
        by: `pow`, |R| to a power; `max_min`, the best and the worst alone; `max_random`, the best four times as often.
        power: of `pow`. seed: of the draws, which also depend on the step.
    """

    by: Preference = "pow"
    power: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.by not in get_args(Preference):
            raise ValueError(f"by is {self.by!r}; choose from {', '.join(get_args(Preference))}")
        if self.power <= 0:
            raise ValueError(f"power must be above 0, not {self.power}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with other weights."""
        occurrences, counted = batch.occurrences, counted_trajectories(batch)
        if not bool(counted.any()):
            return batch
        key = Key.of(self.seed).derive("pf-ppo", batch.step)
        times = torch.zeros(batch.trajectories, dtype=torch.float64)
        chosen = torch.nonzero(counted).flatten()
        chosen = chosen[batch.order[chosen].argsort()]  # So the draws do not depend on the batch's order.
        times[chosen] = draws(returns(batch)[chosen], self.by, self.power, key).double()
        live = occurrences.weight != 0
        length = segment_count(occurrences.trajectory[live], batch.trajectories).double()
        factor = times * length[times > 0].sum() / (times * length).sum()
        return batch.credited(weight=occurrences.weight * factor[occurrences.trajectory].to(occurrences.weight.dtype))


PF_PPO = PPO.but(
    name="pf-ppo",
    title="Policy filtration: PPO on answers of reliable rewards",
    source="Shen et al., arXiv:2409.06957; verl, compute_pf_ppo_reweight_data",
    axes=("credit", "data"),
    formula=PPO.formula + ",  over answers drawn anew, N of N, with chances |R_i|^2 + 1e-8",
    conventions={
        **PPO.conventions,
        "whitening": PPO.conventions["whitening"] + ", and before answers are drawn",
        "draws": "with replacement, once a step; a mini-batch's mean is over the decisions of its drawn answers once "
        "each, weighted by how often",
        "chance": "|R|^2 (correction.by = pow, correction.power); verl's other two are max_min and max_random",
    },
    correction=ResampledByReward(),
)
