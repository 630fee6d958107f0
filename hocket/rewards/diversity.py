"""Rewards that depend on how different texts are: within a group, and within one text."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Words and numbers in lower case."""
    return _WORD.findall(text.lower())
