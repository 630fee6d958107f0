"""A quadratic penalty on the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.objectives.drift import Drift


def quadratic_drift(log_ratio: Tensor, advantage: Tensor, epsilon: float) -> Tensor:
    """f = |A| (r - 1)^2 / (2 epsilon), all `[E]` (Simple Policy Optimization, arXiv 2401.16025).

    r A - f is concave in r, with its maximum at r = 1 + epsilon sign(A): further out the gradient points back.
    """
    return advantage.abs() * log_ratio.expm1().square() / (2 * epsilon)


@dataclass(frozen=True)
class QuadraticDrift(Drift):
    """SPO's penalty; see `quadratic_drift`. `epsilon` is where the ratio is drawn to, as far as PPO's clip.

    The square of a ratio of e^50 does not fit into float32, where log-ratios therefore saturate at 40 nats.
    """

    epsilon: float = 0.2

    power: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ValueError(f"epsilon must be positive, not {self.epsilon}")

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        return quadratic_drift(log_ratio, advantage, self.epsilon)
