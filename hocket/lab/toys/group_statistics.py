"""Toys of several claims: group statistics."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket import recipes
from hocket.lab.claims.claim import Finding
from hocket.lab.groups import Document, Groups, document
from hocket.lab.microscope import inspect
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.recipe import Recipe

EXACT = 1e-12


def bandit(success: float, wrong: int = 2) -> Groups:
    """One right answer of probability `success`, the rest shared unevenly by `wrong` wrong ones."""
    world = World(1, 1 + wrong, 1, lambda question, answer: float(answer[0] == 0))
    policy = Tabular(world)
    shares = [(1 - success) * 2 * (place + 1) / (wrong * (wrong + 1)) for place in range(wrong)]
    policy.logits.data[:] = torch.tensor([success, *shares], dtype=torch.float64).log()
    return Groups(policy)


def sentences(reward: dict[tuple[int, ...], float]) -> Groups:
    """Answers (0), (1 0) and (1 1), of unequal length, under an uneven policy."""
    world = World(1, 2, 2, lambda question, answer: reward.get(answer, 0.0), end=0)
    policy = Tabular(world)
    policy.logits.data[:] = torch.tensor([[0.3, -0.2], [0.5, 0.1]], dtype=torch.float64)
    return Groups(policy)


def flat(gradients: Sequence[Sequence[float]]) -> Tensor:
    """All numbers in one row."""
    return torch.tensor([value for row in gradients for value in row], dtype=torch.float64)


def gradients(recipe: Recipe, batch: Document) -> Tensor:
    """d loss / d logp of every decision, in the order of the batch."""
    return flat(inspect(recipe, batch)["gradient"])


def finding(saw: str, *conditions: bool) -> Finding:
    """Holds when all conditions do."""
    return Finding(all(conditions), saw)


def _binary_groups(size: int) -> list[list[float]]:
    """A group of `size` for every number of successes, 0 to all."""
    return [[1.0] * right + [0.0] * (size - right) for right in range(size + 1)]


GRPO_EXACT = recipes.find("grpo").but({"credit.epsilon": 0.0})


def _rows_with_reference(own: Sequence[float], reference: Sequence[float]) -> Document:
    rows = [{"group": "0", "scores": {"reward": one}, "logp": [-0.5 - 0.001 * n]} for n, one in enumerate(own)]
    rows += [
        {"group": "0", "scores": {"reward": one}, "logp": [-0.7 - 0.001 * n], "source": "baseline"}
        for n, one in enumerate(reference)
    ]
    return document(rows)
