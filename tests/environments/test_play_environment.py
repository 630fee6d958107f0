"""Playing environments with the text player: seats, conversations, where rewards stand, limits, order."""

from __future__ import annotations

import asyncio

import players
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workflows import chats, engines

from hocket.agents.environments.legal import IllegalMoves
from hocket.agents.environments.openspiel import OpenSpiel
from hocket.agents.environments.reading import Tagged
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.barrier import Barrier
from hocket.testing import ScriptedEngine, rehearse
from hocket.types import Assignment, Decoding, Scenario, Trajectory
from hocket.zoo.maze import Mazes
from hocket.zoo.tasks.maze import MazeTask

SCENARIO = Scenario("s", seed=5)


def rewards(trajectory: Trajectory) -> list[float]:
    score = trajectory.scores["reward"]
    assert score.level is Level.TURN
    return [float(value or 0.0) for value in score.value]  # type: ignore[union-attr]


def test_rewards_stand_at_the_turn_they_followed_and_the_last_at_each_seats_last_turn() -> None:
    # a says up (+1, b -1), b says up (+1, a -1), a says up, b ends.
    (found,) = rehearse(PlayEnvironment(players.Counting()), SCENARIO, {"a": ["up", "up"], "b": ["up", "end"]})
    assert [turn.agent for turn in found.turns] == ["a", "b", "a", "b"]
    # What a's first move cost b came before b had moved, so it stands at b's first turn.
    assert rewards(found) == [1.0 - 1.0, -1.0 + 1.0 - 1.0, 1.0, 0.0]
    assert found.info["returns"] == {"a": 1.0, "b": -1.0}
    assert found.info["seats"] == ["a", "b"]
    assert found.info["illegal"] == {"a": 0, "b": 0}
    assert (found.terminated, found.failure) == (True, None)
    assert [turn.state for turn in found.turns] == ["nothing", "up", "up up", "up up up"]


def test_rewards_reach_the_batch_by_turn() -> None:
    found = rehearse(PlayEnvironment(OpenSpiel("kuhn_poker")), SCENARIO, players.reply, samples=8)
    batch = pack(found)
    names = batch.names["agent"]
    assert set(names) == {"player_0", "player_1"}
    score = batch.scores["reward"]
    assert score.level is Level.TURN
    total = {name: float(score.values[batch.agent == code].sum()) for code, name in enumerate(names)}
    assert total == pytest.approx(
        {name: sum(t.info["returns"][name] for t in found if name in {u.agent for u in t.turns}) for name in names}
    )


@given(
    st.integers(0, 10_000), st.sampled_from(["kuhn_poker", "leduc_poker", "goofspiel(num_cards=3)", "pig(winscore=6)"])
)
@settings(max_examples=25, deadline=None)
def test_zero_sums_and_last_turns(seed: int, game: str) -> None:
    flow = PlayEnvironment(OpenSpiel(game))
    (found,) = rehearse(flow, Scenario("s", seed=seed), players.reply, seed=seed)
    assert found.failure is None
    assert sum(found.info["returns"].values()) == pytest.approx(0.0)
    values = rewards(found)
    for seat, earned in found.info["returns"].items():
        own = [place for place, turn in enumerate(found.turns) if turn.agent == seat]
        if own:  # these games pay at the end alone
            assert values[own[-1]] == pytest.approx(earned)
            assert all(values[place] == 0.0 for place in own[:-1])


def test_one_role_may_play_all_seats_in_conversations_of_their_own() -> None:
    flow = PlayEnvironment(OpenSpiel("tic_tac_toe"), seats={"player_0": "me", "player_1": "me"})
    assert flow.roles == ("me",)
    (found,) = rehearse(flow, SCENARIO, ["1", "4", "2", "5", "3"])
    assert [(turn.agent, turn.role) for turn in found.turns] == [("player_0", "me"), ("player_1", "me")] * 2 + [
        ("player_0", "me")
    ]
    assert found.turns[2].parent is found.turns[0]
    assert found.turns[3].parent is found.turns[1]
    assert found.info["returns"] == {"player_0": 1.0, "player_1": -1.0}


def test_memory_tells_only_the_news_and_without_it_every_turn_begins_anew() -> None:
    script = {"a": ["up", "end"], "b": ["up"]}
    (remembered,) = rehearse(PlayEnvironment(players.Counting()), SCENARIO, script)
    first, _, later = remembered.turns
    assert first.prompt[-1]["content"].endswith("Legal moves: up, end\nSay your move on the last line.")
    assert later.parent is first
    assert later.prompt[-1]["content"] == "Said: up up\nLegal moves: up, end"
    (fresh,) = rehearse(PlayEnvironment(players.Counting(), memory=False, instruct=False), SCENARIO, script)
    assert [turn.parent for turn in fresh.turns] == [None] * 3
    assert fresh.turns[2].prompt == (
        {"role": "user", "content": fresh.turns[0].prompt[-1]["content"].replace("nothing", "up up")},
    )


def test_illegal_moves_are_counted_and_the_rule_is_the_worlds() -> None:
    flow = PlayEnvironment(players.Counting(rule=IllegalMoves(tries=1, penalty=0.5)), reading=Tagged())
    script = {"a": ["up", "<move>up</move>", "<move>down</move>", "none"], "b": ["<move>up</move>"]}
    (found,) = rehearse(flow, SCENARIO, script)
    assert found.info["illegal"] == {"a": 3, "b": 0}
    assert rewards(found) == [-0.5, 1.0 - 1.0, -1.0 + 1.0 + 1.0, -0.5, -1.0]
    assert found.info["returns"] == {"a": -2.0, "b": 1.0}
    assert found.turns[1].prompt[-1]["content"].startswith("That was not a legal move. Try again.")


def test_simultaneous_movers_are_asked_together() -> None:
    chat, barrier = chats.chat("nano"), Barrier()
    engine = engines.WaitingEngine(players.reply, chat, barrier)
    flow = PlayEnvironment(OpenSpiel("matrix_rps"))
    player = TextPlayer(flow, {role: Actor(role, engine, chat) for role in flow.roles})
    found = asyncio.run(player.play([Assignment(SCENARIO, samples=3)], key=Key.of(0)))
    assert engine.batches == [6]
    assert [turn.agent for turn in found[0].turns] == ["player_0", "player_1"]


@pytest.mark.parametrize("game", ["leduc_poker", "goofspiel(num_cards=3,imp_info=true)"])
def test_the_order_of_completion_changes_nothing(game: str) -> None:
    chat = chats.chat("nano")
    flow = PlayEnvironment(OpenSpiel(game))

    def played(seed: int) -> list[tuple[object, ...]]:
        engine = engines.SlowEngine(players.reply, chat, seed)
        player = TextPlayer(flow, {role: Actor(role, engine, chat) for role in flow.roles})
        asked = [Assignment(Scenario(f"s{n}", seed=n), samples=3) for n in range(3)]
        found = asyncio.run(player.play(asked, key=Key.of(1)))
        return [(one.info, [(turn.agent, turn.text, turn.state) for turn in one.turns], rewards(one)) for one in found]

    assert played(0) == played(1) == played(2)


def test_samples_share_chance_unless_they_draw_their_own() -> None:
    def cards(own: bool) -> set[str]:
        flow = PlayEnvironment(OpenSpiel("kuhn_poker"), own_chance=own)
        found = rehearse(flow, SCENARIO, players.reply, samples=12)
        return {str(trajectory.turns[0].prompt[0]["content"]).split("card: ")[1][:4] for trajectory in found}

    assert len(cards(own=False)) == 1
    assert len(cards(own=True)) == 3


def test_a_limit_of_moves_ends_the_episode_with_what_was_earned() -> None:
    script = {"a": ["up"] * 9, "b": ["up"] * 9}
    for flow, limits in (
        (PlayEnvironment(players.Counting(), turns=3), Limits()),
        (PlayEnvironment(players.Counting()), Limits(turns=3)),
    ):
        (found,) = rehearse(flow, SCENARIO, script, limits=limits)
        assert len(found.turns) == 3
        assert found.truncated
        assert "3" in found.info["limit"]
        assert found.failure is None
        assert sum(rewards(found)) == 0.0


def test_a_limit_amid_simultaneous_moves_makes_none_of_them() -> None:
    flow = PlayEnvironment(players.Counting(together=True))
    (found,) = rehearse(flow, SCENARIO, {"a": ["up"] * 9, "b": ["up"] * 9}, limits=Limits(turns=3))
    assert [turn.agent for turn in found.turns] == ["a", "b", "a"]
    assert rewards(found) == [0.0, 0.0, 0.0]
    assert "turns" in found.info["limit"]


def test_a_hint_stands_in_the_first_question() -> None:
    chat = chats.chat("nano")
    engine = ScriptedEngine(["end"], chat)
    player = TextPlayer(PlayEnvironment(players.Counting(agents=("me",))), {"policy": Actor("main", engine, chat)})
    asked = Assignment(SCENARIO, hint="be brief", decoding=Decoding(max_tokens=64))
    (found,) = asyncio.run(player.play([asked], key=Key.of(0)))
    assert "be brief" in found.turns[0].prompt[0]["content"]


def test_worlds_with_few_places_are_played_in_turn_even_if_the_engine_waits_for_all() -> None:
    world = players.Counting(concurrent=2)
    chat, barrier = chats.chat("nano"), Barrier(patience=30.0)
    engine = engines.WaitingEngine(players.reply, chat, barrier)
    flow = PlayEnvironment(world)
    player = TextPlayer(flow, {role: Actor(role, engine, chat) for role in flow.roles}, Limits(seconds=5))
    found = asyncio.run(player.play([Assignment(SCENARIO, samples=6)], key=Key.of(0)))
    assert all(one.failure is None and "limit" not in one.info for one in found)
    assert max(engine.batches) == 2
    assert all(environment.closed for environment in world.opened)


def test_episodes_of_other_worlds_are_played_together() -> None:
    chat, barrier = chats.chat("nano"), Barrier(patience=30.0)
    engine = engines.WaitingEngine(lambda request: "north", chat, barrier)
    task = MazeTask(PlayEnvironment(Mazes(3, 3, steps=4)))
    player = TextPlayer(task.workflow, {"policy": Actor("main", engine, chat)}, Limits(seconds=20))
    asyncio.run(player.play([Assignment(task.scenario("train", 0), samples=6)], key=Key.of(0)))
    assert engine.batches[0] == 6


def test_an_environment_is_closed_when_it_breaks() -> None:
    world = players.Counting()
    (found,) = rehearse(PlayEnvironment(world), SCENARIO, {"a": ["up"], "b": []})
    assert "script has 0 replies" in str(found.failure)
    assert world.opened[0].closed


@pytest.mark.parametrize("settings_", [{"seats": {"c": "x"}}, {"turns": 0}])
def test_wrong_settings_are_refused(settings_: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no seat 'c'|turns must be"):
        PlayEnvironment(players.Counting(), **settings_)  # type: ignore[arg-type]
