"""One reward per kind of scenario: each prompt names the reward that grades it."""

from __future__ import annotations

from hocket.core.markup import tagged
from hocket.rewards.verifiers import last_line


def final_answer(text: str) -> str:
    """What is graded: the text of the last `<answer>` tags, else the last line that is not blank."""
    inside = tagged(text)
    return (inside if inside is not None else last_line(text) or "").strip()
