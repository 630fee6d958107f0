"""Workflows that misbehave: each fails alone, with its reason, and the others go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import chats
import engines
import numpy as np
import pytest
from test_team import SCENARIO, Doing, echo

from hocket.agents.workflows import ending
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.barrier import Barrier
from hocket.engine.requests import Request
from hocket.testing import ScriptedEngine
from hocket.train.aio import run_async
from hocket.types import Assignment, Decoding, Scenario, Trajectory

CHAT = chats.chat("nano")
Act = Callable[[Scenario, Team], Awaitable[Outcome | None]]


def play(act: Act, limits: Limits | None = None, *, good: int = 3, engine: ScriptedEngine | None = None) -> Trajectory:
    """Plays one bad episode among good ones, which must all come to their end; the bad one."""

    async def either(scenario: Scenario, team: Team) -> Outcome | None:
        if scenario.id == "bad":
            return await act(scenario, team)
        await team.policy("one")
        await team.policy("two")
        return Outcome(rewards={"r": 1.0})

    engine = engine or engines.WaitingEngine(echo(CHAT), CHAT, Barrier(patience=0.05))
    player = TextPlayer(Doing(either), {"policy": Actor("main", engine, CHAT)}, limits or Limits())
    asked = [Assignment(Scenario("bad", "x")), Assignment(Scenario("good", "y"), samples=good)]
    bad, *rest = run_async(asyncio.wait_for(player.play(asked, key=Key.of(0)), 20))
    assert [(one.failure, len(one.turns), one.terminated) for one in rest] == [(None, 2, True)] * good
    assert bad.truncated
    assert not bad.terminated
    return bad


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending.ended, "__defaults__", (0.1,))


# ---------------------------------------------------------------- raising


def test_errors_of_every_kind_are_failures() -> None:
    class Odd(BaseException):
        pass

    async def grouped(scenario: Scenario, team: Team) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(team.policy("fine"))
            group.create_task(raising())

    async def raising() -> None:
        raise KeyError("lost")

    async def nested(scenario: Scenario, team: Team) -> None:
        await asyncio.gather(asyncio.gather(team.policy("a"), raising()), team.policy("b"))

    async def cancelled(scenario: Scenario, team: Team) -> None:
        raise asyncio.CancelledError("by itself")

    async def deep(scenario: Scenario, team: Team) -> None:
        def down(n: int) -> int:
            return down(n + 1)

        down(0)

    async def timed(scenario: Scenario, team: Team) -> None:
        await asyncio.wait_for(asyncio.sleep(60), 0.01)

    assert "ExceptionGroup" in str(play(grouped).failure)
    assert str(play(nested).failure).startswith("KeyError: 'lost'")
    assert "CancelledError: by itself" in str(play(cancelled).failure)
    assert str(play(deep).failure).startswith("RecursionError")
    assert str(play(timed).failure).startswith("TimeoutError")


def test_what_is_wrong_for_all_stops_the_run_even_from_a_group() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wrong(team))

    async def wrong(team: Team) -> None:
        team["nobody"]

    with pytest.raises(ConfigurationError, match="no role 'nobody'"):
        play(act)


def test_turns_before_a_failure_are_kept() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        await team.policy("two")
        raise OSError("disk full")

    found = play(act)
    assert str(found.failure).startswith("OSError: disk full")
    assert [turn.prompt[-1]["content"] for turn in found.turns] == ["one", "two"]


# ---------------------------------------------------------------- hanging


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(seconds=0.2), "the episode took more than limits.seconds = 0.2 s"),
        (Limits(idle_seconds=0.1), "the workflow called no agent for more than limits.idle_seconds = 0.1 s"),
    ],
)
def test_a_workflow_that_hangs_reaches_a_limit(limits: Limits, words: str) -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        await asyncio.Event().wait()

    found = play(act, limits)
    assert found.info["limit"] == words
    assert (found.failure, len(found.turns)) == (None, 1)


def test_waiting_for_an_answer_is_not_idle() -> None:
    class Slow(ScriptedEngine):
        async def submit(self, request: Request) -> object:
            await asyncio.sleep(0.1)
            return self._sample(request)

    async def act(scenario: Scenario, team: Team) -> Outcome:
        for _ in range(3):
            await team.policy("go")
        raise RuntimeError("reached the end")

    found = play(act, Limits(idle_seconds=0.08), engine=Slow(echo(CHAT), CHAT))
    assert str(found.failure).startswith("RuntimeError: reached the end")


def test_one_that_swallows_its_cancellation_is_ended_all_the_same() -> None:
    ended = []

    async def act(scenario: Scenario, team: Team) -> None:
        try:
            while True:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)
        finally:
            ended.append(scenario.id)

    begun = time.monotonic()
    found = play(act, Limits(seconds=0.4))
    assert str(found.failure).endswith("did not end when cancelled: it catches CancelledError")
    assert ended == ["bad"]
    assert time.monotonic() - begun < 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_swallows_everything_is_left_behind() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        for _ in range(6):
            try:
                await asyncio.sleep(0.3)
            except BaseException:
                continue

    assert "did not end when cancelled" in str(play(act, Limits(seconds=0.4)).failure)


def test_one_that_ignores_refusals_is_ended() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        while True:
            with suppress(Exception):
                await team.policy("more")

    found = play(act, Limits(turns=2))
    assert "the workflow went on calling agents although the episode has used its 2 turns" in str(found.failure)
    assert len(found.turns) == 2


def test_one_that_ends_cleanly_after_its_limit_may_clean_up() -> None:
    cleaned = []

    async def act(scenario: Scenario, team: Team) -> Outcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            cleaned.append(True)
            raise
        return Outcome()

    found = play(act, Limits(seconds=0.4))
    assert (found.failure, cleaned) == (None, [True])


# ---------------------------------------------------------------- leaving tasks behind


def test_calls_of_tasks_left_behind_are_cancelled_or_refused() -> None:
    outcomes: list[str] = []

    async def late(team: Team, when: asyncio.Event) -> None:
        try:
            await when.wait()
            await team.policy("late")
        except BaseException as error:
            outcomes.append(f"{type(error).__name__}: {error}")
            raise

    class Stuck(ScriptedEngine):
        async def submit(self, request: Request) -> object:
            if "late" in self._chat.render(request.tokens):
                asked_late.set()
                await asyncio.sleep(60)
            return self._sample(request)

    tasks = []
    asked_late, over = asyncio.Event(), asyncio.Event()

    async def act(scenario: Scenario, team: Team) -> None:
        at_once = asyncio.Event()
        at_once.set()
        tasks.extend(asyncio.create_task(late(team, when)) for when in (at_once, over))
        await team.policy("one")
        await asked_late.wait()
        raise ValueError("no more")

    class Lasting(Doing):
        async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
            if scenario.id == "good":
                while not outcomes:
                    await asyncio.sleep(0.01)
                over.set()
                while len(outcomes) < 2:
                    await asyncio.sleep(0.01)
                return None
            return await super().play(scenario, team)

    player = TextPlayer(Lasting(act), {"policy": Actor("main", Stuck(echo(CHAT), CHAT), CHAT)})
    asked = [Assignment(Scenario("bad", "x")), Assignment(Scenario("good", "y"))]
    bad, _ = run_async(player.play(asked, key=Key.of(0)))
    assert str(bad.failure).startswith("ValueError: no more")
    assert len(bad.turns) == 1
    assert outcomes[0].startswith("CancelledError")
    assert outcomes[1].startswith("HocketError: agent 'policy' was called after its episode had ended")


def test_the_step_ends_although_a_task_left_behind_would_not() -> None:
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    kept = []

    async def act(scenario: Scenario, team: Team) -> None:
        kept.append(asyncio.create_task(stubborn()))
        raise ValueError("no more")

    begun = time.monotonic()
    assert str(play(act).failure).startswith("ValueError")
    assert time.monotonic() - begun < 5
    assert kept[0].done()


# ---------------------------------------------------------------- cancelled from outside


def test_cancelling_the_player_ends_even_stubborn_workflows() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    player = TextPlayer(Doing(act), {"policy": Actor("main", ScriptedEngine(["a"], CHAT), CHAT)})

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(player.play([Assignment(SCENARIO, samples=3)], key=Key.of(0)), 0.05)

    begun = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begun < 5


# ---------------------------------------------------------------- order of completion


def test_trajectories_do_not_depend_on_who_is_fast() -> None:
    """Pauses before, between and beside calls, in several orders: the same tokens, keys and links."""

    async def pause(team: Team, *path: object) -> None:
        share = float(team.key.derive("pause", seed, *map(str, path)).numpy().random())
        await asyncio.sleep(0.004 * share)

    async def helper(team: Team, agent: object, words: str) -> Reply:
        await pause(team, words)
        return await agent(words)

    async def act(scenario: Scenario, team: Team) -> None:
        await pause(team, "start")
        first = await team.left("begin")
        mates = [team.right.fresh() for _ in range(3)]
        calls = [helper(team, mate, f"{first} {number}") for number, mate in enumerate(mates)]
        notes = await asyncio.gather(*calls)
        await pause(team, "middle")
        await team.left([*notes, "sum up"])
        await team.left([{"role": "system", "content": "anew"}, {"role": "user", "content": "rewritten"}])

    def spoken(request: Request) -> str:
        return "".join(str(number) for number in request.key.numpy().integers(10, size=3))

    def told(found: list[Trajectory]) -> list[object]:
        return [
            sorted(
                (
                    turn.agent,
                    turn.extras["conversation"],
                    turn.text,
                    turn.observation.tolist(),
                    None if turn.parent is None else turn.parent.text,
                )
                for turn in one.turns
            )
            for one in found
        ]

    results = []
    for seed in range(4):
        engine = engines.SlowEngine(spoken, CHAT, seed)
        actors = {role: Actor("main", engine, CHAT) for role in ("left", "right")}
        player = TextPlayer(Doing(act, "left", "right"), actors)
        asked = [Assignment(Scenario(str(n), "x"), samples=2, decoding=Decoding(max_tokens=9)) for n in range(4)]
        found = run_async(player.play(asked, key=Key.of(1)))
        assert all(one.failure is None and len(one.turns) == 6 for one in found)
        results.append(told(found))
    assert all(result == results[0] for result in results)
    assert len({str(one) for one in results[0]}) == 8


# ---------------------------------------------------------------- memory


def test_a_long_conversation_is_kept_once() -> None:
    """What turns hold of their prompts grows with what was said, not with its square."""

    async def act(scenario: Scenario, team: Team) -> None:
        for number in range(int(scenario.id)):
            await team.policy(f"question {number}")

    engine = ScriptedEngine(echo(CHAT), CHAT)
    player = TextPlayer(Doing(act), {"policy": Actor("main", engine, CHAT)}, Limits(turns=None))
    (found,) = run_async(player.play([Assignment(Scenario("40", "x"))], key=Key.of(0)))
    last = found.turns[-1].prompt
    assert len(last) == 79
    assert [message["content"] for message in last if message["role"] == "user"] == [f"question {n}" for n in range(40)]
    assert [message["content"] for message in last if message["role"] == "assistant"] == [
        turn.text for turn in found.turns[:-1]
    ]
    assert last[-1] == last[len(last) - 1]
    assert last[:-2] == tuple(found.turns[-2].prompt)
    assert last == tuple(last)
    assert last != found.turns[-2].prompt
    assert sum(len(turn.prompt._new) for turn in found.turns[1:]) == 39
    assert sum(np.size(turn.observation) for turn in found.turns) < 40 * 25
