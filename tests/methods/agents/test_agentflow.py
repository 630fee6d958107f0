"""The planner in the flow: who is asked what, when it stops, and what tools say."""

from __future__ import annotations

from statistics import fmean

import pytest

from hocket import tasks
from hocket.agents.workflows.library import find
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.agentflow import AGENTFLOW, InTheFlow
from hocket.methods.agents.claims.agentflow import TASK
from hocket.testing import rehearse
from hocket.types import Scenario

QUESTION = Scenario("q", "How many legs has a spider?", "8")


class Legs:
    """Tells how many legs an animal has."""

    name = "legs"

    @property
    def schema(self):
        told = {"type": "object", "properties": {"animal": {"type": "string"}}}
        return {"type": "function", "function": {"name": self.name, "parameters": told}}

    async def __call__(self, arguments):
        return {"spider": "8"}.get(arguments.get("animal"), "unknown")


def played(flow, planner, executor, verifier, generator=("<answer>8</answer>",)):
    replies = {"planner": planner, "executor": executor, "verifier": verifier, "generator": generator}
    (found,) = rehearse(flow, QUESTION, replies)
    assert found.failure is None
    return found


def test_tools_are_carried_out_and_answer_tags_are_read():
    call = '<tool_call>{"name": "legs", "arguments": {"animal": "spider"}}</tool_call>'
    found = played(InTheFlow(tools_of=(Legs(),)), ["ask"], [call], ["stop"])
    assert found.info["memory"] == ["1. ask -> 8"]
    found = played(InTheFlow(tools_of=lambda scenario, key: [Legs()]), ["ask"], [call], ["stop"])
    assert found.info["memory"] == ["1. ask -> 8"]
    found = played(InTheFlow(), ["ask"], ["so <answer> eight </answer>"], ["stop"])
    assert found.info["memory"] == ["1. ask -> eight"]


def test_it_is_in_the_library():
    assert find("agentflow?turns=2").turns == 2
    with pytest.raises(ValueError, match="turns"):
        InTheFlow(turns=0)


def test_tools_may_be_named() -> None:
    flow = find("agentflow?tools_of=calculator, python")
    assert isinstance(flow, InTheFlow)
    assert [tool.name for tool in flow.tools_of] == ["calculator", "python"]  # type: ignore[union-attr]
    assert InTheFlow().tools_of == ()
    with pytest.raises(ConfigurationError, match="no tool 'calculater'; did you mean 'calculator'"):
        find("agentflow?tools_of=calculater")


def test_a_tool_list_is_shown_unless_it_is_not_to_be():
    call = '<tool_call>{"name": "legs", "arguments": {"animal": "spider"}}</tool_call>'
    shown = played(InTheFlow(tools_of=(Legs(),)), ["ask"], [call], ["stop"])
    hidden = played(InTheFlow(tools_of=(Legs(),), listed=False), ["ask"], [call], ["stop"])
    assert hidden.info["memory"] == ["1. ask -> 8"]
    assert len(hidden.turns[1].observation) < len(shown.turns[1].observation)


def test_settings_of_the_task():
    assert tasks.find("steered-reckoning?kinds=both&turns=2").workflow.turns == 2
    assert tasks.find("steered-reckoning?kinds=both").name == "steered-reckoning?kinds=both&most=2"
    with pytest.raises(ConfigurationError, match="kinds are both, search, neither, with commas, not 'all'"):
        tasks.find("steered-reckoning?kinds=all")


def test_what_a_beginner_plans() -> None:
    planned, sound = list[bool](), True
    for number in range(300):
        scenario = TASK.scenario("train", number % (TASK.size("train") or 1))
        kind, added = scenario.metadata["kind"], int(scenario.metadata["added"])
        said = [
            (one.prompt[0]["content"], str(one.prompt[1]["content"]), str(one.said[0]["content"]))
            for one in TASK.lessons.play(scenario, Key.of(number).numpy())
        ]
        plans = [text for system, _, text in said if str(system).startswith("You plan")]
        verdicts = [text for system, _, text in said if str(system).startswith("You verify")]
        searched = plans[0].startswith("search the ")
        if kind == "neither":
            first, second = (int(word) for word in str(scenario.prompt).rstrip("?").split() if word.isdigit())
            sound &= plans == [f"add {first} and {second}"] and verdicts == ["stop"]
        else:
            planned.append(searched)
            due = ["continue", "stop"] if searched and kind == "both" else ["stop"]
            known = int(scenario.answer) - added
            sound &= verdicts == due and plans[1:] == ([f"add {known} and {added}"] if len(due) > 1 else [])
            sound &= searched or plans[0].endswith(f" and {added}")
        right = TASK.verify(said[-1][2], scenario) == 1.0
        sound &= right if searched or kind == "neither" else said[-1][2].startswith("<answer>")
    share, then = fmean(planned), TASK.lessons.then(AGENTFLOW)
    sound &= then == {"curriculum.prompts": 12, "steps": 20, "update.lr": 1e-3, "evaluation.n": 90}
    assert sound
    assert abs(share - 0.35) < 0.1
    assert TASK.lessons.steps == 150
