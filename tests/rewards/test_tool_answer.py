"""Answers reached with tools: form, grade and bonus."""

from __future__ import annotations

import asyncio
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.core.markup import edit_distance
from hocket.rewards.tool_answer import GRADES, ToolAnswer, plain, tools_called, well_tagged
from hocket.types import Scenario, Trajectory, Turn

LAW = settings(max_examples=80, deadline=None, derandomize=True)
CALL = '<tool_call>{"name": "%s", "arguments": {"q": "x"}}</tool_call>'
ANSWER = "<answer>7</answer>"
LETTERS = st.text("ab ", max_size=6)


def attempt(*texts, answer="7", metadata=None, **info):
    zeros = np.zeros(1, np.int64)
    turns = [Turn(agent="a", policy="p", observation=zeros, action=zeros, text=text) for text in texts]
    return Trajectory(Scenario("s", "?", answer, metadata or {}), turns, info=info)


def earned(reward, *texts, **more):
    (value,) = asyncio.run(reward([attempt(*texts, **more)], key=Key.of(0)))
    return value


@pytest.mark.parametrize(
    ("turns", "good"),
    [
        ([ANSWER], True),
        (["<think></think>" + ANSWER], True),
        ([CALL % "search", "so " + ANSWER + " \n"], True),
        ([ANSWER, ANSWER], True),
        ([ANSWER, CALL % "search"], False),
        ([], False),
        ([""], False),
        (["</answer>"], False),
        (["<answer><answer>7</answer>"], False),
        (["<answer><think>7</think></answer>"], False),
        ([CALL % "search" + "<tool_call>", ANSWER], False),
        ([ANSWER + "."], False),
    ],
)
def test_the_form_is_closed_tags_and_an_answer_at_the_end(turns, good):
    assert well_tagged(turns) is good


BLOCKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "x"]


GRAMMAR = re.compile(
    r"(?:x|<think>x*</think>|<tool_call>x*</tool_call>|<answer>x*</answer>)*<answer>x*</answer>", re.DOTALL
)


def test_all_short_texts_against_a_grammar():
    for length in range(6):
        for parts in product(BLOCKS, repeat=length):
            text = "".join(parts)
            assert well_tagged([text]) is (GRAMMAR.fullmatch(text) is not None), text


@LAW
@given(one=LETTERS, other=LETTERS, third=LETTERS)
def test_edit_distance_is_a_distance(one, other, third):
    assert edit_distance(one, other) == edit_distance(other, one) <= max(len(one), len(other))
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, third) <= edit_distance(one, other) + edit_distance(other, third)
    assert edit_distance(one, other) >= abs(len(one) - len(other))


@pytest.mark.parametrize(("one", "other", "far"), [("kitten", "sitting", 3), ("", "abc", 3), ("paiss", "pairs", 1)])
def test_known_distances(one, other, far):
    assert edit_distance(one, other) == far


@LAW
@given(given_=LETTERS, reference=LETTERS, grade=st.sampled_from(sorted(GRADES)))
def test_grades_lie_between_0_and_1_and_know_the_right_answer(given_, reference, grade):
    assert 0 <= GRADES[grade](plain(given_), plain(reference)) <= 1
    assert GRADES[grade]("12.5", "12.5") == 1


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "9" * 5000, "j", ""])
def test_odd_numbers_are_no_error(text):
    for grade in ("near", "nearly"):
        assert GRADES[grade](text, "1") == 0.0
        assert GRADES[grade]("1", text) == 0.0


@pytest.mark.parametrize(
    ("given_", "reference", "due"),
    [
        ("Rome.", "rome", 1),
        ("it is Rome", "rome", 1),
        ("The capital of Italy is Rome.", "rome", 1),
        ("answer: Rome", "rome", 1),
        ("the city of Rome", "rome", 1),
        ("it is the city of Rome", "rome", 1),
        ("the mayor of Rome", "rome", 0),
        ("the battle of hastings", "battle of hastings", 1),
        ("battle of hasting", "battle of hastings", 17 / 18),
        ("12.0", "12", 1),
        ("paris london rome berlin", "rome", 0),
        ("rome, paris", "rome", 0),
        ("rome or paris", "rome", 0),
        ("it is paris, it is rome", "rome", 0),
        ("it is not rome", "rome", 0),
        ("it isn't rome", "rome", 0),
        ("if it is rome", "rome", 0),
        ("i doubt it is rome", "rome", 0),
        ("rome?", "rome", 0),
        ("the month is may", "may", 1),
        ("none of them is rome", "rome", 0),
        ("not the battle of hastings", "the battle of hastings", 0),
        ("112", "12", 0),
        ("1997", "1998", 0),
        ("a", "", 0),
    ],
)
def test_a_fact_is_stated_and_not_listed_or_denied(given_, reference, due):
    assert GRADES["fact"](plain(given_), plain(reference)) == pytest.approx(due)


@pytest.mark.parametrize(
    ("grade", "given_", "reference", "due"),
    [
        ("near", "\u22125", "-5", 1),
        ("near", "1/3", "0.3333", 1),
        ("near", "1,000", "1000", 1),
        ("near", "seven", "7", 1),
        ("near", "1.001", "1", 0),
        ("near", "10,00", "1000", 0),
        ("near", "1_0", "10", 0),
        ("near", "٥", "5", 0),
        ("near", "nan", "nan", 0),
        ("near", "5+0j", "5", 1),
        ("near", "(3 - 2.5i)", "3-2.5j", 1),
        ("near", "-i", "0 - 1j", 1),
        ("near", "1e-5+2e-3i", "0.00001+0.002j", 1),
        ("near", "3+2", "3+2i", 0),
        ("near", "1_0j", "10j", 0),
        ("nearly", "104", "100", 1),
        ("nearly", "105", "100", 0),
        ("nearly", "1e400", "1e400", 1),
        ("exact", "1e0", "1", 1),
        ("exact", "10,00", "1000", 0),
    ],
)
def test_numbers_are_read_as_everywhere(grade, given_, reference, due):
    assert GRADES[grade](plain(given_), plain(reference)) == due


@LAW
@given(
    kinds=st.lists(st.sampled_from(["search", "python", "other"]), max_size=4),
    said=st.sampled_from(["a b", "a", "c", "a b c d"]),
    form=st.booleans(),
)
def test_every_value_is_minus_one_0_s_or_s_and_the_bonus(kinds, said, form):
    reward = ToolAnswer(grade="f1", tools=("search", "python"), bonus=0.1)
    texts = [*(CALL % kind for kind in kinds), f"<answer>{said}</answer>" if form else f"<answer>{said}"]
    value = earned(reward, *texts, answer="a b")
    words = set(said.split())
    s = 2 * len(words & {"a", "b"}) / (len(words) + 2)
    both = {"search", "python"} <= set(kinds)
    assert value == pytest.approx(-1.0 if not form else s + 0.1 * (s > 0 and both))


def test_the_best_of_several_answers_counts_and_the_scenario_names_its_grade():
    assert earned(ToolAnswer(), "<answer>b</answer>", answer=["a", "b"]) == 1
    assert earned(ToolAnswer(), "<answer>104</answer>", answer=100) == 0
    assert earned(ToolAnswer(), "<answer>104</answer>", answer=100, metadata={"grade": "nearly"}) == 1
    assert earned(ToolAnswer(), "<answer>yes</answer>", answer=None) is None
    assert earned(ToolAnswer(), "<answer>true</answer>", answer=True) == 1


def test_calls_are_those_that_were_made():
    assert tools_called(attempt(CALL % "search", ANSWER)) == {"search"}
    assert tools_called(attempt(CALL % "search", ANSWER, calls=[{"name": "python"}])) == {"python"}
    assert tools_called(attempt("<tool_call>none</tool_call>", ANSWER)) == frozenset()


@pytest.mark.parametrize(
    "settings_",
    [{"grade": "best"}, {"malformed": 0.1}, {"bonus": -0.1, "tools": ("a",)}, {"bonus": 0.1}],
)
def test_settings_without_sense_are_refused(settings_):
    with pytest.raises(ValueError, match=r"must be|needs"):
        ToolAnswer(**settings_)
