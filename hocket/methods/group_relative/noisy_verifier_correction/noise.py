"""Verdicts of a verifier that errs, corrected for its error rates.

A verifier is a channel on the true verdict r*: `rho0 = P(r = 1 | r* = 0)`, `rho1 = P(r = 0 | r* = 1)`, with
rho0 + rho1 < 1 (Reinforcement Learning with Verifiable yet Noisy Rewards, arXiv 2510.00915).
"""

from __future__ import annotations

from torch import Tensor


def backward(verdict: Tensor, false_positive: Tensor, false_negative: Tensor) -> Tensor:
    """`(r - rho0) / (1 - rho0 - rho1)`: its mean over the channel is r*. All `[N]`."""
    return (verdict - false_positive) / (1 - false_positive - false_negative)


def forward(verdict: Tensor, false_negative: Tensor) -> Tensor:
    """w(1) = rho1, w(0) = rho1 - 1, that is r - (1 - rho1): its mean is (1 - rho0 - rho1) (r* - 1). All `[N]`.

    So the expected score-function update is the clean one times 1 - rho0 - rho1, without knowing rho0. It differs from
    the verdict by a constant: any centring of rewards within a group removes it where rho1 is constant there.
    """
    return verdict - (1 - false_negative)
