"""Sums that take a search and a program, one of them or neither."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.tasks.lessons import lessons_of
from hocket.testing import rehearse, tool_call
from hocket.zoo.tasks.lookup import held
from hocket.zoo.tasks.reckoning import KINDS, Expressions, Reckoning


def test_a_question_needs_what_its_kind_says_and_its_splits_are_apart() -> None:
    task = Reckoning()
    for split in ("train", "eval"):
        size = task.size(split)
        assert size is not None
        for number in range(size):
            asked = task.scenario(split, number)
            kind, gold = asked.metadata["kind"], asked.metadata["gold"]
            assert kind == KINDS[number % 3]
            assert {held(name) for name in gold} <= {split == "eval"}
            assert bool(gold) is (kind != "neither")
            added = asked.metadata["added"] if kind == "both" else 0
            if gold:
                (call,) = rehearse(task.workflow, asked, [tool_call("search", query=gold[0]), "x"])[0].info["calls"]
                assert call["result"] == f"{gold[0]}: number {int(asked.answer) - added}"


def test_both_tools_lead_to_the_answer_and_are_told() -> None:
    task = Reckoning()
    asked = task.scenario("train", 0)
    found, added = int(asked.answer) - asked.metadata["added"], asked.metadata["added"]
    replies = [tool_call("search", query=asked.metadata["gold"][0]), tool_call("python", code=f"{found}+{added}")]
    (whole,) = rehearse(task.workflow, asked, [*replies, f"<answer>{asked.answer}</answer>"])
    (head,) = rehearse(task.workflow, asked, [replies[0], f"<answer>{asked.answer}</answer>"])
    (wrong,) = rehearse(task.workflow, asked, [*replies, "<answer>0</answer>"])
    assert whole.info["calls"][1]["result"] == asked.answer
    for played, right, both, calls in ((whole, 1.0, 1.0, 2.0), (head, 1.0, 0.0, 1.0), (wrong, 0.0, 0.0, 2.0)):
        traits = task.describe(played)
        assert (traits["both"], traits["both_tools"], traits["both_calls"]) == (right, both, calls)


def test_lessons_call_what_is_there_and_are_wrong_at_times() -> None:
    task = find("reckoning")
    lessons = lessons_of(task)
    assert lessons is not None
    right, called = list[bool](), set[int]()
    for number in range(60):
        asked = task.scenario("train", number)
        (lesson,) = lessons.play(asked, np.random.default_rng(number))
        assert not any(str(one["content"]).startswith("error") for one in lesson.said)
        right.append(str(lesson.said[-1]["content"]) == f"<answer>{asked.answer}</answer>")
        called.add(len(lesson.said))
    assert 20 < sum(right) < 55
    assert called == {1, 3, 5}


def test_python_without_a_sandbox_is_for_expressions() -> None:
    tool = Expressions()
    assert asyncio.run(tool({"code": "3*(2+5)"})) == "21"
    assert asyncio.run(tool({"code": "import os"})).startswith("error")
    assert asyncio.run(tool({})) == "error: python needs code"


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="kinds are both, search, neither"):
        find("reckoning?kinds=all")
    with pytest.raises(ConfigurationError, match="most and turns"):
        find("reckoning?most=0")
    assert find("reckoning?kinds=both,neither").size("eval") == 2 * (find("reckoning?kinds=search").size("eval") or 0)
