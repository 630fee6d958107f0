"""Histories kept by somebody else: what was sampled here is found in them again, and nothing else is a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import chats
import numpy as np
import pytest
from engines import SlowEngine
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.foreign import Correspondent
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.requests import Request
from hocket.testing import ScriptedEngine
from hocket.types import Assignment, Decoding, Message, Scenario, Trajectory, Turn


class Writing(Workflow):
    """A workflow from a function that is given a correspondent."""

    roles = ("policy",)

    def __init__(self, act: Callable[[Correspondent], Awaitable[Any]]) -> None:
        self.act = act

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        await self.act(Correspondent(team.policy))
        return None


def played(
    act: Callable[[Correspondent], Awaitable[Any]], engine: ScriptedEngine, chat: Chat, **decoding: Any
) -> Trajectory:
    player = TextPlayer(Writing(act), {"policy": Actor("main", engine, chat)})
    asked = Assignment(Scenario("s", "?"), decoding=Decoding(**{"max_tokens": 200, **decoding}))
    (trajectory,) = asyncio.run(player.play([asked], key=Key.of(0)))
    assert trajectory.failure is None, trajectory.failure
    return trajectory


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def fed(turn: Turn) -> list[int]:
    """What the learner will read before a turn's first decision."""
    path = turn.context()
    whole = [int(token) for link in path[:-1] for token in (*link.observation, *link.action)]
    return [*whole, *(int(token) for token in turn.observation)]


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
@pytest.mark.parametrize("longest", [3, 200])
def test_a_history_that_comes_back_is_one_conversation(name: str, longest: int):
    chat = chats.chat(name)
    engine = ScriptedEngine(["alpha", "beta", "gamma"], chat)

    async def act(who: Correspondent) -> None:
        messages: list[Message] = []
        for question in ("one", "two", "three"):
            messages.append(user(question))
            reply = await who.write(who.read(messages))
            messages.append(said(reply.text))

    trajectory = played(act, engine, chat, max_tokens=longest)
    assert [len(turn.context()) for turn in trajectory.turns] == [1, 2, 3]
    assert [list(request.tokens) for request in engine.requests] == [fed(turn) for turn in trajectory.turns]
    assert {turn.extras["conversation"] for turn in trajectory.turns} == {0}
    assert pack([trajectory]).decisions == sum(len(turn) for turn in trajectory.turns)


def test_tokens_stay_as_sampled_where_encoding_again_would_differ():
    chat = chats.chat("chatml")
    a, b = chat.encode("a")[0], chat.encode("b")[0]
    assert chat.encode("ab") != (a, b)

    class Apart(ScriptedEngine):
        def _response(self, request: Request, said: Any) -> Any:
            found = super()._response(request, said)
            return type(found)(np.array([a, b, chat.end_of_turn]), np.zeros(3, np.float32), "stop", 0)

    async def act(who: Correspondent) -> None:
        first = await who.write(who.read([user("x")]))
        assert first.text == "ab"
        await who.write(who.read([user("x"), said("ab"), user("y")]))

    engine = Apart(["", ""], chat)
    one, two = played(act, engine, chat).turns
    assert two.parent is one
    assert list(engine.requests[1].tokens)[len(one.observation) :][:3] == [a, b, chat.end_of_turn]


@pytest.mark.parametrize(
    ("history", "parents"),
    [
        # Edited: the answer stands in the observation of a branch.
        ([user("one"), said("ALPHA"), user("two")], [None]),
        # Edited later on: what came before it still counts.
        ([user("one"), said("alpha"), user("two"), said("edited"), user("three")], [None, 0]),
        # Extended: what was sampled stays a decision, what was added does not.
        ([user("one"), said("alpha and more"), user("two")], [None]),
        # Shortened from the front: nothing of it was sampled so.
        ([user("two"), said("beta"), user("three")], [None]),
        # Repeated from an earlier place.
        ([user("one"), said("alpha"), user("other")], [None, 0]),
        # Not said by the policy at all.
        ([said("hello"), user("one")], [None]),
        # The same again: another answer to the same.
        ([user("one")], [None]),
    ],
)
def test_changed_histories(history: list[Message], parents: list[int | None]):
    chat = chats.chat("chatml")
    engine = ScriptedEngine(["alpha", "beta", "last"], chat)

    async def act(who: Correspondent) -> None:
        await who.write(who.read([user("one")]))
        await who.write(who.read([user("one"), said("alpha"), user("two")]))
        await who.write(who.read(history))

    turns = played(act, engine, chat).turns
    last = turns[-1]
    path = last.context()
    assert len(path) == len(parents)
    assert all(one is turns[place] for one, place in zip(path[:-1], parents[1:], strict=True) if place is not None)
    assert list(engine.requests[-1].tokens) == fed(last)
    # The policy reads what the other side wrote, and only what it sampled itself is learnt.
    assert chat.sealed_text(fed(last)) == chat.sealed(history)
    batch = pack([Trajectory(Scenario("s"), turns)])
    assert batch.decisions == sum(len(chat.encode(word)) + 1 for word in ("alpha", "beta", "last"))


def test_an_answer_that_was_cut_and_went_on_elsewhere_is_continued():
    chat = chats.chat("chatml")
    engine = ScriptedEngine(["alpha beta", "x"], chat)

    async def act(who: Correspondent) -> None:
        reply = await who.write(who.read([user("one")]), longest=3)
        assert reply.finish == "length"
        await who.write(who.read([user("one"), said(reply.text + "!!"), user("two")]))

    one, two = played(act, engine, chat).turns
    assert two.parent is one
    assert chat.render(two.observation.tolist()).startswith("!!<|im_end|>")


def test_a_template_that_rewrites_the_past_opens_a_branch():
    chat = chats.chat("rethinking")
    engine = ScriptedEngine(["<think>a</think>b", "<think>c</think>d"], chat)

    async def act(who: Correspondent) -> None:
        reply = await who.write(who.read([user("one")]))
        await who.write(who.read([user("one"), said(reply.text), user("two")]))

    _, two = played(act, engine, chat).turns
    assert two.parent is None
    assert list(engine.requests[-1].tokens) == fed(two)


WORDS = st.sampled_from(["a", "b", "ab", "ba", "\n\n", " ", "x y"])
STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["go on", "edit", "cut", "again", "forget"]), WORDS, WORDS), max_size=8
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, longest=st.integers(1, 6), name=st.sampled_from(["chatml", "nano", "two-ends"]))
def test_contexts_are_what_is_learnt_from_and_the_longest_match_is_found(
    steps: list[tuple[int, str, str, str]], longest: int, name: str
):
    """Whatever a client does to its histories, the learner reads exactly what the sampler read."""
    chat = chats.chat(name)
    words = ["ab", "a b", "", "ba", "abab"]
    engine = ScriptedEngine(lambda request: words[request.key.value % len(words)], chat)
    histories: list[list[Message]] = [[user("a")]]

    async def act(who: Correspondent) -> None:
        reply = await who.write(who.read(histories[0]))
        histories.append([*histories[0], said(reply.text)])
        for place, kind, word, more in steps:
            history = list(histories[place % len(histories)])
            if kind == "edit":
                history[-1] = said(word)
            elif kind == "cut":
                history = history[2:]
            elif kind == "forget":
                history = []
            asked = history if kind == "again" and history[-1]["role"] == "user" else [*history, user(more)]
            reply = await who.write(who.read(asked))
            histories.append([*asked, said(reply.text)])

    turns = played(act, engine, chat, max_tokens=longest).turns
    sampled = {id(turn): tuple(fed(turn)) + tuple(turn.action.tolist()) for turn in turns}
    for number, (turn, request) in enumerate(zip(turns, engine.requests, strict=True)):
        assert request.tokens == tuple(fed(turn))
        earlier = [sampled[id(one)] for one in turns[:number]]
        fitting = [len(one) for one in earlier if request.tokens[: len(one)] == one]
        parent = 0 if turn.parent is None else len(sampled[id(turn.parent)])
        assert parent >= max(fitting, default=0)


def test_draws_depend_on_what_is_asked_and_not_on_when():
    chat = chats.chat("chatml")

    def keys(seed: int) -> dict[tuple[int, ...], list[int]]:
        engine = SlowEngine(lambda request: "ab", chat, seed)

        async def ask(who: Correspondent, word: str, wait: int) -> None:
            for _ in range(wait):
                await asyncio.sleep(0)
            history = [user(word)]
            reply = await who.write(who.read(history))
            await who.write(who.read([*history, said(reply.text), user("more")]))

        async def act(who: Correspondent) -> None:
            await asyncio.gather(*(ask(who, word, seed * place % 5) for place, word in enumerate("abcab")))

        played(act, engine, chat)
        found: dict[tuple[int, ...], list[int]] = {}
        for request in engine.requests:
            found.setdefault(request.tokens, []).append(request.key.value)
        return {tokens: sorted(ones) for tokens, ones in found.items()}

    first = keys(1)
    assert first == keys(2) == keys(3)
    every = [key for ones in first.values() for key in ones]
    assert len(set(every)) == len(every) == 10


def test_a_call_that_was_given_up_draws_the_same_when_it_is_made_again():
    chat = chats.chat("chatml")

    class Stuck(ScriptedEngine):
        async def submit(self, request: Request) -> Any:
            if len(self.requests) == 0:
                self.requests.append(request)
                await asyncio.Event().wait()
            return await super().submit(request)

    engine = Stuck(["ab", "ab"], chat)
    replies: list[Reply] = []

    async def act(who: Correspondent) -> None:
        lost = asyncio.create_task(who.write(who.read([user("a")])))
        while not engine.requests:
            await asyncio.sleep(0)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)
        replies.append(await who.write(who.read([user("a")])))

    trajectory = played(act, engine, chat)
    assert engine.requests[0].key == engine.requests[1].key
    assert [turn.text for turn in trajectory.turns] == ["ab"]
