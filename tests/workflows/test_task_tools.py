"""A task's tools go to the workflow that is chosen for it."""

from __future__ import annotations

from hocket import tasks
from hocket.agents.tools.search import Search
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.planner_worker import PlannerWorker
from hocket.agents.workflows.tool_use import ToolUse
from hocket.agents.workflows.workflow import Workflow
from hocket.nano.tokenizer import build_tokenizer
from hocket.testing import rehearse
from hocket.train.config import configure
from hocket.train.kinds.text import TEXT, workflow_of

CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "6*7"}}</tool_call>'


def chosen(task: str, *settings: tuple[str, str]) -> Workflow:
    source = tasks.find(task)
    return workflow_of(configure([("task", task), *settings], source), source, None)


def names(flow: Workflow) -> list[str]:
    return [tool["function"]["name"] for tool in flow.tools["policy"]]


def test_a_named_tool_workflow_has_the_tools_of_the_task() -> None:
    flow = chosen("multihop", ("workflow", "tool-use"))
    assert isinstance(flow, ToolUse)
    assert isinstance(flow.tools_of, tuple)
    assert isinstance(flow.tools_of[0], Search)
    assert names(chosen("sums", ("workflow", "tool-use"))) == ["calculator"]
    assert names(chosen("multihop", ("workflow", "tool-use?tools_of=calculator"))) == ["calculator"]


def test_workers_call_the_tools_of_the_task() -> None:
    flow = chosen("calculator", ("recipe", "matpo"))
    assert isinstance(flow, PlannerWorker)
    scenario = tasks.find("calculator").scenario("train", 0)
    replies = {"planner": ["1. 6*7", "<answer>42</answer>"], "worker": [CALL, "<answer>42</answer>"]}
    (played,) = rehearse(flow, scenario, replies)
    assert [turn.role for turn in played.turns] == ["planner", "worker", "worker", "planner"]
    assert "42" in Chat(build_tokenizer()).render(played.turns[2].observation)


def test_a_workflow_that_leaves_tools_aside_is_remarked() -> None:
    task = tasks.find("calculator")
    settings = [("task", "calculator"), ("workflow", "single")]
    (said,) = TEXT.remarks(configure(settings, task), task, None)
    assert "leaves aside the tools of task calculator" in said
    assert TEXT.remarks(configure([("task", "calculator")], task), task, None) == ()
    sums = tasks.find("sums")
    assert TEXT.remarks(configure([("workflow", "single")], sums), sums, None) == ()
