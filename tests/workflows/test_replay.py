"""Episodes begun again: the same turns, other draws after them, and a sentence where the past is not as it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.keys import Key
from hocket.lab.talk import TalkBench
from hocket.recipes import find
from hocket.types import PAUSED, Assignment, Replay, Scenario, Trajectory

WORDS = ("red", "blue", "green", "grey", "black")
SCENARIO = Scenario("one", "say", answer="red")


class Chat(Workflow):
    """Two speak in turn and keep their conversations; the workflow draws a number of its own before each message."""

    roles = ("left", "right")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = "go"
        for number in range(4):
            drawn = int(team.key.derive(number).numpy().integers(1000))
            said = str(await team[self.roles[number % 2]](f"{said} {drawn}"))
        return Outcome(rewards={"right": float(said == scenario.answer)})


class Both(Workflow):
    """Two speak at once, then one reads both."""

    roles = ("left", "right")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        one, other = await asyncio.gather(team.left("first"), team.right("second"))
        await team.left(f"{one} {other}")
        return Outcome()


class Seated(Workflow):
    """One plays on, under the name of its seat, as environments name their players."""

    roles = ("policy",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        for number in range(3):
            reply = await team.policy(f"move {number}")
            reply.turn.agent = "player"
        return Outcome()


def bench(flow: Workflow | None = None) -> TalkBench:
    return TalkBench(flow or Chat(), [SCENARIO], WORDS, find("grpo"), view=lambda messages: messages[-1]["content"])


def played(found: TalkBench, **asked: Any) -> list[Trajectory]:
    assignment = replace(Assignment(SCENARIO, decoding=found.parts.decoding), **asked)
    return asyncio.run(found.player.play([assignment], key=Key.of(1)))


def test_turns_that_go_by_the_name_of_a_seat_are_replayed() -> None:
    found = bench(Seated())
    (before,) = played(found, first=3)
    for again in played(found, samples=20, first=10, replay=Replay(tuple(before.turns[:2]))):
        assert all(one is other for one, other in zip(again.turns[:2], before.turns[:2], strict=True))
        assert {turn.agent for turn in again.turns} == {"player"}


def test_a_replayed_beginning_is_the_same_objects_and_the_rest_is_drawn_anew() -> None:
    found = bench()
    (before,) = played(found, first=3)
    again = played(found, samples=20, first=10, replay=Replay(tuple(before.turns[:2]), sample=3))
    for one in again:
        assert one.failure is None
        assert [a is b for a, b in zip(one.turns, before.turns, strict=True)] == [True, True, False, False]
        assert one.turns[2].parent is before.turns[0]
        # The workflow draws as in sample 3, so the third question differs in nothing but what was said.
        assert one.turns[2].prompt == before.turns[2].prompt
    assert len({one.turns[2].text for one in again}) > 2


def test_an_episode_is_put_aside_after_as_many_messages_as_asked() -> None:
    found = bench()
    (before,) = played(found)
    (aside,) = played(found, first=1, replay=Replay(tuple(before.turns[:1]), more=2))
    assert [len(aside.turns), aside.truncated, aside.info["limit"], aside.scores] == [3, True, PAUSED, {}]
    (whole,) = played(found, first=1, replay=Replay(tuple(before.turns[:3]), more=1))
    assert [len(whole.turns), whole.truncated, "limit" in whole.info] == [4, False, False]


def test_a_whole_episode_is_replayed_without_asking_anybody() -> None:
    found = bench()
    (before,) = played(found)
    (again,) = played(found, first=5, replay=Replay(tuple(before.turns)))
    assert all(a is b for a, b in zip(again.turns, before.turns, strict=True))
    assert again.scores == before.scores


def test_calls_made_together_are_replayed_by_who_made_them() -> None:
    found = bench(Both())
    (before,) = played(found)
    (again,) = played(found, first=1, replay=Replay((before.turns[1],)))
    assert again.turns[1] is before.turns[1]
    assert again.turns[0] is not before.turns[0]


def test_a_workflow_that_asks_otherwise_is_told() -> None:
    found = bench()
    (before,) = played(found, first=3)
    (other,) = played(found, first=4, replay=Replay(tuple(before.turns[:2]), sample=4))
    assert other.failure is not None
    assert "asks otherwise than before" in other.failure


@pytest.mark.parametrize("samples", [1, 4])
def test_without_replay_nothing_changes(samples: int) -> None:
    found = bench()
    texts = [[turn.text for turn in one.turns] for one in played(found, samples=samples)]
    alone = [[turn.text for turn in one.turns] for number in range(samples) for one in played(found, first=number)]
    assert texts == alone
