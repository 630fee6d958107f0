"""Further samples at a temperature that steers the entropy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hocket.core.method_columns import TEMPERED
from hocket.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class Tempered(Rollout):
    """`samples` of the policy itself, then `extra` at temperature `hot` or `cold`: AEPO (arXiv 2510.08141).

    If the entropy measured on the policy's own samples is below `target`, the extra ones are hot, else cold: to learn
    towards hotter samples raises the entropy, towards cooler ones lowers it. The measure is the mean of -log pi over
    their decisions, an unbiased estimate of the entropy per decision.

    Extra samples are marked by the column `tempered`, for credit and objective to tell apart. They are to be learnt
    from under the policy itself, not under its tempered form: so their turns take the temperature of the others and
    forget the log-probs they were drawn with, which are evaluated anew.

    Attributes:
        target: nats per decision. hot, cold: factors on the run's temperature, above and below 1.
    """

    samples: int = 8
    extra: int = 4
    target: float = 0.5
    hot: float = 2.0
    cold: float = 0.5

    def __post_init__(self) -> None:
        if self.samples < 1 or self.extra < 1:
            raise ValueError(f"samples and extra must be at least 1, not {self.samples} and {self.extra}")
        if not 0 < self.cold < 1 < self.hot:
            raise ValueError(f"cold and hot must satisfy 0 < cold < 1 < hot, not {self.cold} and {self.hot}")
        if self.target < 0:
            raise ValueError(f"target must be at least 0, not {self.target}")

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
        """The own samples, then the tempered ones, scenario by scenario in each part."""
        own = await play([replace(asking, samples=self.samples) for asking in asked])
        entropy = sampled_entropy(own)
        factor = self.hot if entropy < self.target else self.cold
        further = await play([self._tempered(asking, factor) for asking in asked])
        for asking, start in zip(asked, range(0, len(further), self.extra), strict=True):
            for trajectory in further[start : start + self.extra]:
                TEMPERED.write(trajectory, True)
                for turn in trajectory.turns:
                    turn.decoding, turn.logp = asking.decoding, None
        await score([*own, *further])
        metrics = {"rollout/entropy": entropy, "rollout/temperature": factor}
        return Experience([*own, *further], metrics=metrics)

    def _tempered(self, asking: Assignment, factor: float) -> Assignment:
        decoding = replace(asking.decoding, temperature=(asking.decoding.temperature or 1.0) * factor)
        return replace(asking, samples=self.extra, first=asking.first + self.samples, decoding=decoding)


def sampled_entropy(trajectories: Sequence[Trajectory]) -> float:
    """The mean of -log pi over all sampled decisions, nats; 0 without any."""
    parts = [
        -np.asarray(turn.logp, np.float64)[~_imposed(turn.forced, len(turn))]
        for trajectory in trajectories
        for turn in trajectory.turns
        if turn.logp is not None
    ]
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(values.mean()) if len(values) else 0.0


def _imposed(forced: np.ndarray | None, length: int) -> np.ndarray:
    return np.zeros(length, np.bool_) if forced is None else np.asarray(forced, np.bool_)
