"""The tags responses are written in: `<think>..</think>` and `<answer>..</answer>`."""

from __future__ import annotations

import re

THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
"""A closed thought; its inside is the group."""

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
"""A closed answer; its inside is the group."""


def has_thought(text: str) -> bool:
    """Whether there is a closed `<think>` block with something in it."""
    return any(inside.strip() for inside in THOUGHT.findall(text))
