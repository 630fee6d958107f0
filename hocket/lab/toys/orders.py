"""A teacher of sums whose answers are listed, so that what a search may find of them is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

from hocket.tasks.arithmetic import working
from hocket.types import Message

_TERM = re.compile(r"([+-]?) ?(\d+)")


def right_answers(question: str) -> list[str]:
    """Worked answers to `What is 12 + 3 - 4?`, one for every order of its terms."""
    terms = [int(sign + digits) for sign, digits in _TERM.findall(question)]
    orders = dict.fromkeys(permutations(terms))
    return [f"<think>{working(order)}</think><answer>{sum(order)}</answer>" for order in orders]


def wrong_answers(question: str) -> list[str]:
    """The same with every total one too large."""
    return [re.sub(r"(?<==)-?\d+|(?<=<answer>)-?\d+", _slipped, text) for text in right_answers(question)]


def _slipped(total: re.Match[str]) -> str:
    return str(int(total[0]) + 1)


def teacher(messages: Sequence[Message], number: int) -> str:
    """What follows an answer that was begun, of a right or a wrong one by `number`, all equally likely."""
    question, begun = str(messages[0]["content"]), str(messages[1]["content"]) if len(messages) > 1 else ""
    listed = right_answers(question) + wrong_answers(question)
    fitting = [text for text in listed if text.startswith(begun)]
    return fitting[number % len(fitting)][len(begun) :]
