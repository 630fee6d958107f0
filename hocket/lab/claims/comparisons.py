"""How claims compare: random batches, gradients, gaps between numbers, and findings with their figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bandit import flat
from hocket.lab.claims.finding import Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipe import Recipe

EXACT = 1e-12
"""Below this, two numbers in float64 are equal."""


def batches(count: int, *names: str | int, **settings: Any) -> Iterator[dict[str, Any]]:
    """Random recorded batches, the same at every call with equal arguments; `settings` as of `random_document`."""
    key = Key.of(0).derive("checks", *names)
    return (random_document(key.derive("document", number), **settings) for number in range(count))


def gradient(recipe: Recipe, batch: Mapping[str, Any]) -> Tensor:
    """d loss / d logp of every decision of a recorded batch, `[T]`."""
    return flat(inspect(recipe, batch))


def gap(left: Any, right: Any) -> float:
    """The largest absolute difference between numbers, nested lists of numbers (also of unequal lengths) or tensors.

    Raises:
        ValueError: where a difference is not a number, which `max` over several might hide.
    """
    if isinstance(left, (list, tuple)):
        return max((gap(first, second) for first, second in zip(left, right, strict=True)), default=0.0)
    first, second = (torch.as_tensor(side, dtype=torch.float64).detach() for side in (left, right))
    largest = float((first - second).abs().max()) if first.numel() else 0.0
    if math.isnan(largest):
        raise ValueError("a difference is not a number")
    return largest


def say(**figures: Any) -> str:
    """Figures in a line; several values as lowest/mean/highest."""
    return ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in figures.items())


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(entry)}" for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return f"{min(value):.3f}/{fmean(value):.3f}/{max(value):.3f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def below(limit: float, *also: bool, **figures: float) -> Finding:
    """Holds when all `figures` are below `limit`, and `also`."""
    return Finding(all(value < limit for value in figures.values()) and all(also), say(**figures))


def cases(rows: Iterable[Any], predicate: Callable[..., bool]) -> Finding:
    """Holds when `predicate` is true of every case; names the first that fails. A tuple is passed as arguments."""
    count, failed = 0, list[Any]()
    for row in rows:
        count += 1
        if not (predicate(*row) if isinstance(row, tuple) else predicate(row)):
            failed.append(row)
    shown = f"{count} cases" if not failed else f"{len(failed)} of {count} cases fail, the first is {failed[0]!r}"
    return Finding(count > 0 and not failed, shown)


def same_gradient(left: Recipe, right: Recipe, count: int = 20, *names: str | int, **settings: Any) -> Finding:
    """Two recipes have equal gradients on random batches."""
    gaps = (gap(gradient(left, batch), gradient(right, batch)) for batch in batches(count, *names, **settings))
    return below(EXACT, largest_difference_of_gradients=max(gaps))
