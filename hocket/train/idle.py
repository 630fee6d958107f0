"""Stages that changed nothing in a step: a method whose own part is idle is another method, silently."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.components import value_at
from hocket.core.signals import rewards_by_occurrence
from hocket.recipe import Recipe
from hocket.stages import Credit, Stateful

PREFIX = "idle/"
"""Of metrics: `idle/STAGE` is 1 in a step in which that stage changed nothing."""


def idle_stages(recipe: Recipe, origin: Recipe | None, steps: Sequence[tuple[str, Batch]]) -> list[str]:
    """The classes of stages that changed nothing, given the batch after each stage of credit (`Recipe.credit_steps`).

    A shaping changes rewards or weights, and a credit gives other advantages, weights or pairs than that of `origin`,
    the recipe it was made of. A correction without effect is what one hopes for. Nothing is said without any signal.
    """
    names = []
    for (_, before), (slot, after) in itertools.pairwise(steps):
        if slot == "credit":
            plain = _origin_credit(recipe, origin)
            same = plain is not None and _equal(_given(after.occurrences), _given(plain(before)))
        else:
            same = slot != "correction" and _equal(_seen(before), _seen(after))
        if same:
            names.append(type(value_at(recipe, slot)).__name__)
    seen = steps[-1][1].occurrences
    signal = seen.pairs is not None or bool(((seen.weight != 0) & (seen.advantage != 0)).any())
    return names if signal else []


def _origin_credit(recipe: Recipe, origin: Recipe | None) -> Credit | None:
    """The credit that this one took the place of; None where it is none of its own, or one of them remembers."""
    if origin is None or origin.credit == recipe.credit:
        return None
    return None if isinstance(origin.credit, Stateful) or isinstance(recipe.credit, Stateful) else origin.credit


def _given(seen: Occurrences) -> list[Tensor | None]:
    return [seen.advantage, seen.weight, seen.pairs]


def _seen(batch: Batch) -> list[Tensor | None]:
    return [rewards_by_occurrence(batch), batch.occurrences.advantage, batch.occurrences.weight]


def _equal(left: Iterable[Tensor | None], right: Iterable[Tensor | None]) -> bool:
    for one, other in zip(left, right, strict=True):
        if one is None or other is None:
            if one is not other:
                return False
        elif one.shape != other.shape or not torch.allclose(one.double(), other.double(), rtol=1e-9, atol=1e-9):
            return False
    return True
