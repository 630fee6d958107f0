"""What talks of agents are written with; workflows and tools made from functions, one agent alone, Kuhn poker."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hocket.agents.environments.openspiel import OpenSpiel
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.exploitability import InformationState, assess
from hocket.lab.talk import LookupPolicy, Prior, TalkBench
from hocket.rewards.tool_answer import ToolAnswer
from hocket.types import Scenario, Trajectory, Turn

Play = Callable[[Scenario, Team], Awaitable[Outcome]]


class _Played(Workflow):
    """A workflow that a function plays."""

    def __init__(self, play: Play, roles: tuple[str, ...]) -> None:
        self.roles, self._play = roles, play

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        return await self._play(scenario, team)


def played_by(*roles: str) -> Callable[[Play], Workflow]:
    """Makes a function of a scenario and a team a workflow of these roles."""
    return lambda play: _Played(play, roles)


class SingleAgent(Workflow):
    """One agent answers once, called as a member of a pair."""

    scores = True

    def __init__(self, role: str = "pioneer") -> None:
        self.roles = (role,)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        reply = await team[self.roles[0]](asked(team.assignment))
        return Outcome(answer=str(reply), rewards={"own": team.verify(reply)})


def stepped(bench: TalkBench) -> tuple[Batch, list[Trajectory]]:
    """The batch of one training step, and what was played."""
    result = bench.step()
    assert result.batch is not None
    return result.batch, list(result.trajectories)


def by_last(logits: Callable[[str], Mapping[str, float]]) -> Prior:
    """A start that depends on the last message's text alone."""
    return lambda messages, words: logits(str(messages[-1]["content"]))


def as_prior(policy: LookupPolicy) -> Prior:
    """A start with the chances that a policy has learnt."""
    return lambda messages, words: policy.probabilities(*messages).log().tolist()


class Tells:
    """A tool that says what a function tells, whatever it is asked."""

    schema: Mapping[str, Any] = {}

    def __init__(self, name: str, reply: Callable[[], str]) -> None:
        self.name, self._reply = name, reply

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        return self._reply()


def earned(reward: ToolAnswer, turns: Sequence[str], answer: str = "7", **info: Any) -> float | None:
    """What an attempt with these turns earns."""
    zeros = np.zeros(1, np.int64)
    history = [Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text) for text in turns]
    (value,) = asyncio.run(reward([Trajectory(Scenario("s", "?", answer), history, info=info)], key=Key.of(0)))
    return value


def kuhn_games() -> Iterator[tuple[tuple[int, int], str, int]]:
    """Every deal and every course of moves (p to pass, b to bet), with what the first seat wins."""
    deals, courses = itertools.permutations(range(3), 2), ("pp", "bp", "bb", "pbp", "pbb")
    for (first, second), moves in itertools.product(deals, courses):
        showdown = (2 if moves.endswith("bb") else 1) * (1 if first > second else -1)
        yield (first, second), moves, {"bp": 1, "pbp": -1}.get(moves, showdown)


@functools.cache
def kuhn_poker() -> PlayEnvironment:
    """The game; open_spiel is needed only when it is played."""
    return PlayEnvironment(OpenSpiel("kuhn_poker"), own_chance=True, instruct=False)


def kuhn_nash_conv(log_probs: Callable[[Sequence[InformationState]], list[list[float]]]) -> float:
    """The exact NashConv of a way to play it, by open_spiel."""
    return assess(kuhn_poker(), log_probs).nash_conv
