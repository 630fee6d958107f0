"""Random workflows of several agents: what was recorded is exactly what was sampled from, however they branch.

A workflow is a random plan of steps: calls one after the other or together, new conversations, histories that go on,
are cut, or are rewritten. Every recorded turn must have, along its chain of parents, exactly the tokens of its
request; the packed batch must credit each decision once; and the learner must find the log-probs sampled with.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import chats
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request, Sample
from hocket.nano import BASE
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.form_reading import known_form
from hocket.testing import ScriptedEngine
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory, Turn

ROLES = ("left", "right")
WORDS = ("go", "and then?", "12 + 3", "<think>a</think> so", "ab\n\n ab", "no")

STEP = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 3), st.sampled_from(WORDS)),
    st.tuples(st.just("together"), st.lists(st.integers(0, 3), min_size=2, max_size=3), st.sampled_from(WORDS)),
    st.tuples(st.just("fresh"), st.integers(0, 1), st.sampled_from(WORDS)),
    st.tuples(st.just("rewrite"), st.integers(0, 3), st.sampled_from(WORDS)),
    st.tuples(st.just("cut"), st.integers(0, 3), st.sampled_from(WORDS)),
    st.tuples(st.just("whole"), st.integers(0, 3), st.sampled_from(WORDS)),
)
PLANS = st.lists(STEP, min_size=1, max_size=7)


class Planned(Workflow):
    """Does what a plan says; conversations are numbered round the two roles' first ones and those opened later."""

    roles = ROLES

    def __init__(self, plan: list[Any], pauses: int | None = None) -> None:
        self.plan, self.pauses = plan, pauses

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        agents: list[Agent] = [team.left, team.right]
        for number, (kind, whom, words) in enumerate(self.plan):
            await self.pause(team, number)
            if kind == "together":
                chosen = [agents[one % len(agents)] for one in whom]
                await asyncio.gather(*(agent(f"{words} {place}") for place, agent in enumerate(chosen)))
            elif kind == "fresh":
                agents.append(team[ROLES[whom]].fresh())
                await agents[-1](words)
            else:
                await self.spoken(agents[whom % len(agents)], kind, words)
        return Outcome(rewards={"team": 1.0})

    async def spoken(self, agent: Agent, kind: str, words: str) -> None:
        said: dict[str, str] = {"role": "user", "content": words}
        past = [dict(message) for message in agent.messages]
        if kind == "rewrite" and past:
            past[-1]["content"] += "!"
            await agent([*past, said])
        elif kind == "cut" and len(past) > 2:
            await agent([*past[:2], said])
        elif kind == "whole" and past:
            await agent([*past, said])
        else:
            await agent(words)

    async def pause(self, team: Team, number: int) -> None:
        if self.pauses is not None:
            share = Key.of(self.pauses).derive(str(team.key), number).numpy().random()
            await asyncio.sleep(0.003 * float(share))


class Keeping:
    """Remembers the requests of an engine by key."""

    asked: dict[Key, Request]

    async def submit(self, request: Request) -> Sample:
        assert request.key not in self.asked, "two calls draw from one key"
        self.asked[request.key] = request
        return await super().submit(request)  # type: ignore[misc]


class Scripted(Keeping, ScriptedEngine):
    def __init__(self, chat: chats.Chat) -> None:
        super().__init__(lambda request: f"r{request.key.word % 97} <think>x</think>" * (request.key.word % 3), chat)
        self.asked = {}


def chain(turn: Turn) -> list[int]:
    return [int(token) for link in turn.context() for token in (*link.observation, *link.action)]


def check_recorded(found: list[Trajectory], asked: dict[Key, Request], root: Key) -> None:
    """Every turn's chain is the request it answers and the answer; every request has its turn."""
    seen = set()
    for trajectory in found:
        assert trajectory.failure is None
        base = root.derive(trajectory.scenario.id, "own", trajectory.sample)
        places = {id(turn): place for place, turn in enumerate(trajectory.turns)}
        for place, turn in enumerate(trajectory.turns):
            key = base.derive(turn.role, turn.extras["conversation"], turn.extras["call"])
            whole = chain(turn)
            assert whole[: len(whole) - len(turn)] == list(asked[key].tokens)
            assert list(turn.prompt) == list(asked[key].messages)
            assert turn.parent is None or places[id(turn.parent)] < place
            seen.add(key)
    assert seen == set(asked)


def check_packed(batch: Batch, found: list[Trajectory]) -> None:
    """Each decision is stored once and credited once per trajectory, in the order of its turns."""
    assert batch.decisions == sum(len(turn) for one in found for turn in one.turns)
    assert batch.turns == sum(len(one.turns) for one in found)
    occurrences = batch.occurrences
    assert Counter(occurrences.decision.tolist()) == Counter(range(batch.decisions))
    spans = torch.cumsum(torch.tensor([0, *(len(turn) for one in found for turn in one.turns)]), 0)
    number = 0
    for trajectory, one in enumerate(found):
        mine = occurrences.decision[occurrences.trajectory == trajectory]
        due = [n for place in range(number, number + len(one.turns)) for n in range(spans[place], spans[place + 1])]
        turns = [int(batch.turn[decision]) for decision in mine]
        assert [batch.action[decision].item() for decision in mine] == [
            token for turn in one.turns for token in turn.action.tolist()
        ]
        assert sorted(mine.tolist()) == sorted(due)
        assert list(dict.fromkeys(turns)) == [
            turns[0] + place for place in range(len(one.turns)) if len(one.turns[place])
        ]
        number += len(one.turns)
    for turn in range(batch.turns):
        assert batch.parent[turn] < turn


@pytest.mark.parametrize("name", ["nano", "forgetful", "llama3"])
@settings(max_examples=40, deadline=None)
@given(plan=PLANS, longest=st.sampled_from([3, 60]))
def test_every_chain_is_its_request(name: str, plan: list[Any], longest: int) -> None:
    chat = CHATS[name]
    engine = Scripted(chat)
    player = TextPlayer(Planned(plan), {role: Actor("main", engine, chat) for role in ROLES})
    asked = [Assignment(Scenario("s", "x"), samples=2, decoding=Decoding(max_tokens=longest))]
    found = asyncio.run(player.play(asked, key=Key.of(4)))
    check_recorded(found, engine.asked, Key.of(4))
    check_packed(pack(found), found)


CHATS = {name: chats.chat(name) for name in ("nano", "forgetful", "llama3")}


# ---------------------------------------------------------------- with weights


class Local(Keeping, LocalEngine):
    def __init__(self, policy: CausalLM, **more: Any) -> None:
        super().__init__(policy, **more)
        self.asked = {}


needs_base = pytest.mark.skipif(not (BASE / "config.json").is_file(), reason="the base has not been pretrained here")
POLICIES: dict[str, CausalLM] = {}


def policy() -> CausalLM:
    if not POLICIES:
        POLICIES["main"] = CausalLM.from_pretrained(str(BASE), name="main", key=Key.of(0))
    return POLICIES["main"]


def sampled(plan: list[Any], rows: int = 256, pauses: int | None = None) -> tuple[list[Trajectory], Local]:
    engine = Local(policy(), max_rows=rows)
    chat = CHATS["nano"]
    player = TextPlayer(Planned(plan, pauses), {role: Actor("main", engine, chat) for role in ROLES}, Limits())
    asked = [Assignment(Scenario(str(n), "x"), samples=2, decoding=Decoding(max_tokens=9)) for n in range(2)]
    return asyncio.run(player.play(asked, key=Key.of(4))), engine


def recomputed(batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return policy().evaluate(batch, [Quantity.LOGP]).logp


@needs_base
@settings(max_examples=12, deadline=None)
@given(plan=PLANS)
def test_the_learner_finds_the_log_probs_that_were_sampled_with(plan: list[Any]) -> None:
    found, engine = sampled(plan)
    check_recorded(found, engine.asked, Key.of(4))
    batch = pack(found)
    check_packed(batch, found)
    now, then = recomputed(batch), batch.logp["behaviour"].values
    if kernels.available(known_form(policy().model).shapes[0][2]):
        assert torch.equal(now, then)
    np.testing.assert_allclose(now, then, atol=1e-4)


@needs_base
@settings(max_examples=6, deadline=None)
@given(plan=PLANS)
def test_a_branch_counts_as_if_it_stood_alone(plan: list[Any]) -> None:
    """The gradient of a weighted sum of log-probs is that of turns which each bring their whole context."""
    found, _ = sampled(plan)
    alone = [
        Trajectory(
            one.scenario,
            [
                Turn(
                    agent=turn.agent,
                    policy=turn.policy,
                    observation=np.array(chain(turn)[: len(chain(turn)) - len(turn)], np.int64),
                    action=turn.action,
                    logp=turn.logp,
                    decoding=turn.decoding,
                )
                for turn in one.turns
            ],
        )
        for one in found
    ]
    gradients = []
    for trajectories in (found, alone):
        batch = pack(trajectories)
        weight = torch.cos(torch.arange(batch.decisions))
        policy().model.zero_grad()
        (policy().evaluate(batch, [Quantity.LOGP]).logp * weight).sum().backward()
        gradients.append(policy().model.model.layers[0].mlp.up_proj.weight.grad.clone())
    scale = float(gradients[1].abs().max())
    assert float((gradients[0] - gradients[1]).abs().max()) <= 2e-4 * max(scale, 1e-3)


@needs_base
@settings(max_examples=6, deadline=None)
@given(plan=PLANS, rows=st.sampled_from([2, 7, 256]), pauses=st.integers(0, 9))
@pytest.mark.slow
def test_no_pause_and_no_crowd_shows_in_a_trajectory(plan: list[Any], rows: int, pauses: int) -> None:
    def told(found: list[Trajectory]) -> list[Any]:
        return [
            [(t.agent, t.observation.tolist(), t.action.tolist(), t.logp.tobytes(), t.prompt[-1]) for t in one.turns]
            for one in found
        ]

    assert told(sampled(plan, rows, pauses)[0]) == told(sampled(plan)[0])
