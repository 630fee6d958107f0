"""DeepVideo-R1: GRPO as regression, with hints for hard and noise for easy scenarios (Park et al., arXiv:2506.07464).

The centred log-ratios of a group are fitted to its advantages (`AdvantageRegression` of
`hocket.objectives.regression`), so nothing is clipped; `DifficultyAware` tells a part of the solution where rewards lag
and samples hotter where they lead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean

from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO
from hocket.objectives.regression import AdvantageRegression
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class DifficultyAware(Rollout):
    """`samples` per scenario, with a hint where it did worse than a running reference and noise where it did better.

    DeepVideo-R1's difficulty-aware augmentation (arXiv 2506.07464): so that groups are rarely all equal. The reference
    is the mean past reward of the scenarios asked that have a past; a scenario is too hard `margin` below it and too
    easy `margin` above. A hint is the beginning of the token ids in `metadata["solution"]`, forced and never learnt
    from; its share of the solution is the gap to the reference over the reference, at least `least`. Where the paper
    perturbs frames, sampling is `heat` times as hot, learnt at that temperature.

    Attributes:
        samples: per scenario. margin: of rewards. least: share of the solution that is told at least.
        window: past groups that count. heat: factor on the temperature for too easy scenarios, above 1.
    """

    samples: int = 8
    margin: float = 0.1
    least: float = 0.5
    window: int = 4
    heat: float = 1.5

    def __post_init__(self) -> None:
        if self.samples < 1 or self.window < 1:
            raise ValueError(f"samples and window must be at least 1, not {self.samples} and {self.window}")
        if self.margin < 0 or not 0 < self.least <= 1 or self.heat <= 1:
            raise ValueError(
                "margin must be at least 0, least in (0, 1] and heat above 1, not "
                f"{self.margin}, {self.least} and {self.heat}"
            )

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """One group per scenario; metrics count those hinted at and those perturbed."""
        past = [self._past(ledger, asking) for asking in asked]
        known = [reward for reward in past if reward is not None]
        reference = mean(known) if known else 0.0
        counts: Counter[str] = Counter()
        assignments = [self._augmented(a, r, reference, counts) for a, r in zip(asked, past, strict=True)]
        trajectories = await play(assignments)
        await score(trajectories)
        return Experience(
            trajectories, metrics={f"rollout/{kind}": float(counts[kind]) for kind in ("hinted", "heated")}
        )

    def _past(self, ledger: LedgerView, asking: Assignment) -> float | None:
        rewards = ledger.history(asking.scenario.id)[-self.window :]
        return mean(rewards) if rewards else None

    def _augmented(
        self, asking: Assignment, reward: float | None, reference: float, counts: Counter[str]
    ) -> Assignment:
        asking = replace(asking, samples=self.samples)
        if reward is None or abs(reward - reference) < self.margin:
            return asking
        if reward > reference:
            counts["heated"] += 1
            return replace(
                asking, decoding=replace(asking.decoding, temperature=asking.decoding.temperature * self.heat)
            )
        solution = tuple(asking.scenario.metadata.get("solution", ()))
        told = max(self.least, (reference - reward) / reference if reference > 0 else 1.0)
        # At least one token of the answer stays the policy's own.
        length = min(math.ceil(min(told, 1.0) * len(solution)), len(solution) - 1)
        if length < 1:
            return asking
        counts["hinted"] += 1
        return replace(asking, prefix=solution[:length])


DEEPVIDEO_R1 = GRPO.but(
    name="deepvideo-r1",
    title="Regressive GRPO with difficulty-aware augmentation",
    source="Park et al., DeepVideo-R1, arXiv:2506.07464",
    catalogue_ids=("deepvideo-r1",),
    axes=("objective", "data", "policy"),
    formula="L = 1/N sum_i (A_i - (d_i - mean_g d)/s)^2,  d = log pi(y)/pi_old(y),  A = (R - mean R)/(std R + eps)",
    conventions={
        **GRPO.conventions,
        "aggregation": "log-ratios summed over a trajectory, mean over trajectories",
        "clipping side": "nothing is clipped",
        "scale of log-ratios": "s = 1, that is objective.temperature = 1/s; their own deviation is 0 at the first step",
        "too hard, too easy": "0.1 below or above the mean past reward of the scenarios asked",
        "hint": "the first half or more of metadata solution, as forced tokens; without one, nothing is told",
        "perturbation": "1.5 times the temperature, learnt at that temperature",
        "updates per batch": "2",
    },
    note="Shown on text: the paper perturbs video frames, here sampling is hotter; frames come with their modality.",
    rollout=DifficultyAware(samples=8),
    objective=AdvantageRegression(temperature=1.0, centred=True, coefficient=1.0),
    **{"update.epochs": 2},
)
