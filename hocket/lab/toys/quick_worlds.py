"""Worlds that a table learns in seconds: guesses, choices, sums, a tangle; how they start; how far runs lead."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, World


def guessing(questions: int = 4, tokens: int = 4) -> World:
    """One right answer of two tokens to each question."""
    return World(questions, tokens, 2, lambda question, answer: float(answer == _target(question, tokens)))


def _target(question: int, tokens: int) -> Answer:
    return ((question * 7 + 3) % tokens, (question * 5 + 1) % tokens)


def mixed(policy: Tabular) -> None:
    """Every second question of `guessing` is nearly solved from the start."""
    for question in range(0, policy.world.questions, 2):
        answer = _target(question, policy.world.tokens)
        for row, token in zip(policy.path(question, answer), answer, strict=True):
            policy.logits[row, token] += 4.0


def leaning(token: int, by: float) -> Callable[[Tabular], None]:
    """A start that favours a token everywhere, by so much in its logit."""

    def start(policy: Tabular) -> None:
        policy.logits[:, token] += by

    return start


def uneven(key: Key, scale: float = 1.0) -> Callable[[Tabular], None]:
    """A start with normal logits."""

    def start(policy: Tabular) -> None:
        policy.logits.data = torch.from_numpy(scale * key.numpy().normal(size=tuple(policy.logits.shape)))

    return start


def choosing(questions: int, tokens: int, right: Callable[[int, int], float], **more: Any) -> World:
    """Answers of one token."""
    return World(questions, tokens, 1, lambda question, answer: right(question, answer[0]), **more)


def summing(questions: int, tokens: int, horizon: int, **more: Any) -> World:
    """Right are numbers whose sum, modulo `tokens`, is the question's."""
    return World(questions, tokens, horizon, lambda question, answer: float(sum(answer) % tokens == question), **more)


RIGHT = {(0, 1), (0, 2), (1, 0), (2, 0)}
TANGLED = World(1, 3, 2, lambda question, answer: float(answer in RIGHT), context="position")
"""Token 0 is the better choice at either place, but not at both: what old samples favour token by token is wrong."""


def lead(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The mean lead of paired runs and its standard error."""
    ahead = [left - right for left, right in zip(ours, theirs, strict=True)]
    return fmean(ahead), stdev(ahead) / math.sqrt(len(ahead))
