"""Panels: what several experts answered to the same questions, on record, and what a committee of them is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hocket.core.answers import read_answers
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Panel:
    """Q questions of C kinds, M experts. An answer is `[Q', M]`: for each held-out question the weight of each expert's
    vote, 0 for those who are not asked. Its value is the share of right answers less what asking cost.

    The last half of the questions is held out.

    Attributes:
        answers: `[Q, M]`, whole numbers. truth: `[Q]`, the right ones. kinds: `[Q]`, of the questions, from 0.
        price: of asking one expert one question.

    Raises:
        ConfigurationError: for records of unequal lengths, or kinds of which nothing is shown.
    """

    answers: Ints
    truth: Ints
    kinds: Ints
    price: float = 0.01
    name: str = "panel"

    def __post_init__(self) -> None:
        count = len(self.answers) if self.answers.ndim == 2 else 0
        if count < 2 or self.truth.shape != (count,) or self.kinds.shape != (count,):
            raise ConfigurationError(
                f"{self.name}: answers have the shape {self.answers.shape}, truth {self.truth.shape}, kinds "
                f"{self.kinds.shape}; give [Q, M], [Q] and [Q], for at least 2 questions"
            )
        if missing := sorted(set(range(int(self.kinds.max()) + 1)) ^ set(self.kinds[self.shown].tolist())):
            raise ConfigurationError(
                f"{self.name}: kinds are numbers from 0, and of each there is a question in the first half, which is "
                f"learnt from; see kind {missing[0]}"
            )

    @property
    def experts(self) -> int:
        return int(self.answers.shape[1])

    @property
    def shown(self) -> slice:
        """The questions to learn from."""
        return slice(0, len(self.answers) // 2)

    @property
    def held(self) -> slice:
        return slice(len(self.answers) // 2, None)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """`[Q, M]`."""
        return np.asarray(self.answers == self.truth[:, None])

    @property
    def optimum(self) -> float:
        """A bound: for every question one who knows, where there is one."""
        return float(self.right[self.held].any(1).mean()) - self.price

    def voted(self, weights: Array) -> Ints:
        """`[Q']`, of held-out questions the answer with the most weight; of equals the lowest."""
        answers = self.answers[self.held]
        same = answers[:, :, None] == answers[:, None, :]
        support = (same * weights[:, None, :]).sum(-1)
        best = support >= support.max(-1, keepdims=True) - 1e-12
        return np.asarray(np.where(best & (weights > 0), answers, np.iinfo(np.int64).max).min(-1))

    def value(self, weights: Array) -> float:
        right = self.voted(weights) == self.truth[self.held]
        return float(right.mean() - self.price * (weights > 0).sum(-1).mean())


def panel(questions: int) -> Panel:
    """Six experts; the best three are wrong together, and with one voice; four answers, two kinds of questions.

    Of a kind of questions one of the other three knows all.
    """
    draw, experts = Key.of(0).derive("panel", questions).numpy(), 6
    kinds, truth = draw.integers(0, 2, questions), draw.integers(0, 4, questions)
    common = draw.random(questions) < 0.78
    knows = draw.random((questions, experts)) < 0.7
    knows[:, :3] = common[:, None] & (draw.random((questions, 3)) < 0.98)
    knows[kinds == 1, 5] = draw.random(int((kinds == 1).sum())) < 0.95
    wrong = (truth[:, None] + draw.integers(1, 4, (questions, experts))) % 4
    wrong[:, :3] = wrong[:, :1]
    return Panel(np.where(knows, truth[:, None], wrong), truth, kinds, name=f"panel:{questions}")


def of_answers(files: Sequence[Path]) -> Panel:
    """Experts' answers on record, a file of each (`hocket eval RUN --answers FILE`).

    Questions that all answered count, in a drawn order; each task is a kind. Answers are the same if their words are,
    or if both are right; who gave none agrees with nobody.

    Raises:
        ConfigurationError: for fewer than two files, one that cannot be read, or no two questions that all answered.
    """
    if len(files) < 2:
        raise ConfigurationError(f"panel:{files[0]}: a panel has two experts or more; name several files, with commas")
    records = [read_answers(file) for file in files]
    items = sorted(set(records[0]).intersection(*records[1:]))
    if len(items) < 2:
        raise ConfigurationError(
            f"{files[0]} and {len(files) - 1} more: answered by all are {len(items)} questions, at least 2 are needed; "
            "ask them for the same task and --n"
        )
    items = [items[int(place)] for place in Key.of(0).derive("panel", len(items)).numpy().permutation(len(items))]
    tasks = sorted({task for task, _ in items})
    answers, truth = np.zeros((len(items), len(files)), np.int64), np.zeros(len(items), np.int64)
    for row, question in enumerate(items):
        words = [None if record[question]["right"] else record[question]["given"] for record in records]
        right = [record[question]["right"] for record in records]
        # Of equal votes the lowest number wins, so that numbers must not tell who is right.
        order = [int(number) for number in Key.of(0).derive("panel", *question).numpy().permutation(2 * len(files) + 1)]
        known = {word: order[place] for place, word in enumerate(dict.fromkeys(w for w in words if w is not None))}
        truth[row] = order[-1]
        answers[row] = [
            order[-1] if right[m] else order[len(files) + m] if words[m] is None else known[words[m]]
            for m in range(len(files))
        ]
    return Panel(answers, truth, np.array([tasks.index(task) for task, _ in items]), name=f"{len(files)} experts")


PANEL = WorldFamily(
    name="panel",
    description="six experts' answers on record, three of whom err together; or yours, panel:A.jsonl,B.jsonl",
    make=panel,
    size=(2000,),
    read=of_answers,
)
