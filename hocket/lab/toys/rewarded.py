"""Toys of several claims: rewarded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import say
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.recipe import Recipe

SEEDS = range(5)


def said(group: str, text: str, reward: float = 0.0, **more: Any) -> dict[str, Any]:
    """One recorded answer of two decisions."""
    return {"group": group, "scores": {"reward": reward}, "logp": [-1.0, -0.5], "text": text, **more}


def document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Recorded answers as the microscope reads them."""
    return {"version": 1, "trajectories": [dict(row) for row in rows]}


def shaped(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """The returns that credit sees, by trajectory."""
    batch, _ = recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), {})
    return [float(value) for value in returns(batch)]


def advantages(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """One advantage per trajectory."""
    return [row[0] for row in inspect(recipe, document(rows))["advantages"]]


def group_relative(values: Sequence[float], epsilon: float = 1e-6) -> list[float]:
    """GRPO's advantages of one group, counted anew: (r - mean) / (std + epsilon), std with n - 1."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return [(value - mean) / (variance**0.5 + epsilon) for value in values]


def apart(found: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest difference."""
    return max((abs(a - b) for a, b in zip(found, wanted, strict=True)), default=0.0)


def answers_of(bench: Bench, question: int) -> tuple[list[tuple[int, ...]], torch.Tensor]:
    """Every answer to a question and its probability."""
    with torch.no_grad():
        return list(bench.world.answers()), bench.policy.logp(question).exp()


def line(values: Sequence[float]) -> str:
    """Figures of several seeds, in short."""
    return " ".join(f"{value:.3f}" for value in values)


def lines(**figures: Any) -> str:
    """Figures in a line as `say` puts them, but with every one of several values."""
    return say(**{name: _every(value) for name, value in figures.items()})


def _every(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _every(one) for name, one in value.items()}
    return line(value) if isinstance(value, (list, tuple)) else value
