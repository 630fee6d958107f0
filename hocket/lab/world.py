"""Questions whose answers can be enumerated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hocket.core.keys import Key
from hocket.stages import Reward, Split
from hocket.types import Scenario, Trajectory

Answer = tuple[int, ...]
"""A finished sequence of tokens, its end token included where it has one."""

Context = Literal["prefix", "last", "position", "shared"]


@dataclass(frozen=True)
class World:
    """A task of `questions` numbered from 0, asked in turn; answers are sequences of at most `horizon` tokens.

    Attributes:
        tokens: their number, 0 .. tokens-1. end: the token that ends an answer; None, and all have `horizon` tokens.
        reward: of an answer to a question. parts: further named rewards, weight 1 each, added to `reward`.
        correct: what `Bench.success` averages; the reward where it is None.
        context: what the next token may depend on besides the question: the whole `prefix`, the `last` token and the
            position, or the `position` alone; a function names the context of (question, prefix), and what has equal
            names shares its logits.
        text, label: an answer in words, and its final answer; by default tokens in decimal, spaces between.
        words: a word per token, for methods that cut or continue text; then an answer in words is these side by side.
        info: further columns of `Batch.info`. metadata: of a question's scenario.
    """

    questions: int
    tokens: int
    horizon: int
    reward: Callable[[int, Answer], float]
    end: int | None = None
    parts: Mapping[str, Callable[[int, Answer], float]] = field(default_factory=dict)
    correct: Callable[[int, Answer], float] | None = None
    context: Context | Callable[[int, Answer], Hashable] = "prefix"
    text: Callable[[int, Answer], str] | None = None
    label: Callable[[int, Answer], str | None] | None = None
    words: tuple[str, ...] = ()
    info: Callable[[int, Answer], Mapping[str, Any]] | None = None
    metadata: Callable[[int], Mapping[str, Any]] | None = None

    def answers(self) -> Iterator[Answer]:
        """Every possible answer once, short ones first."""
        others = [token for token in range(self.tokens) if token != self.end]
        for length in range(1, self.horizon + 1):
            for body in itertools.product(others, repeat=length - 1):
                if length == self.horizon:
                    yield from ((*body, token) for token in range(self.tokens))
                elif self.end is not None:
                    yield (*body, self.end)

    def finished(self, tokens: Sequence[int]) -> bool:
        """Whether nothing can follow."""
        return len(tokens) >= self.horizon or (self.end is not None and len(tokens) > 0 and tokens[-1] == self.end)

    def written(self, question: int, answer: Answer) -> str:
        """The answer in words."""
        return self.text(question, answer) if self.text else self.decode(answer)

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""
        return "".join(self.words[token] for token in tokens) if self.words else " ".join(map(str, tokens))

    def encode(self, text: str, after: Sequence[int] = ()) -> Answer:
        """Text as tokens: at each place the longest word that fits; numbers where there are no words."""
        if not self.words:
            return tuple(int(word) for word in text.split())
        tokens: list[int] = []
        while text:
            fitting = [token for token, word in enumerate(self.words) if word and text.startswith(word)]
            if not fitting:
                raise ValueError(f"no word of this world begins {text!r}")
            tokens.append(max(fitting, key=lambda token: len(self.words[token])))
            text = text[len(self.words[tokens[-1]]) :]
        return tuple(tokens)

    # ------------------------------------------------------------ what a training step asks of a task

    @property
    def name(self) -> str:
        return "lab"

    @property
    def kind(self) -> Literal["text", "control"]:
        return "control"

    def size(self, split: Split) -> int | None:
        return self.questions

    def scenario(self, split: Split, number: int) -> Scenario:
        metadata = {**(self.metadata(number) if self.metadata else {}), "question": number}
        return Scenario(f"lab/{number}", f"question {number}", metadata=metadata, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return (GradedReward("reward", self.reward), *(GradedReward(name, grade) for name, grade in self.parts.items()))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        return {}

    def success(self, trajectory: Trajectory) -> float:
        return (self.correct or self.reward)(question_of(trajectory), answer_of(trajectory))

    def labelled(self, trajectory: Trajectory) -> str | None:
        """The final answer as a word."""
        question, answer = question_of(trajectory), answer_of(trajectory)
        return self.label(question, answer) if self.label else self.written(question, answer)


@dataclass(frozen=True)
class GradedReward(Reward):
    """A function of question and answer as a reward."""

    name: str
    grade: Callable[[int, Answer], float]
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.grade(question_of(trajectory), answer_of(trajectory)) for trajectory in trajectories]


def question_of(trajectory: Trajectory) -> int:
    """Which question a trajectory answers."""
    return int(trajectory.scenario.metadata["question"])


def answer_of(trajectory: Trajectory) -> Answer:
    """All tokens of a trajectory, turn after turn."""
    return tuple(int(token) for turn in trajectory.turns for token in turn.action)
