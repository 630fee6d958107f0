"""A quadratic penalty on the ratio."""

from __future__ import annotations

from torch import Tensor


def quadratic_drift(log_ratio: Tensor, advantage: Tensor, epsilon: float) -> Tensor:
    """f = |A| (r - 1)^2 / (2 epsilon), all `[E]` (Simple Policy Optimization, arXiv 2401.16025).

    r A - f is concave in r, with its maximum at r = 1 + epsilon sign(A): further out the gradient points back.
    """
    return advantage.abs() * log_ratio.expm1().square() / (2 * epsilon)
