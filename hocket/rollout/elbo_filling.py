"""Answers of a masked-diffusion language model that are learnt from by their ELBO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.elbo_masks import ElboMasks, GaussMasks
from hocket.core.keys import Key
from hocket.rollout.mask_filling import MaskFilling, Order
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class ElboFilling(Rollout):
    """`samples` independent answers to every scenario, whose decisions are looks at the finished answer.

    A look is a turn, with some places masked; `LOOK_WEIGHTS` has the looks' factors in the ELBO, by which
    `hocket.rewards.LookWeights` weighs decisions. The learner evaluates their log-probs before its update.

    Attributes:
        masks: of the looks. order, commits, doubling, end_held: of the sampling, see `Unmasking`.
    """

    plays: ClassVar[str] = MaskFilling.plays
    retrospective: ClassVar[bool] = True

    samples: int = 8
    masks: ElboMasks = GaussMasks()
    order: Order = "distribution"
    commits: int = 1
    doubling: bool = False
    end_held: float = 1.0

    def __post_init__(self) -> None:
        self._filling()

    def _filling(self) -> MaskFilling:
        return MaskFilling(self.samples, self.order, self.commits, self.doubling, self.end_held, "one-pass", 0.0)

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
        looked = [replace(item, options=(*item.options, self.masks)) for item in asked]
        return await self._filling().collect(looked, play=play, score=score, ledger=ledger, key=key, more=more)
