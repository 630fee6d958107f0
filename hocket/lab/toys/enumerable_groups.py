"""Policies small enough to enumerate, groups of 0 and 1, groups beside a reference, random batches, a regression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.documents import random_document, random_documents
from hocket.lab.groups import Document, EnumeratedGroups, document, first_advantages, recorded
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.recipe import Recipe
from hocket.recipes import find

GRPO_EXACT = find("grpo").but({"credit.epsilon": 0.0})


def bandit(success: float, wrong: int = 2) -> EnumeratedGroups:
    """One right answer of probability `success`, the rest shared unevenly by `wrong` wrong ones."""
    policy = Tabular(World(1, 1 + wrong, 1, lambda question, answer: float(answer[0] == 0)))
    shares = [(1 - success) * 2 * (place + 1) / (wrong * (wrong + 1)) for place in range(wrong)]
    policy.logits.data[:] = torch.tensor([success, *shares], dtype=torch.float64).log()
    return EnumeratedGroups(policy)


def sentences(reward: dict[tuple[int, ...], float]) -> EnumeratedGroups:
    """Answers (0), (1 0) and (1 1), of unequal length, under an uneven policy."""
    policy = Tabular(World(1, 2, 2, lambda question, answer: reward.get(answer, 0.0), end=0))
    policy.logits.data[:] = torch.tensor([[0.3, -0.2], [0.5, 0.1]], dtype=torch.float64)
    return EnumeratedGroups(policy)


def binary_groups(size: int) -> list[list[float]]:
    """A group of `size` for every number of successes, 0 to all."""
    return [[1.0] * right + [0.0] * (size - right) for right in range(size + 1)]


def binary_advantages(recipe: Recipe, size: int) -> list[list[float]]:
    """The advantages of each of the binary groups."""
    flat = first_advantages(recipe, recorded(binary_groups(size)))
    return [flat[size * right : size * (right + 1)] for right in range(size + 1)]


def beside_reference(own: Sequence[float], reference: Sequence[float]) -> Document:
    """A group of rewards and answers of a reference to the same question."""
    return document([*recorded([own])["trajectories"], *recorded([reference], source="baseline")["trajectories"]])


def documents(count: int, *names: str | int, **settings: Any) -> Iterator[dict[str, Any]]:
    """Random batches as `batches` of the harness has them, but keyed by number alone."""
    return random_documents(Key.of(0).derive("checks", *names), count, **settings)


def scored_document(seed: int, names: Sequence[str], scales: Sequence[float] = ()) -> dict[str, Any]:
    """A random batch with uniform scores of these names, times their scales."""
    batch, rng = random_document(Key.of(seed).derive("objectives")), Key.of(seed).derive("scores").numpy()
    for row in batch["trajectories"]:
        drawn = rng.random(len(names))
        row["scores"] = {n: float(x) * s for n, x, s in zip(names, drawn, scales or [1.0] * len(names), strict=True)}
    return batch


def softmax(*logits: float) -> Tensor:
    """Log-probs."""
    return torch.log_softmax(torch.tensor(logits, dtype=torch.float64), 0)


REWARDS = (1.0, 0.0, 0.5, 0.2, 0.9)
"""Of five answers to one question; then what a reference and an older policy think of them."""
REFERENCE, STALE = softmax(0.3, 1.2, -0.4, 0.0, -1.0), softmax(-1.5, 0.2, 0.9, 1.4, -0.8)
