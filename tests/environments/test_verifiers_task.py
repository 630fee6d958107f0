"""Environments of verifiers as tasks. The library pins others' versions, so these run where it is installed."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.testing import rehearse

PACKAGE = """
import verifiers.v1 as vf


class SumsConfig(vf.TasksetConfig):
    count: int = 20


class SumsData(vf.TaskData):
    answer: int


class SumsTask(vf.Task[SumsData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(f"<answer>{self.data.answer}</answer>" in (trace.last_reply or ""))

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply or ""))

    @vf.reward(weight=0.5)
    async def fails(self, trace: vf.Trace) -> float:
        if "fail" in trace.last_reply:
            raise ValueError("the verifier broke")
        return 1.0


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self):
        for n in range(self.config.count):
            yield SumsTask(SumsData(prompt=f"What is {n} + 2?", answer=n + 2), self.config.task)


__all__ = ["SumsTaskset"]
"""


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verifiers.v1", None)
    with pytest.raises(ConfigurationError, match=r"verifiers:NAME needs the package verifiers.*hocket\[verifiers\]"):
        find("verifiers:gsm8k")


@pytest.fixture
def taskset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("verifiers.v1")
    (tmp_path / "written_sums.py").write_text(textwrap.dedent(PACKAGE))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "verifiers:written_sums"


@pytest.mark.slow
@pytest.mark.global_rng
def test_a_taskset_is_played_and_scored_by_its_own_environment(taskset: str) -> None:
    task: Any = find(f"{taskset}?count=12")
    assert task.size("train") + task.size("eval") == 12
    prompts = {str(task.scenario(split, n).prompt) for split in ("train", "eval") for n in range(task.size(split))}
    assert len(prompts) == 12
    scenario = task.scenario("train", 0)
    asked: list[Any] = []

    def reply(text: str) -> Any:
        def answer(messages: Any) -> str:
            asked.append(messages)
            return text

        return rehearse(task.workflow, scenario, answer)[0]

    number = scenario.metadata["index"] + 2
    right = reply(f"<answer>{number}</answer>")
    assert right.failure is None
    assert [dict(message) for message in asked[0]] == [dict(message) for message in scenario.messages]
    assert right.scores["reward"].value == 1.5
    assert right.info["right"] == 1.0
    assert right.info["length"] == len(f"<answer>{number}</answer>")
    assert task.success(right) == 1.0
    assert reply("<answer>0</answer>").scores["reward"].value == 0.5
    broken = reply("fail")
    assert "the verifier broke" in broken.failure


@pytest.mark.slow
@pytest.mark.global_rng
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?cuont=3", "cannot be configured: taskset.cuont: Extra inputs are not permitted"),
        ("?count=many", "cannot be configured: taskset.count: Input should be a valid integer"),
        ("?harness=nosuch", "harness 'nosuch' not found"),
        ("?count=0", "the taskset has no tasks"),
        ("?turns=many", "turns"),
        ("_other", "taskset 'written_sums_other' not found"),
    ],
)
def test_what_cannot_be_played_is_refused(taskset: str, query: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find(taskset + query)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
