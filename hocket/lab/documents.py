"""Random batches in the microscope's form, with every field that recipes read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hocket.core.keys import Key

_WORDS = ("first", "then", "so", "because", "check", "sum", "two", "three", "four", "again")


def random_document(
    key: Key,
    *,
    groups: int = 3,
    samples: int = 4,
    longest: int = 6,
    gap: float = 0.2,
    graded: bool = False,
    shortest: int = 1,
) -> dict[str, Any]:
    """A batch of `groups` x `samples` answers of `shortest` to `longest` decisions.

    Rewards are 0 or 1, or uniform when `graded`. `gap` is the standard deviation of log-prob differences between the
    current policy and the one that sampled, per decision; half of it to the proximal one, thrice it to the reference.
    """
    rng = key.numpy()
    sizes = shortest, longest
    rows = [_row(rng, group, number, sizes, gap, graded) for group in range(groups) for number in range(samples)]
    return {"version": 1, "trajectories": rows}


def random_documents(key: Key, count: int, **settings: Any) -> Iterator[dict[str, Any]]:
    """Random batches, of keys derived by number."""
    return (random_document(key.derive(number), **settings) for number in range(count))


def _row(
    rng: np.random.Generator, group: int, number: int, sizes: tuple[int, int], gap: float, graded: bool
) -> dict[str, Any]:
    length = int(rng.integers(sizes[0], sizes[1] + 1))
    behaviour = -rng.exponential(1.0, length) - 0.01
    right = bool(rng.random() < 0.5)
    reward = float(rng.random()) if graded else float(right)
    words = [_WORDS[int(rng.integers(len(_WORDS)))] for _ in range(length)]
    label = "right" if right else f"wrong {int(rng.integers(2))}"
    embedding = rng.random(4)
    return {
        "id": f"{group}/{number}",
        "group": f"group {group}",
        "scores": {"reward": reward},
        "tokens": [int(token) for token in rng.integers(0, 20, length)],
        "logp_behaviour": behaviour.tolist(),
        "logp_proximal": np.minimum(behaviour + gap / 2 * rng.normal(size=length), -1e-3).tolist(),
        "logp_ref": np.minimum(behaviour + 3 * gap * rng.normal(size=length), -1e-3).tolist(),
        "logp": np.minimum(behaviour + gap * rng.normal(size=length), -1e-3).tolist(),
        "entropy": rng.exponential(0.5, length).tolist(),
        "value": rng.normal(size=length).tolist(),
        "segment": sorted(int(place) for place in rng.integers(0, 3, length)),
        "text": f"<think>{' '.join(words)}</think><answer>{label}</answer>",
        "label": label,
        "embedding": (embedding / np.linalg.norm(embedding)).tolist(),
        "truncated": bool(rng.random() < 0.1),
        "history": {"rewards": rng.random(2).tolist()},
        "info": _info(number, length, right),
    }


def _info(number: int, length: int, right: bool) -> dict[str, Any]:
    """What rollouts and curricula would have written beside an answer: budgets, exits, forced answers, cut thoughts."""
    cut = {"tag": length - 1, "kept": length, "original": 2 * length, "reached": number % 3 > 0}
    return {
        "metadata": {"budget": 1 + number % 5},
        "origin": None,
        "pieces": [f"{_WORDS[(number + place) % len(_WORDS)]} " for place in range(length)],
        "exit": number,
        "forced_values": [0.25, 0.5, number % 2 / 2, float(right)],
        "beliefs": [0.25],
        "thinking": cut if right else None,
        "tool_calls": number % 3,
        "accuracy_with": 0.75,
        "accuracy_without": 0.25,
    }
