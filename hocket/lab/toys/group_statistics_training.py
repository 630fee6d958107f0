"""Toys of several claims: group statistics training."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hocket import recipes
from hocket.lab.bench import Bench
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, World
from hocket.recipe import Recipe

SEEDS = range(5)


def guessing(questions: int = 4, tokens: int = 4) -> World:
    """One right answer of two tokens to each question."""
    return World(questions, tokens, 2, lambda question, answer: float(answer == _target(question, tokens)))


def _target(question: int, tokens: int) -> Answer:
    return ((question * 7 + 3) % tokens, (question * 5 + 1) % tokens)


def mixed(policy: Tabular) -> None:
    """Every second question is nearly solved from the start."""
    for question in range(0, policy.world.questions, 2):
        answer = _target(question, policy.world.tokens)
        for row, token in zip(policy.path(question, answer), answer, strict=True):
            policy.logits[row, token] += 4.0


def choosing(questions: int, tokens: int, right: Callable[[int, int], float], **more: Any) -> World:
    """Answers of one token."""
    return World(questions, tokens, 1, lambda question, answer: right(question, answer[0]), **more)


def recipe_of(name: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe of the library, with changes by dotted path."""
    return recipes.find(name).but(dict(changes)) if changes else recipes.find(name)


def trained(
    name: str, world: World, steps: int, seed: int, changes: Mapping[str, Any] | None = None, **bench: Any
) -> Bench:
    """A bench after `steps` steps."""
    return Bench(world, recipe_of(name, changes), seed=seed, **bench).run(steps)


def spread(numbers: Sequence[float], digits: int = 3) -> str:
    """Mean and range, for the record."""
    return f"{statistics.fmean(numbers):.{digits}f} [{min(numbers):.{digits}f}, {max(numbers):.{digits}f}]"
