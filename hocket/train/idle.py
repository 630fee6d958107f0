"""Stages that changed nothing in a step: a method whose own part is idle is another method, silently."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.components import value_at
from hocket.core.errors import HocketError
from hocket.core.signals import rewards_by_occurrence
from hocket.recipe import Recipe
from hocket.stages import Stateful


def idle_stages(recipe: Recipe, parent: Recipe | None, steps: Sequence[tuple[str, Batch]]) -> list[str]:
    """The classes of stages that changed nothing, given the batch after each stage of credit (`Recipe.credit_steps`).

    A shaping changes rewards, weights, segments or what is known of trajectories, and a credit gives other advantages,
    weights or pairs than that of `parent`, the recipe it was derived from. A correction without effect is what one
    hopes for. Without any signal none is named.
    """
    names = []
    for (_, before), (slot, after) in itertools.pairwise(steps):
        if slot == "credit":
            plain = _as_parent(recipe, parent, before)
            same = plain is not None and _equal(_given(after.occurrences), _given(plain))
        else:
            same = slot != "correction" and _untouched(before, after)
        if same:
            names.append(type(value_at(recipe, slot)).__name__)
    occurrences = steps[-1][1].occurrences
    signal = occurrences.pairs is not None or bool(((occurrences.weight != 0) & (occurrences.advantage != 0)).any())
    return names if signal else []


def _as_parent(recipe: Recipe, parent: Recipe | None, batch: Batch) -> Occurrences | None:
    """What the credit gives whose place this one took; None where it is the same, remembers or reads other columns."""
    if parent is None or parent.credit == recipe.credit or not parent.credit.reads <= recipe.reads:
        return None
    if isinstance(parent.credit, Stateful) or isinstance(recipe.credit, Stateful) or parent.credit.needs_baseline:
        return None
    with suppress(HocketError, ValueError):  # It may ask for samples that this recipe does not draw.
        return parent.credit(batch)
    return None


def _given(occurrences: Occurrences) -> list[Tensor | None]:
    return [occurrences.advantage, occurrences.weight, occurrences.pairs]


def _untouched(before: Batch, after: Batch) -> bool:
    if after.info is not before.info or after.scores.keys() != before.scores.keys():
        return False
    return _equal(*([rewards_by_occurrence(b), b.occurrences.weight, b.segment] for b in (before, after)))


def _equal(left: Iterable[Tensor | None], right: Iterable[Tensor | None]) -> bool:
    for first, other in zip(left, right, strict=True):
        if first is None or other is None:
            if first is not other:
                return False
        elif first.shape != other.shape or not torch.allclose(first.double(), other.double(), rtol=1e-9, atol=1e-9):
            return False
    return True
