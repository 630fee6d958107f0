"""Pairwise preferences between answers, and rewards from win rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import PROMPT, TEXT, WINS
from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.rewards.judging import Judge, compared
from hocket.rewards.members import SCENARIO, groups_of, with_return
from hocket.stages import Shaping, Stage

RULE = "Which reply answers this better?\n{prompt}"
"""The criterion by which a judge compares."""

PREFERENCES = {
    "preferences": "a judge's, both orders (--judge), or a function's of two texts (shaping.0.wins.rule); without "
    "either the greater return wins and equals tie"
}
"""The convention of recipes whose first shaping asks `Wins`."""


@dataclass(frozen=True)
class Wins(Stage):
    """P(y beats y') for answers to one prompt: a judge's verdict, a function's probability, or by return.

    Where a run has a judge it is asked about every two different texts, in both orders; a question without an answer
    is a tie. Else `rule(prompt, y, y')` gives a probability, and without a rule the greater return wins.

    Attributes:
        rule: of texts, to a probability in [0, 1].
    """

    rule: Callable[[str, str, str], float] | None = None
    judge: Judge | None = None

    room = "rewards"
    asks_judge: ClassVar[bool] = True

    def among(self, batch: Batch, members: Sequence[int]) -> Tensor:
        """The matrix of some trajectories, `[K, K]` float64: row beats column; 1/2 on the diagonal.

        Raises:
            ConfigurationError: for a rule that gives no probability.
        """
        if self.judge is None and self.rule is None:
            value = returns(batch)[list(members)]
            return ((value[:, None] - value[None, :]).sign() + 1) / 2
        prompts, texts = PROMPT.rows(batch), TEXT.rows(batch)
        entries = [(str(prompts[i] or ""), str(texts[i] or "")) for i in members]
        cells = [(i, j) for i in range(len(entries)) for j in range(i) if entries[i] != entries[j]]
        chances = self._of_pairs([(entries[i][0], entries[i][1], entries[j][1]) for i, j in cells])
        matrix = torch.full((len(entries), len(entries)), 0.5, dtype=torch.float64)
        for (i, j), chance in zip(cells, chances, strict=True):
            matrix[i, j], matrix[j, i] = chance, 1 - chance
        return matrix

    def _of_pairs(self, asked: Sequence[tuple[str, str, str]]) -> list[float]:
        if self.judge is not None:
            shares = compared(self.judge, [(RULE.format(prompt=prompt), left, right) for prompt, left, right in asked])
            return [0.5 if share is None else share for share in shares]
        assert self.rule is not None
        chances = [float(self.rule(*texts)) for texts in asked]
        wrong = next((chance for chance in chances if not 0 <= chance <= 1), None)
        if wrong is not None:
            raise ConfigurationError(f"the rule of Wins gave {wrong}; it must give a probability in [0, 1]")
        return chances


@dataclass(frozen=True)
class WinShare(Shaping):
    """An answer's return becomes the share of its group's other answers that it beats, in [0, 1] (arXiv 2401.04056).

    A group of one is worth 1/2. The probabilities go into the column `WINS` as well, for a credit that compares pairs.

    Attributes:
        wins: the chances that one answer beats another. by: the groups of comparable answers.

    Raises:
        ValueError: for groups of turns.
    """

    wins: Wins = Wins()
    by: GroupBy = SCENARIO

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("wins are of trajectories: by may not name a column of turns")

    def __call__(self, batch: Batch) -> Batch:
        value, order = returns(batch).clone().double(), batch.order.tolist()
        by_row: list[dict[int, float] | None] = [None] * batch.trajectories
        for members in groups_of(batch, self.by):
            matrix = self.wins.among(batch, members)
            others = len(members) - 1
            value[members] = (matrix.sum(1) - 0.5) / others if others else torch.tensor([0.5], dtype=torch.float64)
            for row, chances in zip(members, matrix.tolist(), strict=True):
                by_row[row] = {order[j]: p for j, p in zip(members, chances, strict=True) if j != row}
        return with_return(batch.but(info={**batch.info, WINS.name: by_row}), value)
