"""Toys of several claims: objectives."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from hocket.core.keys import Key
from hocket.lab.documents import random_document

KEY = Key.of(0).derive("checks", "objectives")


def documents(number: int, **settings: Any) -> list[dict[str, Any]]:
    """Random batches."""
    return [random_document(KEY.derive("document", n), **settings) for n in range(number)]


def verdict_document(rates: Sequence[int], samples: int = 16) -> dict[str, Any]:
    """A group per rate, that many of its answers right; one decision each, policy and old policy equal."""
    rows = [
        {"group": f"{rate}", "scores": {"reward": float(number < rate)}, "logp": [-1.0]}
        for rate in rates
        for number in range(samples)
    ]
    return {"version": 1, "trajectories": rows}


def spread(values: Sequence[float]) -> str:
    """Lowest, mean and highest."""
    return f"{min(values):.3f}/{mean(values):.3f}/{max(values):.3f}"


SEEDS = tuple(range(5))
