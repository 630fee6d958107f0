"""Tasks that come with tools or tests: `calculator` and `code`."""

from __future__ import annotations

import asyncio

import pytest

from hocket.agents.tools.sandbox import available
from hocket.agents.tools.unit_tests import take_apart
from hocket.agents.workflows.single import SingleTurn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.code_tests import CodeTests
from hocket.rewards.score import grade
from hocket.tasks import find
from hocket.tasks.code import CHAINS, Code, draw_problem
from hocket.tasks.lessons import lessons_of
from hocket.tasks.split import split_of
from hocket.testing import rehearse
from hocket.types import Trajectory

LOCKS = available()[0]
needs_sandbox = pytest.mark.skipif(
    not {"limits", "seccomp"} <= set(LOCKS) or not {"namespaces", "landlock"} & set(LOCKS),
    reason=f"this machine has only the layers {LOCKS}",
)


def answered(task: Code, number: int, text: str) -> Trajectory:
    (found,) = rehearse(SingleTurn(), task.scenario("train", number), [text])
    return found


def test_every_number_is_a_problem_with_tests_of_its_own() -> None:
    task, again, brief = find("code?brief=false"), find("code?steps=2&tests=8&brief=false"), find("code?steps=2")
    assert isinstance(task, Code)
    few: dict[str, str] = {}
    words = {"train": set(), "eval": set()}
    for split, seen in words.items():
        for number in range(60):
            scenario = task.scenario(split, number)
            assert scenario == again.scenario(split, number)
            tests = scenario.metadata["tests"]
            assert len(set(tests)) == 8
            assert len({test.partition(" == ")[2] for test in tests}) >= 4
            assert all(len(take_apart(test).calls) == 1 for test in tests)
            example = tests[0].removeprefix("assert ").replace(" == ", " returns ")
            assert f"For example, {example}." in scenario.prompt
            seen.add(scenario.prompt.partition(" For example")[0])
            short = brief.scenario(split, number)
            assert short.metadata == scenario.metadata
            code = few.setdefault(str(short.prompt), scenario.metadata["demonstration"])
            assert code == scenario.metadata["demonstration"]
    assert not words["train"] & words["eval"]
    assert {split_of(text) for text in words["eval"]} == {"eval"}


def test_every_step_and_end_is_drawn() -> None:
    rng = Key.of(1).numpy()
    drawn = [draw_problem(rng, 2, 6) for _ in range(600)]
    for chain in CHAINS.values():
        for step in (*chain.steps, *chain.ends):
            fixed = [part for part in step.words.split("{k}") if part.strip()]
            assert any(all(part in problem.words for part in fixed) for problem in drawn), step
        assert len({step.few for step in (*chain.steps, *chain.ends)}) == len(chain.steps) + len(chain.ends)


@needs_sandbox
def test_the_demonstration_passes_and_others_do_not() -> None:
    task = Code(steps=3, tests=5)
    for number in range(4):
        right = task.scenario("train", number).metadata["demonstration"]
        assert task.verify(right, task.scenario("train", number)) == 1.0
        assert task.verify("```python\ndef f(x): return 'no such value'\n```", task.scenario("train", number)) == 0.0
    assert task.verify("no program", task.scenario("train", 0)) == 0.0


@needs_sandbox
def test_success_is_read_off_the_score_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Code(grading="share")
    right = answered(task, 0, task.scenario("train", 0).metadata["demonstration"])
    assert task.success(right) == 1.0
    wrong = answered(task, 0, "```python\ndef f(x): return x\n```")
    asyncio.run(grade([right, wrong], task.rewards, Key.of(0)))
    monkeypatch.setattr(CodeTests, "judge", lambda *_: pytest.fail("judged again"))
    assert task.success(right) == 1.0
    assert task.success(wrong) == 0.0
    assert task.describe(wrong) == {"format": 1.0}
    assert task.label(wrong) is None


def test_wrong_settings_are_refused() -> None:
    for wrong in ("code?steps=0", "code?tests=1", "code?grading=some", "code?step=2"):
        with pytest.raises(ConfigurationError):
            find(wrong)


def test_the_calculator_task_is_played_with_its_tool() -> None:
    task = find("calculator?listed=false")
    scenario = task.scenario("eval", 0)
    said = scenario.metadata["demonstration"]
    replies = [message["content"] for message in said if message["role"] == "assistant"]
    (found,) = rehearse(task.workflow, scenario, replies)
    assert found.info["calls"][0]["result"] == scenario.answer == said[1]["content"]
    assert task.success(found) == 1.0
    (guessed,) = rehearse(task.workflow, scenario, ["<answer>1</answer>"])
    assert task.success(guessed) == 0.0
    assert guessed.info["tool_calls"] == 0


def test_the_calculator_has_lessons_by_default_where_its_name_says_so() -> None:
    steps = {name: lessons_of(find(name)).steps for name in ("calculator", "calculator?lessons=40")}  # type: ignore[union-attr]
    assert steps == {"calculator": 0, "calculator?lessons=40": 40}
    assert find("calculator?lessons=40").name == "calculator?digits=3&listed=true&lessons=40"
    with pytest.raises(ConfigurationError, match="lessons must be at least 0"):
        find("calculator?lessons=-1")
