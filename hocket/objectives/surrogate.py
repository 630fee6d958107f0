"""The clipped surrogate of PPO and its relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation, segment_means, sequence_means
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

Ratio = Literal["decision", "segment", "sequence", "sequence-token"]


def clipped_surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """x = -min(r A, clip(r, 1-low, 1+high) A), all `[E]` (PPO, arXiv 1707.06347, eq. 7).

    With `dual` = c > 1, for A < 0 the minimum is bounded below by c A (dual-clip PPO, arXiv 1912.09729), so
    that a large ratio cannot make the loss unbounded.
    """
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
    if dual is not None:
        gain = torch.where(advantage < 0, torch.maximum(gain, dual * advantage), gain)
    return -gain


def cut(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """Whether the clip removes the gradient of each occurrence, `[E]` bool."""
    above, below = (advantage > 0) & (ratio > 1 + high), (advantage < 0) & (ratio < 1 - low)
    return above | below if dual is None else above | below | ((advantage < 0) & (ratio > dual))


@dataclass(frozen=True)
class ClippedSurrogate(Objective):
    """Minimises -min(r A, clip(r) A): PPO, GRPO, DAPO, Dr. GRPO and GSPO.

    The ratio is to the proximal policy where its log-probs are recorded, else to the behaviour policy; its logarithm
    saturates at +-50 nats.

    Attributes:
        low, high: the ratio is clipped to [1 - low, 1 + high].
        dual: bound c > 1 of the dual clip for negative advantages; None for none.
        ratio: `decision`, r_t = pi/pi_old per decision; `segment`, the geometric mean over the decision's segment,
            differentiated as a whole (Rank-GRPO, arXiv 2510.20150);
            `sequence`, s_i = exp(mean_t log r_t), the same for all decisions of a trajectory and differentiated as a
            whole (GSPO, arXiv 2507.18071);
            `sequence-token`, value s_i but differentiated through the own decision, sg[s_i] pi/sg[pi] (GSPO-token,
            same paper). The last two have equal gradients where the advantage is constant within a trajectory.
        aggregate, horizon: see `hocket.objectives.aggregate`; `horizon` is the L of `constant-length`.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    dual: float | None = None
    ratio: Ratio = "decision"
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.ratio not in get_args(Ratio):
            raise ValueError(f"ratio is {self.ratio!r}; choose from {', '.join(get_args(Ratio))}")
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")
        if self.dual is not None and self.dual <= 1:
            raise ValueError(f"dual must exceed 1, not {self.dual}")

    @property
    def couples(self) -> Level:
        return Level.DECISION if self.ratio == "decision" else Level.TRAJECTORY

    @property
    def idle_without_advantage(self) -> bool:
        # A decision of advantage 0 still enters its sequence's ratio.
        return self.ratio == "decision"

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        advantage = occurrences.advantage.detach().to(dtype)
        log_ratio = self.log_ratio(now, batch)
        ratio = saturated(log_ratio).exp()
        value = clipped_surrogate(ratio, advantage, self.low, self.high, self.dual)
        # Decisions without advantage may not have been evaluated: they say nothing about the ratio.
        active = (occurrences.weight != 0) & (occurrences.advantage != 0)
        metrics = {
            "ratio/clipped": share(cut(ratio.detach(), advantage, self.low, self.high, self.dual), active),
            "ratio/saturated": saturation(log_ratio, active),
        }
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), self.couples, metrics)

    def log_ratio(self, now: Evaluation, batch: Batch) -> Tensor:
        """The logarithm of the ratio at each occurrence, `[E]`, before it saturates."""
        by_decision = log_ratios(now, batch)
        if self.ratio == "decision":
            return by_decision
        if self.ratio == "segment":
            return segment_means(by_decision, batch)
        by_sequence = sequence_means(by_decision, batch)
        return by_sequence if self.ratio == "sequence" else by_sequence.detach() + (by_decision - by_decision.detach())
