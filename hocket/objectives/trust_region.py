"""Mirror descent: the Bregman divergence of the entropy as a drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.objectives.drift import Drift


def forward_kl_drift(log_ratio: Tensor) -> Tensor:
    """f = r log r - r + 1, `[E]`: an estimate of KL(pi || pi_old) from actions of pi_old, at least 0.

    Unbiased, since E[r] = 1; its gradient, r log r per unit of log pi, is unbiased for the gradient of that KL.
    """
    ratio = log_ratio.exp()
    return ratio * log_ratio - log_ratio.expm1()


@dataclass(frozen=True)
class ForwardKLDrift(Drift):
    """f = (1 / t) KL(pi || pi_old), the proximal term of mirror descent (MDPO, Tomar et al., arXiv 2005.09814).

    The step size t falls linearly over the run, from `first` to `last`. The exact maximiser of the surrogate is
    pi_old exp(t A) / Z.

    Attributes:
        first: t in the first step; 1 is the paper's.
        last: t in the last step. The paper's schedule ends at 0, where the penalty is infinite.
    """

    first: float = 1.0
    last: float = 0.05

    power: ClassVar[int] = 1
    regardless_of_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.first <= 0 or self.last <= 0:
            raise ValueError(f"first and last must be positive, not {self.first} and {self.last}")

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        return forward_kl_drift(log_ratio) / (self.first + (self.last - self.first) * progress)
