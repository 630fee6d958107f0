"""A softmax over a handful of answers, and recipes minimised on it exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.columns import Column
from hocket.lab.microscope import RecordedBatch
from hocket.recipe import Recipe
from hocket.types import Evaluation


@dataclass(frozen=True)
class Bandit:
    """One question with K answers of one decision each.

    Attributes:
        rewards: of each answer, `[K]`. old, reference: log-probs of the policies that sampled and began, `[K]`.
        copies: how often each answer was sampled, `[K]`; their shares stand for a distribution.
    """

    rewards: Sequence[float]
    old: Tensor
    reference: Tensor
    copies: Sequence[int]

    def answers(self) -> Tensor:
        """Which answer each sample is, `[N]`."""
        return torch.repeat_interleave(torch.arange(len(self.copies)), torch.tensor(self.copies))

    def document(self, logp: Tensor) -> dict[str, Any]:
        """The samples in the microscope's form, the current policy being `logp` `[K]`."""
        rows = [
            {
                "id": f"{number}",
                "group": "question",
                "scores": {"reward": float(self.rewards[answer])},
                "logp": [float(logp[answer])],
                "logp_behaviour": [float(self.old[answer])],
                "logp_ref": [float(self.reference[answer])],
            }
            for number, answer in enumerate(self.answers().tolist())
        ]
        return {"version": 1, "trajectories": rows}

    def batch(self, recipe: Recipe) -> Batch:
        """The samples with the recipe's credit."""
        batch = RecordedBatch(self.document(self.old)).batch
        if Column.PROXIMAL in recipe.reads:
            old = batch.logp["behaviour"]
            batch = batch.but(logp={**batch.logp, "proximal": RecordedNumbers(old.values, old.present)})
        return recipe.compute_credit(batch, recipe.init(), {})[0]

    def loss(self, recipe: Recipe, logits: Tensor, batch: Batch) -> Tensor:
        """The recipe's loss of a softmax policy, differentiable in its logits `[K]`."""
        logp = torch.log_softmax(logits, -1)[self.answers()]
        return torch.stack([term.total() for term in recipe.loss(Evaluation(logp), batch)]).sum()

    def minimise(self, recipe: Recipe, *, start: Tensor | None = None, steps: int = 300) -> Tensor:
        """The probabilities `[K]` at which L-BFGS ends from `start` (the reference's log-probs when None)."""
        batch = self.batch(recipe)
        return minimised(
            lambda logits: self.loss(recipe, logits, batch), self.reference if start is None else start, steps
        )


def minimised(loss: Any, start: Tensor, steps: int = 300) -> Tensor:
    """Softmax probabilities where `loss` of their logits is least, by L-BFGS with line search from `start`."""
    return torch.softmax(least(loss, start, steps), -1)


def least(loss: Any, start: Tensor, steps: int = 300) -> Tensor:
    """Where `loss` is least, by L-BFGS with line search from `start`."""
    logits = start.detach().clone().double().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [logits], max_iter=steps, tolerance_grad=1e-13, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value: Tensor = loss(logits)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return logits.detach()


def descended(loss: Any, start: Tensor, *, lr: float, steps: int) -> Tensor:
    """Softmax probabilities after plain gradient descent on their logits."""
    logits = start.detach().clone().double()
    for _ in range(steps):
        leaf = logits.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss(leaf), leaf)
        logits = logits - lr * slope
    return torch.softmax(logits, -1)


def total_variation(left: Tensor, right: Tensor) -> float:
    """Half the sum of absolute differences."""
    return float((left - right).abs().sum() / 2)


def flat(result: Mapping[str, Any], name: str = "gradient") -> Tensor:
    """A field of the microscope's output as one float64 tensor."""
    return torch.tensor([value for row in result[name] for value in row], dtype=torch.float64)
