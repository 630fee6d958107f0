"""The reward: called with the answers of the team, and with the columns that it names."""

import re
from typing import Any


def reward(completions: list[str], answer: list[str], **columns: Any) -> list[float]:
    """1 for the right answer between its tags, 0.1 for another one there, else 0."""
    matches = [re.search(r"<answer>(.*?)</answer>", text) for text in completions]
    return [
        0.0 if match is None else 1.0 if match[1].strip() == right else 0.1
        for match, right in zip(matches, answer, strict=True)
    ]
