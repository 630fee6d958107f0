"""The clipped surrogate with one ratio per turn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation, turn_means, turn_sums
from hocket.objectives.surrogate import clipped_surrogate, cut
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

Mean = Literal["geometric", "arithmetic", "product"]


@dataclass(frozen=True)
class TurnSurrogate(Objective):
    """Minimises -min(rho_k A_k, clip(rho_k) A_k), one ratio rho_k and one advantage A_k per turn.

    ReMA (arXiv 2503.09501) in the form of its released code: rho_k is the geometric mean of the token ratios of turn k,
    its logarithm is cut at `cap` (no gradient above), A_k is the mean of the turn's advantages, and for A_k < 0 the
    loss is bounded by `dual`. A turn made longer with the same log-ratios keeps its loss. A turn shared by several
    trajectories has one ratio and an advantage in each. Log-ratios saturate at +-50 nats.

    Attributes:
        low, high: the ratio is clipped to [1 - low, 1 + high].
        dual: bound c > 1 of the dual clip for negative advantages; None for none.
        cap: the largest log-ratio of a turn; None for none.
        mean: how token ratios become one. `geometric`, exp(mean_t log r_t); `arithmetic`, mean_t r_t, the form of the
            paper, equal to it in first order and never smaller; `product`, exp(sum_t log r_t), the ratio of the whole
            utterance as an action (MARFT, arXiv 2504.16129).
        aggregate, horizon: see `hocket.objectives.aggregate`; forms that sum over decisions weigh a turn by its length.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    dual: float | None = 3.0
    cap: float | None = 3.0
    mean: Mean = "geometric"
    aggregate: Aggregate = "sequence-turn-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.TRAJECTORY
    # A decision of advantage 0 still enters its turn's ratio.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")
        if (self.dual is not None and self.dual <= 1) or (self.cap is not None and self.cap <= 0):
            raise ValueError(f"dual must exceed 1 and cap 0, not {self.dual} and {self.cap}")
        if self.mean not in get_args(Mean):
            raise ValueError(f"mean is {self.mean!r}; choose from {', '.join(get_args(Mean))}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        advantage = turn_means(occurrences.advantage.detach().to(dtype), batch)
        log_ratio = log_ratios(now, batch)
        ratio = self.ratio(log_ratio, batch)
        value = clipped_surrogate(ratio, advantage, self.low, self.high, self.dual)
        active = (occurrences.weight != 0) & (advantage != 0)
        metrics = {
            "ratio/clipped": share(cut(ratio.detach(), advantage, self.low, self.high, self.dual), active),
            "ratio/saturated": saturation(log_ratio, active),
        }
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), Level.TRAJECTORY, metrics)

    def ratio(self, log_ratio: Tensor, batch: Batch) -> Tensor:
        """The ratio of each occurrence's turn, `[E]`, cut at the cap."""
        if self.mean == "arithmetic":
            value = turn_means(saturated(log_ratio).exp(), batch)
            return value if self.cap is None else value.clamp(max=math.exp(self.cap))
        value = turn_means(log_ratio, batch) if self.mean == "geometric" else turn_sums(log_ratio, batch)
        value = saturated(value)
        return torch.exp(value if self.cap is None else value.clamp(max=self.cap))
