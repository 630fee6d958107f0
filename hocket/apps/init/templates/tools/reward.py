"""The reward: called with the last texts of a step's samples, and with the columns that it names."""

import re
from typing import Any


def reward(completions: list[str], answer: list[str], **columns: Any) -> list[float]:
    """1 for the right price between its tags, else 0."""
    matches = [re.search(r"<answer>(.*?)</answer>", text) for text in completions]
    return [float(match is not None and match[1] == right) for match, right in zip(matches, answer, strict=True)]
