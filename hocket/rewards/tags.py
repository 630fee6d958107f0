"""Thoughts and answers as text: `<think>..</think><answer>..</answer>`, tags checked, thoughts dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.markup import thoughts, whole
from hocket.core.signals import returns
from hocket.rewards.members import with_return
from hocket.stages import Shaping

Thought = Literal["filled", "tagged", "optional"]


def thought_of(text: str) -> str | None:
    """What stands inside the only `<think>..</think>`, which the prompt may have opened; None for none, or several."""
    contents, text = thoughts(text), whole(text)
    return contents[0] if len(contents) == text.count("<think>") == text.count("</think>") == 1 else None


def thinks_well(text: str, thought: Thought) -> bool:
    """Whether a response's thought has the wanted form: `filled`, `tagged` (may be empty) or `optional`."""
    if "<think>" not in text and "</think>" not in text:
        return thought == "optional"
    inside = thought_of(text)
    return inside is not None and (thought != "filled" or bool(inside.strip()))


def answers_well(text: str) -> bool:
    """Whether exactly one closed `<answer>..</answer>` stands in the response, and no thought ends after it."""
    opened, closed = text.find("<answer>"), text.find("</answer>")
    once = text.count("<answer>") == text.count("</answer>") == 1
    return once and opened < closed and text.find("</think>", closed) < 0


@dataclass(frozen=True)
class TagFormat(Shaping):
    """Adds `weight` for a response with the right tags. Reads `text`, the last turn's.

    Attributes:
        thought: what counts as a well-formed thought: `filled`, `tagged` (an empty one will do), or `optional` (none
            will do as well).
        apart: half the weight for the thought and half for the answer; otherwise both are needed.
    """

    weight: float = 1.0
    thought: Thought = "tagged"
    apart: bool = False

    def __post_init__(self) -> None:
        if self.thought not in ("filled", "tagged", "optional"):
            raise ValueError(f"thought must be filled, tagged or optional, not {self.thought!r}")

    def __call__(self, batch: Batch) -> Batch:
        texts = TEXT.read(batch, "TagFormat")
        marks = torch.tensor([self.mark(text or "") for text in texts], dtype=torch.float64)
        return with_return(batch, returns(batch) + self.weight * marks)

    def mark(self, text: str) -> float:
        """1 for the right tags, 0 without; halves where scored apart."""
        parts = (thinks_well(text, self.thought), answers_well(text))
        return sum(parts) / 2 if self.apart else float(all(parts))
