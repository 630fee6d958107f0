"""Agents: conversations, branches, call order, what is recorded."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import chats
import engines
import numpy as np
import pytest

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.requests import Request
from hocket.testing import ScriptedEngine, rehearse
from hocket.types import Assignment, Decoding, Scenario, Trajectory

SCENARIO = Scenario("s", "What is 2+2?", answer="4")


class Doing(Workflow):
    """A workflow from a function."""

    def __init__(self, act: Callable[[Scenario, Team], Awaitable[Outcome | None]], *roles: str, **prompts: str) -> None:
        self.act, self.roles, self.given = act, roles or ("policy",), prompts

    @property
    def prompts(self) -> dict[str, str]:
        return self.given

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        return await self.act(scenario, team)


def played(workflow: Workflow, engine: ScriptedEngine, chat: Chat, decoding: Decoding | None = None) -> Trajectory:
    player = TextPlayer(workflow, {role: Actor("main", engine, chat) for role in workflow.roles})
    asked = [Assignment(SCENARIO, decoding=decoding or Decoding(max_tokens=200))]
    return asyncio.run(player.play(asked, key=Key.of(0)))[0]


def chain(trajectory: Trajectory) -> list[int]:
    """The tokens of the path that ends in the last turn, as the learner will concatenate them."""
    path = trajectory.turns[-1].context()
    return [int(token) for turn in path for token in (*turn.observation, *turn.action)]


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
@pytest.mark.parametrize("longest", [3, 200])
def test_the_chain_is_exactly_what_was_fed(name: str, longest: int) -> None:
    """Over every template, with responses that ended and with responses that were cut."""
    chat = chats.chat(name)
    engine = ScriptedEngine(["alpha", "beta", "gamma"], chat)

    async def act(scenario: Scenario, team: Team) -> None:
        for question in ("one", "two", "three"):
            await team.policy(question)

    found = played(Doing(act), engine, chat, Decoding(max_tokens=longest))
    assert found.failure is None
    assert [turn.parent for turn in found.turns] == [None, *found.turns[:-1]]
    assert chain(found) == [*engine.requests[-1].tokens, *found.turns[-1].action.tolist()]
    for turn, request in zip(found.turns, engine.requests, strict=True):
        before = [int(token) for link in turn.context() for token in (*link.observation, *link.action)]
        assert before[: -len(turn)] == list(request.tokens)
    assert [turn.finish for turn in found.turns] == (["length"] * 3 if longest == 3 else ["stop"] * 3)
    closed = [turn.action[-1] == chat.end_of_turn for turn in found.turns]
    assert closed == [longest != 3] * 3
    assert (found.truncated, found.terminated) == ((True, False) if longest == 3 else (False, True))


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
def test_packed_decisions_are_responses_and_nothing_else(name: str) -> None:
    chat = chats.chat(name)
    engine = ScriptedEngine(["alpha", "beta"], chat)

    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        await team.policy("two")

    batch = pack([played(Doing(act), engine, chat)])
    expected = [*chat.encode("alpha"), chat.end_of_turn, *chat.encode("beta"), chat.end_of_turn]
    assert batch.action.tolist() == expected
    assert batch.turn.tolist() == [0] * (1 + len(chat.encode("alpha"))) + [1] * (1 + len(chat.encode("beta")))
    assert batch.parent.tolist() == [-1, 0]
    assert batch.observation[1].tolist() == list(chat.following([{"role": "user", "content": "two"}]))
    assert batch.logp["behaviour"].complete
    assert batch.occurrences.weight.tolist() == [1.0] * len(expected)


def test_a_turn_records_everything() -> None:
    chat = chats.chat("nano")
    engine = ScriptedEngine(["4</answer>"], chat, version=7)
    prefix = chat.encode("<answer>")

    async def act(scenario: Scenario, team: Team) -> None:
        reply = await team.policy(scenario.prompt, prefix=prefix, state="start")
        assert (reply.text, str(reply), reply.finish) == ("<answer>4</answer>",) * 2 + ("stop",)
        assert reply.tokens is reply.turn.action

    (turn,) = played(Doing(act), engine, chat).turns
    assert (turn.agent, turn.role, turn.policy, turn.state) == ("policy", "policy", "main", "start")
    assert turn.text == "<answer>4</answer>"
    assert turn.forced.tolist() == [True, False, False, False]
    assert turn.version.tolist() == [7] * 4
    assert turn.logp.tolist() == [0.0] * 4
    assert turn.decoding == Decoding(max_tokens=200)
    assert turn.prompt == ({"role": "user", "content": "What is 2+2?"},)
    assert turn.observation.dtype == turn.action.dtype == np.int64
    batch = pack([Trajectory(SCENARIO, [turn])])
    assert batch.occurrences.weight.tolist() == [0.0, 1.0, 1.0, 1.0]


def test_two_agents_keep_their_own_conversations() -> None:
    chat = chats.chat("nano")

    async def act(scenario: Scenario, team: Team) -> Outcome:
        plan = await team.planner(scenario.prompt)
        notes = [await team.worker(step) for step in plan.text.splitlines()]
        answer = await team.planner(notes)
        return Outcome(answer=answer.text, rewards={"team": 1.0}, turn_rewards={"step": {notes[1]: 0.5}})

    replies = {"planner": ["1+1\n2+2", "done"], "worker": ["2", "4"]}
    workflow = Doing(act, "planner", "worker", planner="Plan.", worker="Work.")
    (found,) = rehearse(workflow, SCENARIO, replies)
    planner, first, second, last = found.turns
    assert [turn.agent for turn in found.turns] == ["planner", "worker", "worker", "planner"]
    assert (last.parent, first.parent, second.parent) == (planner, None, first)
    assert chat.render(last.observation) == "<|user|>2\n4<|end|><|assistant|>"
    assert chat.render(first.observation) == "<|system|>Work.<|end|><|user|>1+1<|end|><|assistant|>"
    assert chat.render(second.observation) == "<|user|>2+2<|end|><|assistant|>"
    assert found.info == {"answer": "done"}
    assert found.scores["team"].value == 1.0
    assert found.scores["step"].value == [None, None, 0.5, None]
    batch = pack([found])
    assert batch.names["policy"] == ("planner", "worker")
    assert len(batch.of_policy("worker").occurrences) == len(first) + len(second)


def test_fresh_agents_start_again_and_the_old_one_stays() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        other = team.policy.fresh(system="Anew.")
        await other("two")
        await team.policy("three")
        assert [message["role"] for message in other.messages] == ["system", "user", "assistant"]
        assert len(team.policy.messages) == 4

    (found,) = rehearse(Doing(act), SCENARIO, ["a", "b", "c"])
    assert [turn.parent for turn in found.turns] == [None, None, found.turns[0]]
    assert [turn.extras["conversation"] for turn in found.turns] == [0, 1, 0]


def test_a_restated_history_goes_on_and_a_rewritten_one_branches() -> None:
    user = {"role": "user", "content": "one"}
    more = {"role": "user", "content": "two"}

    async def act(scenario: Scenario, team: Team) -> None:
        first = await team.policy([user])
        await team.policy([user, {"role": "assistant", "content": first.text}, more])
        await team.policy([user, {"role": "assistant", "content": "I never said that"}, more])
        await team.policy("three")
        await team.policy("one", "more of it")
        await team.policy({"role": "system", "content": "Anew."}, "one")

    (found,) = rehearse(Doing(act), SCENARIO, ["a", "b", "c", "d", "e", "f"])
    assert found.failure is None
    one, two, three, four, five, six = found.turns
    assert [turn.parent for turn in found.turns] == [None, one, None, three, four, None]
    chat = chats.chat("nano")
    assert chat.render(two.observation) == "<|user|>two<|end|><|assistant|>"
    assert "I never said that<|end|>" in chat.render(three.observation)
    assert chat.render(four.observation) == "<|user|>three<|end|><|assistant|>"
    assert chat.render(five.observation) == "<|user|>one<|end|><|user|>more of it<|end|><|assistant|>"
    assert chat.render(six.observation) == "<|system|>Anew.<|end|><|user|>one<|end|><|assistant|>"


def test_a_system_prompt_does_not_hide_a_restated_history() -> None:
    user = {"role": "user", "content": "one"}

    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy([user])
        await team.policy([user, {"role": "assistant", "content": "a"}, {"role": "user", "content": "two"}])

    (found,) = rehearse(Doing(act, policy="Be brief."), SCENARIO, ["a", "b"])
    assert found.turns[1].parent is found.turns[0]


def test_a_template_that_forgets_thinking_branches_with_the_whole_context() -> None:
    chat = chats.chat("forgetful")
    engine = ScriptedEngine(["<think>hm</think>a", "b", "c"], chat)

    async def act(scenario: Scenario, team: Team) -> None:
        for question in ("one", "two", "three"):
            await team.policy(question)

    found = played(Doing(act), engine, chat)
    first, second, third = found.turns
    assert (second.parent, third.parent) == (None, second)
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "<think>hm</think>a"},
        {"role": "user", "content": "two"},
    ]
    assert tuple(second.observation.tolist()) == chat.opening(messages)
    assert "<think>" not in chat.render(second.observation)
    batch = pack([found])
    assert batch.parent.tolist() == [-1, -1, 1]
    assert batch.decisions == len(first) + len(second) + len(third)


def echo(chat: Chat) -> Callable[[Request], str]:
    return lambda request: f"{request.key.word % 1000}"


def test_gathered_calls_are_recorded_in_the_order_written() -> None:
    """Whatever the order of completion: tokens, turns and their order are those of every other seed of delays."""

    async def act(scenario: Scenario, team: Team) -> None:
        plan = await team.planner("plan")
        await asyncio.gather(*(team.worker(f"step {number}") for number in range(6)))
        agents = [team.worker.fresh() for _ in range(4)]
        await asyncio.gather(*(agent(f"again {number}") for number, agent in enumerate(agents)))
        await team.planner(plan.text)

    chat = chats.chat("nano")
    seen = []
    for seed in range(4):
        found = played(Doing(act, "planner", "worker"), engines.SlowEngine(echo(chat), chat, seed), chat)
        assert found.failure is None
        seen.append([(turn.agent, turn.prompt[-1]["content"], turn.action.tolist()) for turn in found.turns])
        assert all(turn.parent is None for turn in found.turns[:-1])
    assert seen[1:] == seen[:-1]
    assert [content for _, content, _ in seen[0][1:7]] == [f"step {number}" for number in range(6)]
    assert len({str(tokens) for _, _, tokens in seen[0]}) > 6, "every call draws from a key of its own"


def test_replies_do_not_depend_on_when_other_conversations_speak() -> None:
    """Conversations that begin after waits of random length still draw the same answers."""

    async def talk(agent: Agent, wait: float) -> tuple[str, str]:
        await asyncio.sleep(wait)
        return (await agent("first")).text, (await agent("second")).text

    chat = chats.chat("nano")
    seen = []
    for seed in range(3):
        waits = Key.of(seed).numpy().random(4) * 0.005

        async def act(scenario: Scenario, team: Team, waits: np.ndarray = waits) -> Outcome:
            agents = [team.policy.fresh() for _ in waits]
            return Outcome(answer=await asyncio.gather(*map(talk, agents, waits)))

        found = played(Doing(act), engines.SlowEngine(echo(chat), chat, seed), chat)
        seen.append(found.info["answer"])
    assert seen[1:] == seen[:-1]
    assert len(set(seen[0])) == 4


def test_after_calls_made_together_the_conversation_goes_on_from_the_last_asked() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("start")
        await asyncio.gather(team.policy("left"), team.policy("right"))
        await team.policy("on")

    chat = chats.chat("nano")
    for seed in range(4):
        found = played(Doing(act), engines.SlowEngine(echo(chat), chat, seed), chat)
        start, left, right, on = found.turns
        assert (left.parent, right.parent, on.parent) == (start, start, right)
        assert left.prompt[-1]["content"] == "left"


def test_calls_draw_from_keys_of_their_place() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        await team.policy("two")
        await team.policy.fresh()("three")

    chat = chats.chat("nano")
    engine = ScriptedEngine(["a", "b", "c"], chat)
    played(Doing(act), engine, chat)
    base = Key.of(0).derive("s", "own", 0, "policy")
    assert [request.key for request in engine.requests] == [base.derive(0, 0), base.derive(0, 1), base.derive(1, 0)]


def test_decoding_overrides_of_the_seat_and_of_the_call() -> None:
    chat = chats.chat("nano")
    engine = ScriptedEngine(["a", "b"], chat)

    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        await team.policy("two", decoding=Decoding(temperature=0.0, max_tokens=5))

    player = TextPlayer(Doing(act), {"policy": Actor("main", engine, chat, {"temperature": 0.7})})
    (found,) = asyncio.run(player.play([Assignment(SCENARIO)], key=Key.of(0)))
    assert [turn.decoding.temperature for turn in found.turns] == [0.7, 0.0]
    with pytest.raises(ConfigurationError, match=r"decoding\.temperatur is not a setting of Decoding; did you mean"):
        Actor("main", engine, chat, {"temperatur": 1.0})


def test_unknown_roles_are_refused_with_the_nearest() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.plannr("one")

    with pytest.raises(ConfigurationError, match="no role 'plannr'; did you mean 'planner'"):
        rehearse(Doing(act, "planner"), SCENARIO, ["a"])


@pytest.mark.filterwarnings("error")
def test_a_call_that_nobody_awaits_fails_its_episode_in_a_sentence_and_warns_of_nothing() -> None:
    async def uses_it(scenario: Scenario, team: Team) -> Outcome:
        return Outcome(answer=team.policy("a").text, rewards={"team": 1.0})  # type: ignore[attr-defined]

    async def leaves_it(scenario: Scenario, team: Team) -> Outcome:
        team.policy.candidates("a", score=len)
        await team.policy("b")
        return Outcome(rewards={"team": 1.0})

    async def cancels_it(scenario: Scenario, team: Team) -> Outcome:
        task = asyncio.create_task(team.policy.fresh()("a"))
        task.cancel()
        return Outcome(answer=(await team.policy("b")).text, rewards={"team": 1.0})

    sentence = "a call of agent 'policy' was never awaited; write `await team.policy(...)`"
    chat = chats.chat("nano")
    used, left, cancelled = (
        played(Doing(act), ScriptedEngine(["4", "5"], chat), chat).failure for act in (uses_it, leaves_it, cancels_it)
    )
    assert used is not None
    assert used.startswith("AttributeError: 'coroutine' object has no attribute 'text' in ")
    assert used.endswith(sentence)
    assert left == sentence
    assert cancelled is None
    gc.collect()
