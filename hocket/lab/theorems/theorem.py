"""What a theorem is, and what its cases are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipe import Recipe
from hocket.recipes import find

About = Literal["advantage", "value", "gradient", "value and gradient", "expectation"]


@dataclass(frozen=True)
class Theorem:
    """A statement about methods.

    Attributes:
        statement: what holds, a sentence. source: where it stands, or that it was derived. about: what is compared.
        violation: how far a random case violates it, relative to the numbers in it.
        tolerance: what rounding may make of 0.
        counter: for a published claim that fails: how far the claim itself is off on a case kept here. The statement
            then says what holds instead.
        claim: that published claim.
    """

    statement: str
    source: str
    about: About
    violation: Callable[[Key], float]
    tolerance: float = 1e-9
    counter: Callable[[], float] | None = None
    claim: str = ""


# ---------------------------------------------------------------- cases


def batch(key: Key, *, gap: float = 0.2, graded: bool | None = None, **shape: int) -> dict[str, Any]:
    """A random batch; rewards are 0 or 1, or graded; the key's toss decides unless `graded` does."""
    toss = bool(key.derive("toss").numpy().random() < 0.5) if graded is None else graded
    document = random_document(key, gap=gap, graded=toss, **shape)
    for row in document["trajectories"]:
        row["truncated"] = False
        row.pop("logp_proximal")
    return document


def rewarded(document: Mapping[str, Any], change: Callable[[str, float], float]) -> dict[str, Any]:
    """The batch with every reward changed, as a function of its group and its value."""
    rows = [
        {**row, "scores": {"reward": change(row["group"], row["scores"]["reward"])}} for row in document["trajectories"]
    ]
    return {**document, "trajectories": rows}


def mixed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The batch with rewards 1 and 0 in every group: the first sample right, the second wrong."""
    counts: dict[str, int] = {}
    rows = []
    for row in document["trajectories"]:
        place = counts[row["group"]] = counts.get(row["group"], -1) + 1
        reward = row["scores"]["reward"] if place > 1 else float(place == 0)
        rows.append({**row, "scores": {"reward": reward}})
    return {**document, "trajectories": rows}


def of(recipe: str | Recipe, **changes: Any) -> Recipe:
    """A recipe with settings changed; double underscores stand for dots."""
    chosen = find(recipe) if isinstance(recipe, str) else recipe
    return chosen.but({path.replace("__", "."): value for path, value in changes.items()}) if changes else chosen


def advantages(recipe: Recipe, document: Mapping[str, Any]) -> Tensor:
    """One per trajectory, `[N]`, for credits that give all its decisions the same."""
    return torch.tensor([row[0] for row in inspect(recipe, document)["advantages"]], dtype=torch.float64)


def gradient(recipe: Recipe, document: Mapping[str, Any]) -> Tensor:
    """d loss / d logp of all decisions, `[T]`."""
    return flat(inspect(recipe, document)["gradient"])


def flat(rows: Any) -> Tensor:
    """Lists of numbers joined."""
    return torch.tensor([value for row in rows for value in row], dtype=torch.float64)


def rewards(document: Mapping[str, Any]) -> Tensor:
    """`[N]`."""
    return torch.tensor([row["scores"]["reward"] for row in document["trajectories"]], dtype=torch.float64)


def column(document: Mapping[str, Any], name: str) -> Tensor:
    """A per-decision field, `[T]`."""
    return flat([row[name] for row in document["trajectories"]])


def apart(left: Tensor, right: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    scale = max(float(left.abs().max()), float(right.abs().max()), 1e-6)
    return float((left - right).abs().max()) / scale


def bent(left: Tensor, right: Tensor) -> float:
    """How far `right` is from being a positive multiple of `left`."""
    square = float(left @ left)
    if square == 0.0:
        return float(right.abs().max())
    factor = float(left @ right) / square
    return apart(factor * left, right) if factor > 0 else 1.0


def excess(value: Tensor | float, bound: Tensor | float) -> float:
    """By how much `value` exceeds `bound`, 0 where it does not."""
    difference = torch.as_tensor(value, dtype=torch.float64) - torch.as_tensor(bound, dtype=torch.float64)
    return max(0.0, float(difference.max()))
