"""Texts of responses: the tags they are written in (`<think>`, `<answer>`), and how far two lie apart."""

from __future__ import annotations

import re

import numpy as np

THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
"""A closed thought; its inside is the group."""

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
"""A closed answer; its inside is the group."""


def has_thought(text: str) -> bool:
    """Whether there is a closed `<think>` block with something in it."""
    return any(inside.strip() for inside in THOUGHT.findall(text))


def tagged(text: str) -> str | None:
    """The text inside the last closed `<answer>..</answer>`."""
    before, closed, _ = text.rpartition("</answer>")
    _, opened, inside = before.rpartition("<answer>")
    return inside if closed and opened else None


def edit_distance(one: str, other: str) -> int:
    """Insertions, deletions and replacements of characters that make one text the other."""
    codes = np.frombuffer(other.encode("utf-32-le"), np.uint32)
    places = np.arange(len(codes) + 1)
    row = places.copy()
    for number, letter in enumerate(one, start=1):
        kept = np.minimum(row[:-1] + (codes != ord(letter)), row[1:] + 1)
        # What is left, insertions from the left, is a running minimum of the distance minus the place.
        row = np.minimum.accumulate(np.concatenate([[number], kept]) - places) + places
    return int(row[-1])


TOOL_CALL = "<tool_call>"
"""How a response opens a call; the shipped base model was trained on it."""
