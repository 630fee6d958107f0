"""Whatever the batch, every recipe gives finite numbers; values and gradients saturate instead of overflowing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from unrecorded import recordable

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipes import all_recipes, find

EXTREME = 50.0
"""Nats between the current and the sampling policy at each decision."""


def with_gaps(document: dict[str, Any], largest: float) -> dict[str, Any]:
    """The batch with log-prob gaps of up to `largest` at every decision, most at the bound itself."""
    rng = Key.of(7).derive("gaps").numpy()
    for row in document["trajectories"]:
        size = len(row["logp"])
        gaps = largest * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size)
        row["logp_behaviour"] = (-0.5 * largest - 0.5 * gaps).tolist()
        row["logp"] = (-0.5 * largest + 0.5 * gaps).tolist()
        row["logp_ref"] = (-0.5 * largest + 0.5 * rng.permutation(gaps)).tolist()
        row["logp_proximal"] = row["logp_behaviour"]
    return document


def batches() -> dict[str, dict[str, Any]]:
    key = Key.of(3)
    found = {
        "plain": random_document(key),
        "graded": random_document(key, graded=True),
        "groups of one": random_document(key, groups=4, samples=1),
        "one token in all": random_document(key, groups=1, samples=1, longest=1),
        "one token each": random_document(key, longest=1),
        "gaps of 50 nats": with_gaps(random_document(key, longest=10), EXTREME),
        "gaps of 500 nats in a sequence": with_gaps(random_document(key, longest=20), EXTREME / 2),
        "gaps beyond the bound": with_gaps(random_document(key, longest=10), 20 * EXTREME),
    }
    for name, value in (("all right", 1.0), ("all wrong", 0.0), ("huge rewards", 1e6)):
        found[name] = random_document(key.derive(name))
        for number, row in enumerate(found[name]["trajectories"]):
            row["scores"] = {"reward": value * (number % 3) if name == "huge rewards" else value}
    compared = random_document(key.derive("compared"))
    for row in compared["trajectories"][::4]:
        row["source"] = "baseline"
    truncated = random_document(key.derive("truncated"))
    for row in truncated["trajectories"]:
        row["truncated"] = True
    untrained = random_document(key.derive("untrained"))
    for row in untrained["trajectories"][:6]:
        row["trained"] = [False] * len(row["logp"])
    return found | {"all truncated": truncated, "half without weight": untrained, "a baseline in each group": compared}


BATCHES = batches()


SECOND = {
    "safe-rlhf-v": "cost",
    "rluf": "love",
    "mpo-mixed": "preference",
    "mobile-r1-steps": "right",
    "mobile-r1": "finished",
}
"""Recipes that read a second score, and its name."""


def with_second(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The batch with a second score."""
    rows = [{**row, "scores": {**row["scores"], name: n % 3 / 2}} for n, row in enumerate(document["trajectories"])]
    return {**document, "trajectories": rows}


@pytest.mark.parametrize("name", sorted(all_recipes()))
def test_every_number_is_finite(name: str) -> None:
    ran = 0
    for kind, document in BATCHES.items():
        try:
            seen = inspect(find(name), with_second(document, SECOND[name]) if name in SECOND else document)
        except HocketError:
            continue
        ran += 1
        numbers = [
            seen["loss"],
            *(value for field in ("advantages", "gradient", "weight") for row in seen[field] for value in row),
        ]
        assert all(math.isfinite(value) for value in numbers), kind
    assert ran or name in UNSEEN or not recordable(name, find(name)), "it ran on no batch at all"


UNSEEN: frozenset[str] = frozenset(
    {
        "happo",
        "happo-popart",
        "happo-value-norm",
        "optimal-token-baseline",
        "representation-reward-reranking",
        "tw-grpo",
    }
)
"""Recipes that read what a recorded batch cannot hold."""


def test_saturation_is_counted() -> None:
    seen = inspect(find("grpo"), BATCHES["gaps beyond the bound"])
    assert seen["metrics"]["ratio/saturated"] > 0
    assert inspect(find("grpo"), BATCHES["gaps of 50 nats"])["metrics"]["ratio/saturated"] == 0
