"""Judges whose answers a test decides, and recipes that ask them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hocket.core.errors import HocketError
from hocket.rewards.judging import Answer, Judge, Question
from hocket.train.judges import with_judge


class Scripted(Judge):
    """Answers `say(prompt)`: words, None for no answer, an error to raise, or a whole `Answer`."""

    def __init__(self, say: Callable[[str], Any], journal: Any = None) -> None:
        super().__init__("scripted", journal)
        self.say = say
        self.asked: list[Question] = []

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        self.asked += questions
        told = [self.say(question.prompt) for question in questions]
        error = next((one for one in told if isinstance(one, HocketError)), None)
        if error is not None:
            raise error
        return [one if isinstance(one, Answer) else Answer(one) for one in told]


def asking(stage: Any, say: Callable[[str], Any]) -> Any:
    """A stage or recipe that asks a scripted judge."""
    return with_judge(stage, Scripted(say))
