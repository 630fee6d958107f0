"""The text player with real weights: the shipped base, sampled by the local engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.plans import PLANNER_SYSTEM, WORKER_SYSTEM, notes_text, plan_steps
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request, Sample
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.tasks.arithmetic import tagged_answer
from hocket.types import Assignment, Decoding, Scenario, Trajectory

pytestmark = pytest.mark.skipif(not (BASE / "config.json").is_file(), reason="the base has not been pretrained here")

DECODING = Decoding(max_tokens=64)


class Remembering(LocalEngine):
    """A local engine that keeps its requests, and how many enter together."""

    def __init__(self, policy: CausalLM) -> None:
        super().__init__(policy)
        self.requests: list[Request] = []
        self.entered: list[int] = []

    async def submit(self, request: Request) -> Sample:
        self.requests.append(request)
        return await super().submit(request)

    def _advance(self, new: Sequence[Any] = ()) -> bool:
        if new:
            self.entered.append(len(new))
        return super()._advance(new)


class PlannerWorker(Workflow):
    roles = ("planner", "worker")
    prompts = MappingProxyType({"planner": PLANNER_SYSTEM, "worker": WORKER_SYSTEM})

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        plan = await team.planner(scenario.messages)
        steps = plan_steps(plan.text)
        workers = [team.worker.fresh() for _ in steps]
        replies = await asyncio.gather(*(worker(step) for worker, step in zip(workers, steps, strict=True)))
        notes = notes_text(steps, [tagged_answer(reply.text) or "?" for reply in replies])
        final = await team.planner(notes)
        answer = tagged_answer(final.text)
        return Outcome(answer=answer, rewards={"team": float(answer == scenario.answer)})


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    torch.set_num_threads(1)
    return CausalLM.from_pretrained(str(BASE), name="main", key=Key.of(0))


def play(engine: LocalEngine, workflow: Workflow, asked: list[Assignment]) -> list[Trajectory]:
    chat = Chat(engine.policy.tokenizer)
    player = TextPlayer(workflow, {role: Actor("main", engine, chat) for role in workflow.roles})
    return asyncio.run(player.play(asked, key=Key.of(1)))


def test_chat_and_policy_stop_at_the_same_token(policy: CausalLM) -> None:
    assert set(Chat(policy.tokenizer).stops) <= set(policy.stop_ids)


def test_single_turns_are_one_batch_and_end_their_turns(policy: CausalLM) -> None:
    engine = Remembering(policy)
    asked = [Assignment(Scenario(str(n), f"What is {n} + 25?"), samples=4, decoding=DECODING) for n in range(10, 18)]
    found = play(engine, SingleTurn(), asked)
    assert engine.entered == [32]
    assert sum(t.terminated for t in found) >= 28
    for trajectory in found:
        (turn,) = trajectory.turns
        assert np.isfinite(turn.logp).all()
        assert (turn.logp <= 0).all()
        assert (turn.action[-1] == Chat(policy.tokenizer).end_of_turn) == trajectory.terminated
    alone = play(Remembering(policy), SingleTurn(), asked[3:4])
    assert [t.turns[0].action.tolist() for t in alone] == [t.turns[0].action.tolist() for t in found[12:16]]


def test_a_team_records_what_was_fed(policy: CausalLM) -> None:
    engine = Remembering(policy)
    questions = {"What is 12 + 34 + 5?": "51", "What is 70 - 21 + 8 + 3?": "60"}
    asked = [Assignment(Scenario(q, q, answer=a), samples=3, decoding=DECODING) for q, a in questions.items()]
    found = play(engine, PlannerWorker(), asked)
    assert [t.failure for t in found] == [None] * 6
    assert engine.entered[0] == 6, "all plans enter together"
    assert sum(engine.entered) == len(engine.requests) == sum(len(t.turns) for t in found)
    assert engine.counts.rows > 1.3 * engine.counts.passes, "who is done with a step does not wait for the others"
    fed = {request.key: request.tokens for request in engine.requests}
    for trajectory in found:
        base = Key.of(1).derive(trajectory.scenario.id, "own", trajectory.sample)
        assert trajectory.turns[0].agent == "planner"
        assert trajectory.turns[-1].parent is trajectory.turns[0]
        for turn in trajectory.turns:
            path = [int(token) for link in turn.context() for token in (*link.observation, *link.action)]
            key = base.derive(turn.role, turn.extras["conversation"], turn.extras["call"])
            assert path[: -len(turn)] == list(fed[key])
    assert max(len(t.turns) for t in found) >= 4, "the base writes plans of several steps"
    batch = pack(found)
    assert batch.decisions == sum(t.length for t in found)
    assert batch.names["agent"] == ("planner", "worker")
    again = play(Remembering(policy), PlannerWorker(), asked)
    assert [[t.action.tolist() for t in x.turns] for x in again] == [
        [t.action.tolist() for t in x.turns] for x in found
    ]
