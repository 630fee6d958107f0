"""First-order updates: epochs over mini-batches with AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from hocket.core.keys import Key
from hocket.stages import Metrics, Policy
from hocket.update.problem import Problem, Update


@dataclass(frozen=True)
class GradientStep(Update):
    """AdamW (or plain SGD) on the gradient of the loss, `epochs` passes in `minibatches` parts each.

    Attributes:
        lr: learning rate; None takes the policy's own for its size.
        clip_norm: largest gradient norm; None does not clip.
        warmup: steps over which the learning rate rises linearly.
        schedule: what follows over the run: `constant`, `linear` to 0 or `cosine` to 0.
        target_kl: ends a step early once KL(before || now) exceeds it, in nats.
        method: `adamw`, or `sgd` without momentum, which ignores `betas`.
    """

    lr: float | None = None
    epochs: int = 1
    minibatches: int = 1
    clip_norm: float | None = 1.0
    warmup: int = 0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    target_kl: float | None = None
    method: Literal["adamw", "sgd"] = "adamw"

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.minibatches < 1:
            raise ValueError("epochs and minibatches must be at least 1")
        if self.lr is not None and not self.lr > 0:
            raise ValueError(f"lr must be positive, not {self.lr}")
        if self.warmup < 0:
            raise ValueError(f"warmup must be at least 0, not {self.warmup}")
        if self.method not in ("adamw", "sgd"):
            raise ValueError(f"method must be adamw or sgd, not {self.method!r}")

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """A fresh optimiser over the policy's trainable weights."""
        weights = [p for p in policy.module.parameters() if p.requires_grad]
        lr = policy.default_lr if self.lr is None else self.lr
        if self.method == "sgd":
            return torch.optim.SGD(weights, lr=lr, weight_decay=self.weight_decay)
        return torch.optim.AdamW(weights, lr=lr, betas=self.betas, weight_decay=self.weight_decay, fused=True)

    def lr_factor(self, step: int, total: int) -> float:
        """The factor of the learning rate at `step` (counted from 1) of `total`."""
        if step <= self.warmup:
            return step / self.warmup
        if self.schedule == "constant" or total <= self.warmup:
            return 1.0
        progress = min(1.0, (step - 1 - self.warmup) / (total - self.warmup))
        return 1.0 - progress if self.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))

    def step(self, problem: Problem, key: Key) -> Metrics:
        base = [group["lr"] for group in problem.optimiser.param_groups]
        try:
            for group, lr in zip(problem.optimiser.param_groups, base, strict=True):
                group["lr"] = lr * problem.lr_factor
            return {**self._passes(problem, key), "update/lr": problem.optimiser.param_groups[0]["lr"]}
        finally:
            for group, lr in zip(problem.optimiser.param_groups, base, strict=True):
                group["lr"] = lr

    def _passes(self, problem: Problem, key: Key) -> Metrics:
        reports: list[Metrics] = []
        skipped = 0
        for batch in problem.batches(self.epochs, self.minibatches, key):
            report = problem.gradient(batch)
            report["gradient/norm"] = problem.clip(self.clip_norm)
            reports.append(report)
            if not math.isfinite(report["gradient/norm"] + report["loss"]):
                skipped += 1  # A non-finite gradient must not change the weights.
                continue
            problem.optimiser.step()
            if self.target_kl is not None and problem.kl() > self.target_kl:
                break
        names = {name: None for report in reports for name in report}
        means = {name: _mean([report[name] for report in reports if name in report]) for name in names}
        return {**means, "update/gradients": float(len(reports)), "update/skipped": float(skipped)}


def _mean(values: list[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
