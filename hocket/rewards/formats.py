"""Answers graded by the format of their question."""

from __future__ import annotations

from collections import Counter

from hocket.rewards.verifiers import equal


def token_match(given: str, reference: str) -> float:
    """1 if equal (numbers by value), else the F1 of the words both hold."""
    if equal(given, reference):
        return 1.0
    left, right = Counter(given.lower().split()), Counter(reference.lower().split())
    common = (left & right).total()
    return 2 * common / (left.total() + right.total()) if common else 0.0
