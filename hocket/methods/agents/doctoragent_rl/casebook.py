"""Casebooks, conditions with their symptoms and advice, and what a message of the doctor names of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

FINAL = re.compile(r"diagnosis\s*:", re.IGNORECASE)

Casebook = Mapping[str, Mapping[str, Any]]
"""By condition: `symptoms`, those that come with it, and `advice`."""


def spoken(message: str) -> str:
    """A message without its thought."""
    return message.rpartition("</think>")[2].strip()


def named(text: str, names: Sequence[str]) -> list[str]:
    """Which of the names stand in a text as words."""
    return [one for one in names if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text, re.IGNORECASE)]


def symptoms_of(book: Casebook) -> list[str]:
    """Every symptom of a casebook, in order."""
    return sorted({symptom for condition in book.values() for symptom in condition["symptoms"]})


def agreeing(book: Casebook, facts: Mapping[str, bool]) -> list[str]:
    """The conditions that have the symptoms which `facts` say are there, and no others that they deny."""
    return [
        name
        for name, condition in book.items()
        if all((symptom in condition["symptoms"]) == there for symptom, there in facts.items())
    ]
