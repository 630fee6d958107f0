"""ERPO: scenarios that are always solved are sampled hotter (Liu et al., arXiv:2511.04800).

A group whose samples are all right has no gradient. Each such visit raises the scenario's temperature for the next one
(`HeatedResiduals`), until a wrong answer appears; all other scenarios are sampled as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.base.grpo import GRPO
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class HeatedResiduals(Rollout):
    """`samples` per scenario, at temperature `T = min(most, T0 + rise n)`: ERPO (arXiv 2511.04800).

    n counts the scenario's latest visits on which every sample earned `solved`; a visit with a wrong answer sets it
    back to 0 (the abstract says until when, not how; so chosen). Log-probs are those at the temperature sampled with,
    in learning too. The ledger remembers the last 32 visits, so n is at most 32.

    Attributes:
        rise: per visit. most: the highest temperature; one above it that the run sets stays. solved: mean reward of a
            group whose samples are all right.
        metrics: `rollout/heated`, the share of scenarios sampled hotter; `rollout/temperature`, the mean.
    """

    samples: int = 8
    rise: float = 0.1
    most: float = 1.6
    solved: float = 1.0

    def __post_init__(self) -> None:
        if self.samples < 1 or self.rise < 0 or self.most <= 0:
            raise ValueError(
                f"samples must be at least 1, rise at least 0 and most positive, not {self.samples}, {self.rise} and "
                f"{self.most}"
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
        """Independent samples of every scenario at its own temperature."""
        hot = [self.temperature(one.decoding.temperature, ledger.history(one.scenario.id)) for one in asked]
        trajectories = await play(
            [
                replace(one, samples=self.samples, decoding=replace(one.decoding, temperature=degree))
                for one, degree in zip(asked, hot, strict=True)
            ]
        )
        await score(trajectories)
        heated = sum(degree > one.decoding.temperature for one, degree in zip(asked, hot, strict=True))
        metrics = {"rollout/heated": heated / len(asked), "rollout/temperature": sum(hot) / len(asked)}
        return Experience(trajectories, metrics=metrics)

    def temperature(self, usual: float, rewards: Sequence[float]) -> float:
        """A scenario's, by the mean rewards of its past groups, oldest first."""
        visits = next((n for n, mean in enumerate(reversed(rewards)) if mean < self.solved), len(rewards))
        return max(usual, min(self.most, usual + self.rise * visits))


ERPO = GRPO.but(
    name="erpo",
    title="Scenarios that are always solved, sampled hotter",
    source="Liu et al., ERPO, arXiv:2511.04800",
    family="data-and-rollout",
    catalogue_ids=("erpo",),
    axes=("rollout", "data"),
    formula="T_q = min(T_max, T_0 + c n_q), n_q the visits since q last had a wrong answer",
    conventions={
        **GRPO.conventions,
        "schedule": "c = 0.1, T_max = 1.6; the paper's increments could not be confirmed",
        "temperature": "each turn's log-probs are at the temperature it was sampled with, in the ratio as well",
        "scenarios": "all of a finite task and 256 of an endless one (curriculum.pool) come again in random order",
    },
    curriculum=Weighted(),
    rollout=HeatedResiduals(samples=8),
)
