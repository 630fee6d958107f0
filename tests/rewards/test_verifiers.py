"""Exact matches, task verifiers, and scoring."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.packing import pack
from hocket.rewards.functions import FunctionReward
from hocket.rewards.opinions import RewardError
from hocket.rewards.score import grade
from hocket.rewards.verifiers import ExactMatch, TaskVerifier, equal, final_answer, last_line, last_number
from hocket.tasks.arithmetic import tagged_answer
from hocket.types import Scenario, Trajectory, Turn


def said(text: str, answer: Any = None, number: int = 0, **more: Any) -> Trajectory:
    turn = Turn("a", "p", np.zeros(1, int), np.arange(max(1, len(text))), text=text)
    return Trajectory(Scenario(f"s{number}", "q", answer), [turn], **more)


PIECES = st.lists(st.sampled_from(["<answer>", "</answer>", "7", " ", "x", "<answer"]), max_size=12).map("".join)


@given(PIECES)
def test_tags_are_read_as_the_default_task_reads_them(text: str) -> None:
    assert tagged(text) == tagged_answer(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so 12", "12"),
        ("3 and -4.5!", "-4.5"),
        ("1,234,567.", "1,234,567"),
        ("5-3", "3"),
        ("5 - 3", "3"),
        ("is -3", "-3"),
        ("a .5", ".5"),
        ("none", None),
        ("1,2", None),
    ],
)
def test_last_numbers(text: str, number: str | None) -> None:
    assert last_number(text) == number


def test_last_lines() -> None:
    assert last_line("a\n  b c \n\n") == "b c"
    assert last_line(" \n") is None


@pytest.mark.parametrize(
    ("given_text", "answer", "same"),
    [
        ("7", "7.0", True),
        ("True", "true", True),
        ("FALSE", "False", True),
        ("Yes", "yes", False),
        ("**5**", "5", True),
        ("+007", "7", True),
        ("1,000", "1000", True),
        ("-0", "0", True),
        ("a  b", " a b\n", True),
        ("A", "a", False),
        ("7", "8", False),
        ("", "7", False),
        ("1e3", "1000", True),
        ("nan", "nan", True),
        ("9" * 5000, "9" * 5000, True),
    ],
)
def test_equality(given_text: str, answer: str, same: bool) -> None:
    assert equal(given_text, answer) is same


@given(st.text(), st.text())
@example("١", "1")
def test_equality_never_raises_and_is_symmetric(left: str, right: str) -> None:
    assert equal(left, left)
    assert equal(left, right) == equal(right, left)


def test_extractions() -> None:
    scenario = Scenario("s", "q", 12)
    assert ExactMatch().verify("<answer>12</answer>", scenario) == 1.0
    assert ExactMatch().verify("12", scenario) == 0.0
    assert ExactMatch("last-line").verify("well\n12", scenario) == 1.0
    assert ExactMatch("last-line").verify("it is 12", scenario) == 0.0
    assert ExactMatch("number").verify("it is 12.", scenario) == 1.0
    assert ExactMatch("number").verify("12 or 13", scenario) == 0.0
    assert ExactMatch().verify("<answer>12</answer>", Scenario("s", "q")) is None
    with pytest.raises(ConfigurationError, match=r"extract = 'numbr' is unknown; did you mean 'number'\?"):
        ExactMatch("numbr")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "known", "due"),
    [
        ("so x = \u22125", "5", 0),
        ("so x = \u22125", -5, 1),
        ("about 2.5e-3", "-3", 0),
        ("about 2.5e-3", 0.0025, 1),
        ("1e3", 3, 0),
        ("10,00", 0, 0),
        ("1/2", 2, 0),
        ("it is 5 or 7", 7, 0),
    ],
)
def test_the_last_number_is_paid_for_what_it_is(text: str, known: Any, due: float) -> None:
    assert ExactMatch("number").verify(text, Scenario("s", "q", known)) == due


@pytest.mark.parametrize(
    ("text", "known", "due"),
    [
        ("\u22125", -5, 1),
        ("5.", 5, 1),
        ("0.00001", 1e-05, 1),
        ("1e-5", 1e-05, 1),
        ("10000000000000000", 1e16, 1),
        ("10000000000000001", 1e16, 0),
        ("1" + "0" * 300, 1e300, 1),
        ("0.1", 0.1, 1),
        ("0.1000000000000000055", 0.1, 0),
        ("$5", 5, 1),
        ("$5", "€5", 0),
        ("nan", math.nan, 0),
        ("inf", math.inf, 0),
        ("nan", [math.nan, 1], 0),
        ("None", [None, 1], 0),
        ("1", [None, 1], 1),
        ("5 or 7", 5, 0),
        ("1_0", 10, 0),
        ("٥", 5, 0),
        ("0x5", 5, 0),
        ("5\u200b", 5, 0),
    ],
)
def test_known_answers_are_met_by_value(text: str, known: Any, due: float) -> None:
    assert ExactMatch().verify(f"<answer>{text}</answer>", Scenario("s", "q", known)) == due


def test_task_verifiers_survive_what_raises() -> None:
    def verify(text: str, scenario: Scenario) -> float | None:
        return {"a": 1.0, "b": None, "n": math.nan}[text]

    opinions = asyncio.run(TaskVerifier(verify)([said(t) for t in "abxn"], key=Key.of(0)))
    assert opinions == [1.0, None, None, None]
    assert opinions.feedback[2] == "verifying s0 raised KeyError: 'x'"
    assert opinions.feedback[3] is not None
    assert len(opinions.problems) == 2
    with pytest.raises(RewardError, match="This happened for all 2 answers; correct the verifier"):
        asyncio.run(TaskVerifier(verify)([said("x"), said("y")], key=Key.of(0)))


# ---------------------------------------------------------------- scoring


@dataclass
class Memory:
    """A journal in memory, which answers a missing key with something falsy."""

    kept: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def put(self, key: str, value: Any) -> None:
        self.kept[key] = value


def lengths(completions: list[str]) -> list[float]:
    return [float(len(c)) for c in completions]


def scored(trajectories: Sequence[Trajectory], rewards: Any, journal: Any = None, seed: int = 1) -> list[str]:
    return asyncio.run(grade(trajectories, rewards, Key.of(seed), journal))


def test_all_rewards_write_their_score() -> None:
    trajectories = [said("<answer>3</answer>", 3), said("no", 3, failure="lost"), said("4", 3)]
    assert scored(trajectories, [ExactMatch(), FunctionReward(lengths)]) == []
    assert [t.scores["correct"].value for t in trajectories] == [1.0, None, 0.0]
    assert [t.scores["lengths"].value for t in trajectories] == [18.0, None, 1.0]
    assert trajectories[1].scores["lengths"].feedback == "lost"
    assert pack(trajectories).scores["lengths"].values.isnan().tolist() == [False, True, False]


def test_failed_trajectories_alone_call_nothing() -> None:
    trajectories = [said("x", failure="lost")]
    assert scored(trajectories, [FunctionReward(lambda: 1 / 0, name="never")]) == []
    assert trajectories[0].scores["never"].value is None


def test_problems_are_told_and_stand_in_the_feedback() -> None:
    trajectories = [said("a"), said("b")]
    problems = scored(trajectories, [FunctionReward(lambda completions: [1.0, math.nan], name="f")])
    assert len(problems) == 1
    assert trajectories[1].scores["f"].feedback == problems[0]
    assert trajectories[0].scores["f"].feedback is None


def test_rewards_run_at_the_same_time() -> None:
    import threading

    meeting = threading.Barrier(2, timeout=5)

    def one(completions: list[str]) -> list[float]:
        meeting.wait()
        return [1.0]

    def two(completions: list[str]) -> list[float]:
        meeting.wait()
        return [2.0]

    trajectories = [said("a")]
    scored(trajectories, [FunctionReward(one), FunctionReward(two)])
    assert (trajectories[0].scores["one"].value, trajectories[0].scores["two"].value) == (1.0, 2.0)


def test_outside_results_are_replayed() -> None:
    calls = []

    def judge(completions: list[str]) -> list[float]:
        calls.append(len(completions))
        return [float(len(calls)), math.nan]

    journal = Memory()
    first, second, third = ([said("a", 1), said("b", 1)] for _ in range(3))
    told = scored(first, [FunctionReward(judge), ExactMatch()], journal)
    again = scored(second, [FunctionReward(judge), ExactMatch()], journal)
    assert calls == [2]
    assert told == again
    assert [t.scores for t in first] == [t.scores for t in second]
    assert len(journal.kept) == 1, "the task's own verifier is computed, not remembered"
    scored(third, [FunctionReward(judge)], journal, seed=2)
    assert calls == [2, 2], "another place in the run"
    scored([said("a", 1), said("c", 1)], [FunctionReward(judge)], journal)
    assert calls == [2, 2, 2], "other completions"


def test_two_rewards_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two rewards are called 'correct'"):
        scored([said("a")], [ExactMatch(), ExactMatch("number")])


def test_rewards_of_ones_own_are_checked() -> None:
    class Short:
        name, weight = "short", 1.0

        async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
            return [1.0]

    with pytest.raises(RewardError, match="reward short returned 1 values for 2 completions"):
        scored([said("a"), said("b")], [Short()])


def test_final_answers():
    assert [final_answer(text) for text in ("x <answer> 4 </answer> y", "a\n b \n\n", "")] == ["4", "b", ""]
