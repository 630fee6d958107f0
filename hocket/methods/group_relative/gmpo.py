"""GMPO: GRPO with the geometric instead of the arithmetic mean of token ratios (Zhao et al., arXiv:2507.20673).

One outlying token then moves an answer's ratio little. Tokens are clipped in log space on the pessimistic side
(`clipped_log_ratio`), unlike GSPO, which clips the whole answer: `GeometricMean`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation, sequence_means
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def clipped_log_ratio(log_ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    """The pessimistic clip in log space, all `[E]`: min(d, high) where A >= 0, max(d, -low) where A < 0.

    With s = sign(A) and low = high = e it is s min(s d, clip(s d, -e, e)) (GMPO, arXiv 2507.20673). A clipped token
    keeps its bound as value and has no gradient.
    """
    return torch.where(advantage < 0, log_ratio.clamp(min=-low), log_ratio.clamp(max=high))


@dataclass(frozen=True)
class GeometricMean(Objective):
    """Minimises -A_i exp(1/n_i sum_t d'_it), d' the clipped log-ratio of each token: GMPO (arXiv 2507.20673).

    One token of ratio R moves the sequence's ratio by R^(1/n) alone. GSPO clips the sequence; here tokens are clipped.
    Only counted occurrences enter the mean, whatever their weight; the mean's exponential saturates at +-50 nats.

    Attributes:
        low, high: a token's log-ratio counts from -low (where A < 0) and up to high (where A >= 0). The released code
            takes one number for both sides; 0.4 is the paper's.
    """

    low: float = 0.4
    high: float = 0.4

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.TRAJECTORY
    # A decision of advantage 0 still enters its sequence's mean.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.low < 0 or self.high < 0:
            raise ValueError(f"low and high must be at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        log_ratio = log_ratios(now, batch)
        mean = sequence_means(clipped_log_ratio(log_ratio, advantage, self.low, self.high), batch)
        active = (seen.weight != 0) & (seen.advantage != 0)
        cut = torch.where(advantage < 0, log_ratio < -self.low, log_ratio > self.high)
        metrics = {"ratio/clipped": share(cut, active), "ratio/saturated": saturation(mean, active)}
        weight = weights(batch, "sequence-mean", dtype=dtype)
        return Terms(-advantage * saturated(mean).exp(), weight, Level.TRAJECTORY, metrics)


GMPO = GRPO.but(
    name="gmpo",
    title="Geometric-Mean Policy Optimisation",
    source="Zhao et al., arXiv:2507.20673",
    catalogue_ids=("gmpo",),
    axes=("objective",),
    formula="L = -1/N sum_i A_i exp(1/n_i sum_t d'_it),  d' = min(d, 0.4) where A > 0, max(d, -0.4) where A < 0",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over a trajectory's log-ratios, then over trajectories",
        "clipping side": "each token's log-ratio, pessimistically: above where A > 0, below where A < 0; 0.4",
        "advantages that differ within a trajectory": "each token is clipped by its own",
        "saturation": "a trajectory's mean log-ratio beyond +-50 nats takes the value and the gradient of the bound",
        "KL": "none, as in the paper",
        "updates per batch": "8 mini-batches, as in the released script (1024 samples by 128); with one it is GRPO",
    },
    objective=GeometricMean(low=0.4, high=0.4),
    **{"update.minibatches": 8},
)
