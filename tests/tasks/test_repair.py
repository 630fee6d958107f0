"""Bugs of installed functions: they are noticed, can be taken back with the tools, and only a repair is rewarded."""

from __future__ import annotations

import ast
import asyncio

import numpy as np
import pytest

from hocket import tasks
from hocket.agents.tools.bugs import SourceChange, gives
from hocket.agents.tools.edits import refusal
from hocket.agents.tools.routines import ROUTINES, installed
from hocket.agents.tools.sandbox import available
from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.nano.tokenizer import build_tokenizer
from hocket.testing import rehearse, tool_call
from hocket.types import Trajectory
from hocket.zoo.tasks.repair import Repair, bugs_by_split, edit_of

pytestmark = pytest.mark.skipif(not available()[0], reason="this machine cannot lock a program in")

SHORT = "repair?longest=100"


@pytest.fixture(scope="module")
def task() -> Repair:
    found = tasks.find(SHORT)
    assert isinstance(found, Repair)
    return found


def played(task: Repair, replies: list[str]) -> Trajectory:
    (found,) = rehearse(task.workflow, task.scenario("train", 0), replies, chat=Chat(build_tokenizer()))
    assert found.failure is None
    return found


def test_splits_share_no_bug_and_are_the_same_again(task: Repair) -> None:
    found = bugs_by_split(task.longest)
    changes = {split: {(one.original.routine, one.change) for one in bugs} for split, bugs in found.items()}
    assert changes["train"]
    assert changes["eval"]
    assert not changes["train"] & changes["eval"]
    assert [task.scenario("eval", n) for n in range(3)] == [tasks.find(SHORT).scenario("eval", n) for n in range(3)]


def test_the_tests_fail_and_every_bug_can_be_taken_back(task: Repair) -> None:
    for number in range(5):
        bench = task.bench(task.scenario("train", number))
        original, mending = bench.bug.original, bench.bug.mending
        for tests in (original.tests, original.held):
            calls = tuple(call for call, _ in tests)
            assert gives(bench.lines, calls, bench.sandbox) != tuple(wanted for _, wanted in tests)
        assert not bench.edited(edit_of(mending, bench.lines[mending.line - 1])).startswith("error")
        assert bench.lines == original.lines
        assert not bench.wrong()


def test_an_agent_that_reads_tests_and_edits_is_rewarded(task: Repair) -> None:
    bug = task.bench(task.scenario("train", 0)).bug
    edit = edit_of(bug.mending, bug.lines[bug.change.line - 1])
    found = played(task, [tool_call("test"), tool_call("read"), tool_call("edit", **edit), tool_call("test"), "Done."])
    first, shown, _, last = (call["result"] for call in found.info["calls"])
    assert first.startswith(bug.call)
    assert bug.lines[bug.change.line - 1] in shown
    assert last == "all tests pass"
    assert asyncio.run(task.rewards[0]([found], key=Key.of(0))) == [1.0]
    assert (task.success(found), task.describe(found)) == (1.0, {"edited": 1.0, "tested": 1.0})


def test_a_table_of_the_tests_that_are_shown_is_no_repair(task: Repair) -> None:
    """Of every function whose head has room for it: all that the tool tests is answered, nothing else."""
    tried = 0
    for number in range(task.size("train") or 0):
        bench = task.bench(task.scenario("train", number))
        original, lines = bench.bug.original, list(bench.bug.lines)
        (function,) = ast.parse("\n".join(original.lines[original.first - 1 : original.last])).body
        assert isinstance(function, ast.FunctionDef)
        place = function.body[0].lineno + original.first - 2
        pad = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        names = ", ".join(one.arg for one in function.args.args)
        for call, wanted in original.tests:
            given = call.removeprefix(original.routine.name)[1:-1]
            lines.insert(place, f"{pad}if ({names},) == ({given},): return {wanted}")
        bench.lines = tuple(lines)
        assert not bench.wrong(shown=True)
        assert bench.wrong()
        tried += 1
    assert tried


def test_every_routine_holds_tests_back() -> None:
    for original in filter(None, map(installed, ROUTINES)):
        assert len(original.held) >= len(original.all_tests) // 3
        assert not {call for call, _ in original.tests} & {call for call, _ in original.held}


def test_words_alone_earn_nothing(task: Repair) -> None:
    found = played(task, ["all tests pass"])
    assert asyncio.run(task.rewards[0]([found], key=Key.of(0))) == [0.0]
    assert (task.success(found), task.label(found)) == (0.0, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "error: edit needs a line, old and new"),
        ({"line": "x", "old": "a", "new": "b"}, "error: edit needs a line, old and new"),
        ({"line": 1, "old": "a", "new": "b"}, "error: line 1 is not shown"),
        ({"line": "FIRST", "old": "\u00e9", "new": "b"}, "error: old stands 0 times"),
        ({"line": "FIRST", "old": "def", "new": "import os\ndef"}, "error: new is one line of at most 200 characters"),
        ({"line": "FIRST", "old": "def", "new": "x" * 999}, "error: new is one line of at most 200 characters"),
    ],
)
def test_an_edit_that_cannot_be_made_is_answered(task: Repair, arguments: dict[str, object], said: str) -> None:
    bench = task.bench(task.scenario("train", 0))
    if arguments.get("line") == "FIRST":
        arguments = {**arguments, "line": bench.bug.original.first}
    assert bench.edited(arguments).startswith(said)
    assert bench.lines == bench.bug.lines


def test_a_module_that_breaks_passes_nothing(task: Repair) -> None:
    bench = task.bench(task.scenario("train", 0))
    assert not bench.edited({"line": bench.bug.original.first, "old": "def", "new": "deg"}).startswith("error")
    assert len(bench.wrong()) == len(bench.bug.original.all_tests)


@pytest.mark.parametrize("new", ["import os; os._exit(0); def", "print('[[]]'); def", "@print\tdef"])
def test_nothing_is_put_beside_the_function(task: Repair, new: str) -> None:
    bench = task.bench(task.scenario("train", 0))
    bench.edited({"line": bench.bug.original.first, "old": "def", "new": new})
    assert len(bench.wrong()) > 0


LINES = ("import math", "def area(side, times=2):", "    return math.pow(side, times) + 1")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return math.pow(side, 3) - len(str(times))", None),
        ("    return sum(one for one in (side, times))", None),
        ("    return math.pow(", None),  # It does not parse, so it passes nothing anyway.
        ("    import shapes; return shapes.area(side)", "an edit may not import"),
        ("    from shapes import area; return area(side)", "an edit may not import"),
        ("    return __import__('shapes').area(side)", "an edit may not bring in __import__"),
        ("    return eval('1')", "an edit may not bring in eval"),
        ("    return open('shapes.py').read()", "an edit may not bring in open"),
        ("    return math.sqrt(side)", "an edit may not bring in sqrt"),
        ("    return area.__globals__", "an edit may not bring in __globals__"),
        ("    global math; math = 1; return 1", "an edit may not import"),
        ("    return 1\ndef other(): return 2", "leave the function where it is"),
    ],
)
def test_what_an_edit_may_bring_in(body: str, said: str | None) -> None:
    lines = [*LINES[:2], *body.split("\n")]
    found = refusal(lines, LINES, 2, 3 if "\n" not in body else 4)
    assert found is None if said is None else (found or "").startswith(said)


def test_an_edit_takes_as_few_words_as_stand_once() -> None:
    line = "    return year % 4 == 0 and year % 100 != 0"
    assert edit_of(SourceChange(1, line.index("4"), "4", "5"), line) == {"line": "1", "old": "4", "new": "5"}
    found = edit_of(SourceChange(1, line.index("%"), "%", "//"), line)
    assert line.count(found["old"]) == 1
    assert line.replace(found["old"], found["new"]) == "    return year // 4 == 0 and year % 100 != 0"


def test_lessons_hold_the_repair_in_a_part_of_them(task: Repair) -> None:
    right = []
    for number in range(30):
        scenario = task.scenario("train", number % task.size("train"))  # type: ignore[operator]
        bug = task.bench(scenario).bug
        (lesson,) = task.lessons.play(scenario, np.random.default_rng(number))
        last = str(lesson.said[-2]["content"])
        right.append(last == f"{bug.change.line} {bug.original.lines[bug.change.line - 1]}")
        assert lesson.said[-1]["content"] == "Done."
    assert 0.2 < np.mean(right) < 0.8


@pytest.mark.parametrize("name", ["repair?longest=20", "repair?turns=0"])
def test_settings_that_make_no_task(name: str) -> None:
    with pytest.raises(ConfigurationError, match="longest is at least 100 characters and turns at least 1"):
        tasks.find(name)
