"""The natural gradient inside a trust region."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.keys import Key
from hocket.stages import Metrics, Policy
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem, flat, without_value, write


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, iterations: int, tolerance: float = 1e-10
) -> Tensor:
    """x with `product(x)` near `target`, by conjugate gradients from 0 (Hestenes and Stiefel 1952).

    `product` multiplies with a positive semi-definite matrix. It ends once the squared residual has fallen to
    `tolerance` times that of x = 0.
    """
    found, residual = torch.zeros_like(target), target.clone()
    direction, left = residual.clone(), float(residual @ residual)
    enough = tolerance * left
    for _ in range(iterations):
        if left <= enough:
            break
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:
            break
        length = left / curvature
        found = found + length * direction
        residual = residual - length * image
        before, left = left, float(residual @ residual)
        direction = residual + (left / before) * direction
    return found


@dataclass(frozen=True)
class TrustRegionStep:
    """Maximises the surrogate subject to mean KL(before || now) <= `radius` (TRPO, arXiv 1502.05477).

    Conjugate gradients solve (F + damping I) x = g, F the Fisher matrix over all actions at the batch's decisions and
    g the gradient; the step sqrt(2 radius / x'(F + damping I)x) x is then shortened by `backtrack` until the KL over
    all actions holds and the loss has fallen. If it never does, nothing changes.

    What the policy does not act with (a critic, a value head) learns after that by AdamW, in `epochs` passes of
    `minibatches` parts with learning rate `lr`.

    Attributes:
        radius: delta, in nats, mean over decisions. iterations: of conjugate gradients.
        damping: added to the Fisher matrix. backtrack: factor per trial. trials: the most step lengths tried.
        lr, epochs, minibatches, clip_norm: of the critic; `lr` None takes the policy's own for its size.
    """

    radius: float = 0.01
    iterations: int = 10
    damping: float = 0.01
    backtrack: float = 0.5
    trials: int = 10
    lr: float | None = None
    epochs: int = 4
    minibatches: int = 4
    clip_norm: float | None = 1.0

    def __post_init__(self) -> None:
        if self.radius <= 0 or self.damping < 0:
            raise ValueError(f"radius must be positive and damping at least 0, not {self.radius} and {self.damping}")
        if not 0 < self.backtrack < 1 or self.trials < 1 or self.iterations < 1:
            raise ValueError("backtrack must lie between 0 and 1, trials and iterations must be at least 1")
        _ = self._critic  # Its settings are checked there.

    @property
    def _critic(self) -> GradientStep:
        return GradientStep(lr=self.lr, epochs=self.epochs, minibatches=self.minibatches, clip_norm=self.clip_norm)

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """AdamW over all weights; only the critic's ever have a gradient when it steps."""
        return self._critic.optimiser(policy)

    def lr_factor(self, step: int, total: int) -> float:
        """The critic's learning rate is constant."""
        return 1.0

    def step(self, problem: Problem, key: Key) -> Metrics:
        surrogate = replace(problem, loss_terms=without_value(problem))
        metrics = self._policy_step(surrogate)
        problem.first = surrogate.first
        return {**metrics, **self._critic_step(problem, key)}

    def _policy_step(self, problem: Problem) -> Metrics:
        report = problem.gradient()
        acting = problem.acting()
        gradient = flat([weight.grad for weight in acting], acting)
        metrics = {**report, "gradient/norm": float(gradient.norm()), "update/kl": 0.0, "update/skipped": 1.0}
        if not math.isfinite(metrics["gradient/norm"] + report["loss"]) or metrics["gradient/norm"] == 0:
            return metrics
        before = problem.before()

        def product(vector: Tensor) -> Tensor:
            return problem.fisher_vector(vector, before) + self.damping * vector

        direction = conjugate_gradient(product, -gradient, self.iterations)
        curvature = float(direction @ product(direction))
        if not math.isfinite(curvature) or curvature <= 0:
            return metrics
        whole = math.sqrt(2 * self.radius / curvature) * direction
        return {**metrics, **self._search(problem, before, acting, whole, report["loss"])}

    def _search(self, problem: Problem, before: Policy, acting: list[Tensor], whole: Tensor, loss: float) -> Metrics:
        """Backtracks from the step `whole` to the first that keeps to the radius and lowers the loss."""
        start = flat(acting, acting).detach()
        for trial in range(self.trials):
            write(start + self.backtrack**trial * whole, acting)
            divergence = problem.divergence(before)
            if divergence <= self.radius and problem.loss() < loss:
                return {"update/kl": divergence, "update/trials": trial + 1.0, "update/skipped": 0.0}
        write(start, acting)
        return {"update/trials": float(self.trials)}

    def _critic_step(self, problem: Problem, key: Key) -> Metrics:
        acting = problem.acting()
        silent = {id(weight) for weight in acting}
        if all(id(weight) in silent for group in problem.optimiser.param_groups for weight in group["params"]):
            return {}
        losses = []
        for batch in problem.batches(self.epochs, self.minibatches, key):
            report = problem.gradient(batch)
            for weight in acting:
                weight.grad = None  # AdamW leaves weights without gradient as they are.
            if math.isfinite(problem.clip(self.clip_norm) + report["loss"]):
                problem.optimiser.step()
            losses.append(report["loss"])
        return {"update/gradients": float(len(losses))}
