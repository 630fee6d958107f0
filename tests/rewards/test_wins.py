"""Who beats whom: by return, by a function, by a judge; what an answer is worth by it, and pairs with its chances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.columns import WINS
from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.credit.pairs import ComparedPairs
from hocket.lab.microscope import RecordedBatch
from hocket.rewards.combine import WeightedSum
from hocket.rewards.judging import Answer, Judge, Question
from hocket.rewards.wins import Wins, WinShare


def batch_of(*answers: tuple[str, str, float]) -> Any:
    """Of (group, text, reward)."""
    rows = [
        {"group": group, "scores": {"reward": reward}, "logp": [-1.0], "text": text, "info": {"prompt": group}}
        for group, text, reward in answers
    ]
    return WeightedSum()(RecordedBatch({"version": 1, "trajectories": rows}).batch, {})


class Longer(Judge):
    """Prefers the longer text, or always the first."""

    def __init__(self, place: bool = False) -> None:
        super().__init__("longer")
        self.place, self.asked = place, 0

    def ask(self, questions: list[Question]) -> list[Answer]:  # type: ignore[override]
        self.asked += len(questions)
        return [Answer(self._said(one.prompt)) for one in questions]

    def _said(self, prompt: str) -> str:
        first, second = prompt.partition("\n\nB:\n")[0].partition("A:\n")[2], prompt.partition("\n\nB:\n")[2]
        second = second.partition("\n\nWhich")[0]
        return "A" if self.place or len(first) > len(second) else "B" if len(second) > len(first) else "tie"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=6))
def test_by_return_wins_and_losses_make_one_and_shares_a_half_on_average(rewards: list[int]) -> None:
    batch = batch_of(*(("q", "t", float(reward)) for reward in rewards))
    matrix = Wins().among(batch, range(len(rewards)))
    torch.testing.assert_close(matrix + matrix.T, torch.ones_like(matrix))
    shares = returns(WinShare()(batch)).tolist()
    wanted = [sum((a > b) + 0.5 * (a == b) for b in rewards) - 0.5 for a in rewards]
    assert shares == pytest.approx([one / (len(rewards) - 1) for one in wanted])
    assert sum(shares) / len(shares) == pytest.approx(0.5)


def test_groups_do_not_meet_and_a_group_of_one_is_worth_a_half() -> None:
    batch = WinShare()(batch_of(("a", "x", 1), ("b", "y", 5), ("a", "z", 0)))
    assert returns(batch).tolist() == [1.0, 0.5, 0.0]
    first, _, last = batch.order.tolist()
    assert WINS.rows(batch) == [{last: 1.0}, {}, {first: 0.0}]


def test_a_judge_is_asked_in_both_orders_and_equal_texts_tie_unasked() -> None:
    batch = batch_of(("q", "long text", 0), ("q", "short", 1), ("q", "short", 1))
    judge = Longer()
    matrix = Wins(judge=judge).among(batch, range(3))
    assert matrix.tolist() == [[0.5, 1, 1], [0, 0.5, 0.5], [0, 0.5, 0.5]]
    assert judge.asked == 2  # Both orders once: the other short text is the same question.
    assert Wins(judge=Longer(place=True)).among(batch, range(3)).tolist() == [[0.5] * 3] * 3


def test_a_rule_gives_chances_and_pairs_carry_them() -> None:
    rule = {("x", "y"): 0.8, ("y", "x"): 0.2, ("x", "z"): 0.5, ("z", "x"): 0.5, ("y", "z"): 0.1, ("z", "y"): 0.9}
    wins = Wins(rule=lambda prompt, one, other: rule[one, other])
    batch = WinShare(wins)(batch_of(("q", "x", 0), ("q", "y", 0), ("q", "z", 0)))
    assert returns(batch).tolist() == pytest.approx([0.65, 0.15, 0.7])
    seen = ComparedPairs()(batch)
    assert seen.pairs is not None
    assert seen.pair_target is not None
    assert seen.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert seen.pair_target.tolist() == pytest.approx([0.8, 0.5, 0.1])
    apart = replace(ComparedPairs(), margin=0.35)(batch)
    assert apart.pairs is not None
    assert apart.pairs.tolist() == [[1, 2]]


def test_what_is_no_chance_and_pairs_without_wins_are_refused() -> None:
    batch = batch_of(("q", "x", 0), ("q", "y", 0))
    with pytest.raises(ConfigurationError, match=r"probability in \[0, 1\]"):
        WinShare(Wins(rule=lambda prompt, one, other: 2.0))(batch)
    with pytest.raises(ConfigurationError, match="ComparedPairs"):
        ComparedPairs()(batch)
