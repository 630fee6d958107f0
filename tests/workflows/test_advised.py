"""An adviser beside agents: who hears what, how often it is asked, and whose rewards are whose."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from hocket.agents.workflows.adviser import SYSTEM, Advised
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.library import find
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError
from hocket.methods.teams.rema import MetaReasoner
from hocket.testing import rehearse
from hocket.types import Scenario

SUM = Scenario("s", "What is 1 + 2?", answer="3")


@dataclass(frozen=True)
class Rounds(Workflow):
    """Two turns of one conversation, then one of another; a second role listens."""

    scores = True
    roles = ("agent", "other")
    listed: bool = False
    limits = Limits(turns=10)

    @property
    def prompts(self):
        return {"agent": "You act."}

    async def play(self, scenario, team):
        first = await team.agent(str(scenario.prompt))
        second = await team.agent({"role": "tool", "content": "it fell"}, ["and then", "what"])
        last = await team.agent.fresh()("anew", state="fresh")
        heard = await team.other(last)
        rewards = [1.0, 2.0, 3.0, 4.0] if self.listed else {first: 1.0, second: 2.0, last: 3.0, heard: 4.0}
        return Outcome(rewards={"team": 1.0}, turn_rewards={"own": rewards})


def heard(trajectory, role):
    return [[(one["role"], one["content"]) for one in turn.prompt] for turn in trajectory.turns if turn.role == role]


def test_advice_before_every_turn_ends_what_the_agent_is_told():
    replies = {"agent": ["a", "b", "c"], "adviser": ["one", "two", "three"], "other": ["fine"]}
    (found,) = rehearse(Advised(Rounds(), who="agent"), SUM, replies)
    assert found.failure is None
    assert [turn.role for turn in found.turns] == ["adviser", "agent"] * 3 + ["other"]
    agent, adviser = heard(found, "agent"), heard(found, "adviser")
    assert agent[0] == [("system", "You act."), ("user", "What is 1 + 2?\nStrategy: one")]
    assert agent[1][3:] == [("tool", "it fell"), ("user", "and then\nwhat\nStrategy: two")]
    assert agent[2] == [("system", "You act."), ("user", "anew\nStrategy: three")]
    assert adviser[0] == [("system", SYSTEM), ("user", "What is 1 + 2?")]
    assert adviser[1][2:] == [("assistant", "one"), ("user", "Done: a\nit fell\nand then\nwhat")]
    # Another conversation of the agent has another one with the adviser.
    assert adviser[2] == [("system", SYSTEM), ("user", "anew")]
    assert heard(found, "other") == [[("user", "c")]]
    assert [turn.state for turn in found.turns[4:6]] == ["fresh", "fresh"]


def test_a_plan_is_asked_for_once_and_opens_each_conversation():
    replies = {"agent": ["a", "b", "c"], "adviser": ["plan"], "other": ["fine"]}
    (found,) = rehearse(Advised(Rounds(), every=False, who="agent", lead="Plan"), SUM, replies)
    assert [turn.role for turn in found.turns] == ["adviser", "agent", "agent", "agent", "other"]
    agent = heard(found, "agent")
    assert agent[0][-1] == ("user", "What is 1 + 2?\nPlan: plan")
    assert agent[1][-1] == ("user", "and then\nwhat")
    assert agent[2][-1] == ("user", "anew\nPlan: plan")


def test_everybody_is_advised_where_nobody_is_named():
    replies = {"agent": ["a", "b", "c"], "adviser": ["one", "two", "three", "four"], "other": ["fine"]}
    (found,) = rehearse(Advised(Rounds()), SUM, replies)
    assert heard(found, "other") == [[("user", "c\nStrategy: four")]]


@pytest.mark.parametrize("listed", [False, True])
def test_rewards_stay_with_the_turns_that_earned_them(listed):
    replies = {"agent": ["a", "b", "c"], "adviser": ["one", "two", "three"], "other": ["fine"]}
    (found,) = rehearse(Advised(Rounds(listed=listed), who="agent"), SUM, replies)
    assert found.scores["team"].value == 1.0
    assert found.scores["own"].value == [None, 1.0, None, 2.0, None, 3.0, 4.0]


def test_it_is_found_by_name_and_takes_over_what_the_inner_workflow_is():
    plain = find("advised")
    assert plain == Advised(SingleTurn())
    assert plain.roles == ("adviser", "policy")
    assert not plain.scores
    nested = find("advised?inner=meta-reasoner&every=false&who=reasoner")
    assert nested == Advised(MetaReasoner(), every=False, who="reasoner")
    assert nested.scores
    assert set(nested.prompts) == {"adviser", "meta", "reasoner"}
    assert Advised(Rounds()).limits == Limits(turns=20)
    assert Advised(Rounds(), every=False).limits == Limits(turns=12)
    with pytest.raises(ConfigurationError, match="the roles are policy"):
        find("advised?who=agent")
    with pytest.raises(ValueError, match="of its own"):
        Advised(plain)


class Chooses(Workflow):
    roles = ("agent",)

    async def play(self, scenario, team):
        said = await team.agent.candidates("which", score=lambda reply: 1.0)
        return Outcome(answer=str(said))


def test_candidates_are_advised_too():
    (found,) = rehearse(Advised(Chooses()), SUM, {"agent": ["a"], "adviser": ["one"]})
    assert heard(found, "agent") == [[("user", "which\nStrategy: one")]]
    assert found.info["answer"] == "a"
    assert asyncio.iscoroutinefunction(Advised.play)
