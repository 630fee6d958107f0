"""Updates within an episode: the pieces that a player hands over, and the steps that learn from them."""

import asyncio
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from control_cases import Line, asked, controller, play

from hocket import tasks
from hocket.core.keys import Key
from hocket.hooks.short_batches import ShortBatches
from hocket.lab.claims.shipped_check import configured
from hocket.rollout.pieces import PiecewisePlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step

POLE = "gym:CartPole-v1?max_episode_steps=13"


def pieces(world: Line, length: int, moved: int = 0, width: int = 8) -> tuple[list[list[Any]], list[Any]]:
    """The pieces of four episodes, and the episodes; weights get a new version after each piece if `moved`."""
    policy = controller(world)
    played = PiecewisePlayer(world, policy).pieces(
        [asked(seed) for seed in range(4)], key=Key.of(11), length=length, width=width
    )
    parts = []
    while True:
        try:
            parts.append(next(played))
        except StopIteration as end:
            return parts, end.value
        policy.version += moved


@pytest.mark.parametrize(("length", "width"), [(1, 8), (5, 8), (5, 2), (100, 8)])
def test_pieces_in_turn_are_the_episodes_that_are_played_at_once(length: int, width: int) -> None:
    parts, whole = pieces(Line(), length, width=width)
    alone = play(Line(), [asked(seed) for seed in range(4)], width=width)
    for one, other in zip(whole, alone, strict=True):
        mine = [piece for part in parts for piece in part if piece.scenario.id == one.scenario.id]
        for name in ("observation", "action", "logp"):
            joined = np.concatenate([getattr(piece.turns[0], name) for piece in mine])
            assert np.array_equal(joined, getattr(other.turns[0], name))
            assert np.array_equal(getattr(one.turns[0], name), joined)
        rewards = np.concatenate([piece.scores["reward"].value for piece in mine])
        assert np.array_equal(rewards, other.scores["reward"].value)
        assert all(len(piece.turns[0]) <= length for piece in mine)
        assert width == 2 or [len(piece.turns[0]) for piece in mine[:-1]] == [length] * (len(mine) - 1)
        for piece, after in pairwise(mine):
            assert piece.truncated
            assert np.array_equal(piece.final_state, after.turns[0].observation[0])
        assert (mine[-1].terminated, mine[-1].truncated) == (other.terminated, other.truncated)
        assert np.array_equal(mine[-1].final_state, other.final_state)


def test_every_decision_has_the_version_that_made_it() -> None:
    parts, whole = pieces(Line(limit=7), 3, moved=1)
    assert whole[0].turns[0].version.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert [part[0].turns[0].version.tolist() for part in parts] == [[0, 0, 0], [1, 1, 1], [2]]


def test_an_environment_that_raises_fails_its_piece_and_its_episode() -> None:
    parts, whole = pieces(Line(limit=7, raises={1: 5}), 3)
    failed = [piece.failure for part in parts for piece in part if piece.scenario.seed == 1]
    assert failed[0] is None
    assert "gave way" in failed[1]
    assert "gave way" in whole[1].failure
    assert whole[0].failure is None


def steps(settings: dict[str, Any], count: int = 2) -> tuple[Any, list[dict[str, float]]]:
    task = tasks.find(POLE)
    usual = {"curriculum.prompts": 3, "threads": 1, "hooks.0.length": 5, "hooks.0.width": 8}
    parts = build_parts(configured("a2c", POLE, task, {**usual, **settings}), task)
    return parts, [run_async(train_step(parts, step + 1)).metrics for step in range(count)]


def test_a_step_takes_a_gradient_every_few_decisions() -> None:
    parts, rows = steps({})
    longest = -(-13 // 5)
    for row in rows:
        assert 1 < row["update/gradients"] <= longest
        assert np.isfinite([row["loss"], row["gradient/norm"], row["entropy"]]).all()
        assert row["agreement/largest"] < 1e-5
    assert parts.lead.policy.version == sum(row["update/gradients"] for row in rows)
    assert rows[0]["length/mean"] == rows[0]["reward/mean"]


def test_without_a_length_a_step_is_one_update_from_whole_episodes() -> None:
    whole, rows = steps({"hooks.0.length": None}, 1)
    assert rows[0]["update/gradients"] == 1
    long, others = steps({"hooks.0.length": 13}, 1)
    assert others[0]["update/gradients"] == 1
    assert others[0]["loss"] == pytest.approx(rows[0]["loss"], abs=1e-9)
    pairs = zip(whole.lead.policy.module.parameters(), long.lead.policy.module.parameters(), strict=True)
    assert all(bool((one - other).abs().max() < 1e-6) for one, other in pairs)


def test_networks_with_memory_learn_from_whole_episodes() -> None:
    _, rows = steps({"network.body": "recurrent"}, 1)
    assert rows[0]["update/gradients"] == 1


def test_a_length_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="length must be at least 1"):
        ShortBatches(0)


def test_whole_episodes_are_played_as_ever() -> None:
    world = Line()
    player = PiecewisePlayer(world, controller(world))
    one, other = asyncio.run(player.play([asked(1)], key=Key.of(11))), play(Line(), [asked(1)])
    assert np.array_equal(one[0].turns[0].logp, other[0].turns[0].logp)
