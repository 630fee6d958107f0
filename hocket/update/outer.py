"""The outer step of federated learning: new shared weights from the changes of all participants (FedAvg, DiLoCo)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class OuterStep:
    """Nesterov's momentum over mean changes: v' = mu v + c, w' = w + lr (c + mu v').

    c is the mean change of all participants since they last had the same weights w. With lr 1 and mu 0 the result is
    the mean of their weights, federated averaging (McMahan et al., arXiv:1602.05629, algorithm 1); DiLoCo (Douillard et
    al., arXiv:2311.08105) uses 0.7 and 0.9.

    Attributes:
        lr, momentum: of the step, positive and in [0, 1).

    Raises:
        ValueError: when they are not.
    """

    lr: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not (self.lr > 0 and 0 <= self.momentum < 1):
            raise ValueError(f"lr must be positive and momentum in [0, 1), not {self.lr} and {self.momentum}")

    def __call__(self, weights: Tensor, change: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        """The next weights and velocity, all of one shape."""
        velocity = self.momentum * velocity + change
        return weights + self.lr * (change + self.momentum * velocity), velocity
