"""TRPO: the largest step whose KL to the old policy stays within a bound (Schulman et al., arXiv:1502.05477).

PPO's forerunner. `TrustRegionStep` solves for the natural gradient by conjugate gradients on Fisher-vector products,
scales it to the KL radius and backtracks until bound and gain hold; the critic learns after it. Advantages are GAE's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.methods.base.ppo import PPO
from hocket.objectives.drift import DriftSurrogate
from hocket.stages import Metrics, Policy
from hocket.types import Quantity
from hocket.update.gradient import GradientStep
from hocket.update.partial_losses import without_value
from hocket.update.problem import Problem, Update

NEARBY = 1e-4
"""KL in nats, at most four times which a difference of gradients moves the policy: far above float32's rounding."""


def flat(parts: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """One vector `[P]` from a tensor for each of `like`; a missing one is 0. Detached only if the parts are."""
    filled = [torch.zeros_like(weight) if part is None else part for part, weight in zip(parts, like, strict=True)]
    return torch.cat([part.reshape(-1) for part in filled]) if filled else torch.zeros(0)


def write(vector: Tensor, weights: Sequence[Tensor]) -> None:
    """Writes the parts of `vector` `[P]` into `weights`, in place."""
    start = 0
    with torch.no_grad():
        for weight in weights:
            weight.copy_(vector[start : start + weight.numel()].view_as(weight))
            start += weight.numel()


def acting_weights(problem: Problem) -> list[Tensor]:
    """The trained weights that log-probs depend on: all but a critic's or a value head's."""
    weights = [weight for group in problem.optimiser.param_groups for weight in group["params"] if weight.requires_grad]
    one = problem.counted()[:1]
    now = problem.policy.evaluate(problem.batch, {Quantity.LOGP}, one)
    slopes = torch.autograd.grad(now.logp[one].sum(), weights, allow_unused=True)
    return [weight for weight, slope in zip(weights, slopes, strict=True) if slope is not None]


def policy_before(problem: Problem) -> Policy:
    """An independent copy of the policy as it is now, adapters included; gradients are let go."""
    problem.optimiser.zero_grad(set_to_none=True)
    before = copy.deepcopy(problem.policy)
    before.module.requires_grad_(False)
    return before


def divergence(problem: Problem, before: Policy) -> float:
    """KL(before || now) over all actions, mean over the batch's counted decisions, nats."""
    decisions = problem.counted()
    now = evaluate_detached(before, problem.batch, {Quantity.KL_EXACT}, decisions, reference=problem.policy)
    return float(now.get(Quantity.KL_EXACT)[decisions].double().mean()) if len(decisions) else 0.0


def fisher_vector(problem: Problem, vector: Tensor, before: Policy, acting: Sequence[Tensor]) -> Tensor:
    """F v, F the Fisher matrix of `acting` weights over all actions, mean over counted decisions; `[P]`.

    F is the Hessian of KL(now || before) where the two are equal, as they must be here. Policies that say they are
    `twice_differentiable` are differentiated twice; for others, whose kernels are not, the product is the central
    difference of the gradient along v.
    """
    if getattr(problem.policy, "twice_differentiable", False):
        return _kl_gradient(problem, before, acting, along=vector)
    here = flat(acting, acting).detach()
    reach = _reach(problem, vector, before, acting)
    write(here + reach * vector, acting)
    ahead = _kl_gradient(problem, before, acting)
    write(here - reach * vector, acting)
    behind = _kl_gradient(problem, before, acting)
    write(here, acting)
    return (ahead - behind) / (2 * reach)


def _reach(problem: Problem, vector: Tensor, before: Policy, acting: Sequence[Tensor]) -> float:
    """How many times `vector` the weights may move for a difference: about `NEARBY` nats, where KL is quadratic.

    The weights are left where the last trial was.
    """
    here = flat(acting, acting).detach()
    reach = 1e-3 * float(here.norm()) / max(float(vector.norm()), 1e-30)
    for _ in range(12):
        write(here + reach * vector, acting)
        moved = divergence(problem, before)
        if moved <= 4 * NEARBY:
            break
        reach *= min(0.5, max(0.01, (NEARBY / moved) ** 0.5)) if math.isfinite(moved) else 0.01
    return reach


def _kl_gradient(problem: Problem, before: Policy, acting: Sequence[Tensor], along: Tensor | None = None) -> Tensor:
    """The gradient of mean KL(now || before) in the acting weights, or its derivative `along` a vector; `[P]`."""
    decisions = problem.counted()
    total = torch.zeros_like(flat(acting, acting).detach())
    for chunk in problem.policy.chunks(problem.batch, decisions):
        now = problem.policy.evaluate(problem.batch, {Quantity.KL_EXACT}, chunk, reference=before)
        mean = now.get(Quantity.KL_EXACT)[chunk].sum() / len(decisions)
        slopes = torch.autograd.grad(mean, acting, create_graph=along is not None)
        if along is not None:
            slope = flat(slopes, acting) @ along
            slopes = torch.autograd.grad(slope, acting, allow_unused=True, materialize_grads=True)
        total += flat(slopes, acting).detach()
    return total


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
class TrustRegionStep(Update):
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
        acting = acting_weights(problem)
        gradient = flat([weight.grad for weight in acting], acting)
        metrics = {**report, "gradient/norm": float(gradient.norm()), "update/kl": 0.0, "update/skipped": 1.0}
        if not math.isfinite(metrics["gradient/norm"] + report["loss"]) or metrics["gradient/norm"] == 0:
            return metrics
        before = policy_before(problem)

        def product(vector: Tensor) -> Tensor:
            return fisher_vector(problem, vector, before, acting) + self.damping * vector

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
            moved = divergence(problem, before)
            if moved <= self.radius and problem.loss() < loss:
                return {"update/kl": moved, "update/trials": trial + 1.0, "update/skipped": 0.0}
        write(start, acting)
        return {"update/trials": float(self.trials)}

    def _critic_step(self, problem: Problem, key: Key) -> Metrics:
        acting = acting_weights(problem)
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


TRPO = PPO.but(
    name="trpo",
    title="Trust Region Policy Optimization",
    source="Schulman et al., arXiv:1502.05477; GAE arXiv:1506.02438",
    catalogue_ids=("trpo",),
    axes=("objective", "update"),
    formula="max mean_t r_t A_t  s.t.  mean_t KL(old || new) <= 0.01;  step sqrt(2 delta / x'Fx) x, x = F^-1 g",
    conventions={
        **PPO.conventions,
        "clipping side": "none; values are not clipped",
        "trust region": "KL over all actions, mean over the batch's decisions, at most 0.01 nats",
        "Fisher matrix": "over all actions at all decisions of the batch, plus 0.01 I, which also enters x'Fx",
        "line search": "factor 0.5, 10 trials; accepted where the KL holds and the loss has fallen",
        "updates per batch": "1 of the policy; the critic alone takes 4 epochs of 4 mini-batches of AdamW",
    },
    objective=DriftSurrogate(drift=None, aggregate="token-mean"),
    update=TrustRegionStep(),
)
