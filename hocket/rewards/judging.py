"""Judges: language models that answer questions about texts, like the judges, critics and verifiers of papers.

A stage that can use a judge declares it (`asks_judge`) and has the field `judge`; with None it uses its own rule.
`hocket train --judge` sets the run's judge there (see docs/judges.md). A judge is a function: within a run equal
questions have equal answers, which the run's journal stores. So a stage with a judge is as pure as one without, and a
resumed run gets the same answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.waits import waiting_for
from hocket.rewards.score import RewardJournal
from hocket.rewards.verdict_words import YES_NO, choice_in, grade_in, said_aloud
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A question to a judge: a prompt, the choices of answers (none: free text), and the longest answer in tokens.

    Put the common part of many questions first in their prompts, because a model reads a common prefix once.
    """

    prompt: str
    choices: tuple[str, ...] = ()
    longest: int = 256


class Answer(NamedTuple):
    """The response to a question.

    `text` is None without an answer, and `problem` gives the reason. `logp` are the log-probs of the choices in nats,
    if the judge provides them; `tokens` the number of tokens read and written, if known; `cut` whether the limit of
    tokens ended it.
    """

    text: str | None
    tokens: int = 0
    logp: tuple[float, ...] | None = None
    problem: str | None = None
    cut: bool = False

    @property
    def verdict(self) -> str | None:
        """The text of a finished answer, from which a verdict may be read."""
        return None if self.cut else self.text


@dataclass
class Count:
    """The counts of questions to judges, and the problems, in one part of a step."""

    questions: int = 0
    failed: int = 0
    unclear: int = 0
    verdicts: int = 0
    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def metrics(self) -> dict[str, float]:
        """The metrics `judge/questions`, `judge/failed`, `judge/unclear` (an answer without a readable verdict) and
        `judge/tokens` count all questions of stages, also those with known answers.

        `throughput/judge/calls` counts the new ones, and `time/judge` their seconds.
        """
        counts = {"judge/questions": self.questions, "judge/failed": self.failed, "judge/unclear": self.unclear}
        counts |= {"judge/tokens": self.tokens}
        return {name: float(count) for name, count in counts.items()} | {
            "throughput/judge/calls": float(self.calls),
            "time/judge": self.seconds,
        }


SHOWN = 120
"""The number of characters of an answer that a message shows."""

_COUNT: ContextVar[Count | None] = ContextVar("hocket_judge_count", default=None)


@contextmanager
def counting() -> Iterator[Count]:
    """A context that counts the questions of its body, including tasks and threads that start there."""
    count = Count()
    before = _COUNT.set(count)
    try:
        yield count
    finally:
        _COUNT.reset(before)


class Judge(ABC):
    """Answers questions, each once in a run; a failed question has no answer, and the run continues.

    Args:
        name: its name in messages.
        journal: stores the answers; None stores them in memory.
    """

    def __init__(self, name: str, journal: RewardJournal | None = None) -> None:
        self.name = name
        self._kept: RewardJournal = journal if journal is not None else _Remembered()
        self._lock = threading.Lock()
        self._worked = False

    @abstractmethod
    def ask(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """Answers all questions at once, in order.

        Raises:
            HocketError: when no question can be answered.
        """

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """An answer per question, in order. Safe between threads.

        Raises:
            ConfigurationError: when the judge has never answered anything and does not now.
        """
        if not questions:
            return []
        count = _COUNT.get() or Count()
        with self._lock:
            entries = [_entry(question) for question in questions]
            known = {entry: Answer(*record) for entry in dict.fromkeys(entries) if (record := self._kept.get(entry))}
            fresh = {entry: question for entry, question in zip(entries, questions, strict=True) if entry not in known}
            known |= zip(fresh, self._asked(list(fresh.values()), count), strict=True)
            for entry in fresh:
                self._kept.put(entry, list(known[entry]))
            answers = [known[entry] for entry in entries]
            self._worked |= any(answer.text is not None for answer in answers)
            count.questions += len(answers)
            count.failed += sum(answer.text is None for answer in answers)
            count.tokens += sum(known[entry].tokens for entry in dict.fromkeys(entries))
            return answers

    def _asked(self, questions: list[Question], count: Count) -> Sequence[Answer]:
        if not questions:
            return []
        started = time.perf_counter()
        try:
            with waiting_for(f"judge {self.name}"):
                answers = self.ask(questions)
        except HocketError as error:
            answers = [Answer(None, problem=str(error))] * len(questions)
        problem = next((answer.problem for answer in answers if answer.problem is not None), None)
        if problem is not None and not self._worked and all(answer.text is None for answer in answers):
            raise ConfigurationError(f"judge {self.name}: {problem}; it has never answered, so the run stops")
        if problem is not None:
            count.problems.append(f"judge {self.name}: {problem}; what it did not answer has no opinion from it")
        count.calls += len(questions)
        count.seconds += time.perf_counter() - started
        return answers


class _Remembered(dict[str, Any]):
    """The journal of a judge without a file."""

    put = dict.__setitem__


def _entry(question: Question) -> str:
    """The journal key of a question, from its content."""
    text = json.dumps([question.prompt, question.choices, question.longest])
    return f"judge/{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


# ---------------------------------------------------------------- forms of questions


def said(judge: Judge, prompts: Sequence[str], longest: int = 256) -> list[str | None]:
    """The answers as free text, without thoughts; None if an answer ends within its thoughts."""
    answers = judge([Question(prompt, longest=longest) for prompt in prompts])
    return noted(judge, [said_aloud(answer.text) for answer in answers], answers, "only thoughts that did not end")


def picked(judge: Judge, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str | None]:
    """The chosen answer to each (prompt, choices); None if the judge named none."""
    questions = [
        Question(f"{prompt}\nAnswer with one of: {', '.join(choices)}.", tuple(choices)) for prompt, choices in asked
    ]
    answers = judge(questions)
    choices = [choice_in(answer.verdict, question.choices) for answer, question in zip(answers, questions, strict=True)]
    return noted(judge, choices, answers, "no one of the choices")


def verdicts(judge: Judge, prompts: Sequence[str]) -> list[bool | None]:
    """The verdicts on yes-or-no questions."""
    return [None if word is None else word == "yes" for word in picked(judge, [(prompt, YES_NO) for prompt in prompts])]


def grades(judge: Judge, prompts: Sequence[str], scale: int = 10) -> list[float | None]:
    """Grades from 0 to `scale`, divided by it: in [0, 1]; the expected grade if the judge has log-probs."""
    rule = f"Answer with a number from 0 (worst) to {scale} (best) alone."
    choices = tuple(str(grade) for grade in range(scale + 1))
    answers = judge([Question(f"{prompt}\n{rule}", choices) for prompt in prompts])
    return noted(judge, [_grade(answer, scale) for answer in answers], answers, f"no one grade from 0 to {scale}")


def compared(judge: Judge, prompts: Sequence[tuple[str, str, str]]) -> list[float | None]:
    """Which of two texts is better, asked in both orders: 1 the first, 0 the second, 1/2 a tie.

    Each of `prompts` is (what to judge by, first text, second text). A judge that names the same place in both orders
    goes by the place, which is a tie. None where an order has no answer.
    """
    forms = [
        (f"{rule}\n\nA:\n{left}\n\nB:\n{right}\n\nWhich is better?", ("A", "B", "tie"))
        for rule, first, second in prompts
        for left, right in ((first, second), (second, first))
    ]
    worth = [{"A": 1.0, "B": 0.0, "tie": 0.5, None: None}[choice] for choice in picked(judge, forms)]
    pairs = zip(worth[::2], worth[1::2], strict=True)
    return [None if left is None or right is None else _agreed(left, 1 - right) for left, right in pairs]


def noted(judge: Judge, found: list[T], answers: Sequence[Answer], what: str) -> list[T]:
    """The verdicts read from answers; counts unclear answers, and adds a message about them."""
    pairs = list(zip(found, answers, strict=True))
    unclear = [answer for verdict, answer in pairs if verdict is None and answer.text is not None]
    count = _COUNT.get()
    if count is not None:
        count.verdicts += sum(verdict is not None for verdict in found)
    if unclear and count is not None:
        count.unclear += len(unclear)
        cut = sum(answer.cut for answer in unclear)
        limit = f" ({cut} cut off by the limit of tokens)" if cut else ""
        words = " ".join(str(unclear[0].text).split())
        shown = words if len(words) <= SHOWN else f"{words[:SHOWN]}..."
        count.problems.append(
            f"judge {judge.name}: {len(unclear)} of {len(answers)} answers name {what}{limit}, as in {shown!r}; they "
            "are no opinion"
        )
    return found


def _agreed(one: float, other: float) -> float:
    return one if one == other else 0.5


def _grade(answer: Answer, scale: int) -> float | None:
    if answer.logp is not None:
        top = max(answer.logp)
        chances = [math.exp(logp - top) for logp in answer.logp]
        return sum(grade * chance for grade, chance in enumerate(chances)) / (scale * math.fsum(chances))
    return grade_in(answer.verdict, scale)


# ---------------------------------------------------------------- a reward that asks


@dataclass(frozen=True)
class JudgedBy(Reward):
    """The judge's opinion of a text if the run has a judge, else that of `rule`.

    Attributes:
        rule: the reward that stands in. ask: the question, with `{prompt}`, `{text}` and `{answer}` (the right one).
        scale: 0 asks for yes (1) or no (0), a number for a grade from 0 to that number, divided by it.
    """

    rule: Reward
    ask: str
    scale: int = 0
    name: str = "judge"
    weight: float = 1.0
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.scale < 0:
            raise ValueError(f"scale must be at least 0, not {self.scale}")
        try:
            self.ask.format(prompt="", text="", answer="")
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"ask may name {{prompt}}, {{text}} and {{answer}} alone ({error})") from error

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        if self.judge is None:
            return await self.rule(trajectories, key=key)
        judge, prompts = self.judge, [self.question(trajectory) for trajectory in trajectories]
        if self.scale:
            return await asyncio.to_thread(grades, judge, prompts, self.scale)
        answers = await asyncio.to_thread(verdicts, judge, prompts)
        return [None if answer is None else float(answer) for answer in answers]

    def question(self, trajectory: Trajectory) -> str:
        """The question about one trajectory."""
        scenario = trajectory.scenario
        return self.ask.format(prompt=prompt_text(scenario), text=trajectory.answer, answer=scenario.answer)


def prompt_text(scenario: Scenario) -> str:
    """The prompt as text: the contents of its messages; empty if it is no text."""
    messages = scenario.messages if isinstance(scenario.prompt, (str, tuple, list)) else ()
    return "\n".join(str(message["content"]) for message in messages)
