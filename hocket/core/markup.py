"""Texts of responses: the tags they are written in (`<think>`, `<answer>`), and how far two lie apart.

Some chat templates open the thought themselves, at the end of the prompt. A text that closes a thought which it never
opened is therefore read as one that began inside a thought.
"""

from __future__ import annotations

import re

import numpy as np

THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
"""A closed thought; its inside is the group. See `thoughts` for texts that began inside one."""

_NAMES = ("think", "thinking", "thought", "reasoning", "seed:think")
THOUGHT_TAGS = frozenset((*(f"<{s}{n}>" for n in _NAMES for s in ("", "/")), "[THINK]", "[/THINK]"))
"""How models write thoughts. Nobody takes a turn by writing one of these."""

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
"""A closed answer; its inside is the group."""


def whole(text: str) -> str:
    """A text with the `<think>` that its prompt wrote, if it closes a thought which it did not open."""
    before, closed, _ = text.partition("</think>")
    return f"<think>{text}" if closed and "<think>" not in before else text


def thoughts(text: str) -> list[str]:
    """The insides of all closed thoughts, in order."""
    return THOUGHT.findall(whole(text))


def without_thoughts(text: str) -> str:
    """A text without its closed thoughts."""
    return THOUGHT.sub("", whole(text))


def has_thought(text: str) -> bool:
    """Whether there is a closed `<think>` block with something in it."""
    return any(inside.strip() for inside in thoughts(text))


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
        least = np.minimum(row[:-1] + (codes != ord(letter)), row[1:] + 1)
        # What is left, insertions from the left, is a running minimum of the distance minus the place.
        row = np.minimum.accumulate(np.concatenate([[number], least]) - places) + places
    return int(row[-1])


TOOL_CALL = "<tool_call>"
"""How a response opens a call; the shipped base model was trained on it."""
