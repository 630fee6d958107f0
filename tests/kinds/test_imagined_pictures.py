"""A policy that learns in what a model imagines trains, resumes and is measured like all others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import resume, rows, summary, train

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.generative.wmpo.method import WorldModelling
from hocket.methods.generative.wmpo.model import WorldModel
from hocket.methods.generative.wmpo.player import BLOCK, ImaginedCourse, PicturePlayer, PictureSpaces, cloned
from hocket.methods.generative.wmpo.task import DoorRoom
from hocket.methods.generative.wmpo.world import MOVES, SIDE, WALL, Room, demonstrations, rooms
from hocket.policies.control import ControlPolicy
from hocket.types import Assignment, Decoding

SMALL = ["--evaluation.n", "4", "--evaluation.between", "4", "--threads", "1", "--curriculum.prompts", "2"]
SMALL += ["--rollout.samples", "4", "--hooks.0.pretraining", "3", "--hooks.0.updates", "2", "--hooks.0.every", "1"]


@pytest.mark.slow
def test_a_run_that_was_left_ends_with_the_same_bits(tmp_path: Path) -> None:
    words = ["--task", "door-room", "--recipe", "wmpo", "--checkpoint.steps", "1"]
    train(tmp_path, "whole", *words, steps=2, tiny=SMALL)
    train(tmp_path, "parts", *words, steps=1, tiny=SMALL)
    resume(tmp_path, "parts", "--steps", "2")
    weights = [
        load_file(next((tmp_path / run / "checkpoints").glob("step-000002/policy/model.safetensors")))
        for run in ("whole", "parts")
    ]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    last = [rows(tmp_path / run)[2] for run in ("whole", "parts")]
    assert last[0]["world/true_episodes"] == last[1]["world/true_episodes"] == 48
    assert last[0]["agreement/largest"] < 1e-4
    assert summary(tmp_path / "whole")["measure"] == "accuracy"


def test_it_imagines_pictures_of_its_own_task_alone() -> None:
    run: Any = SimpleNamespace(player=object(), task=SimpleNamespace(name="sums"), method="wmpo", overlap=0)
    with pytest.raises(ConfigurationError, match="task sums has none of them; use --task door-room"):
        WorldModelling().check(run)


def test_an_episode_has_the_same_bits_in_any_company() -> None:
    player = PicturePlayer(ControlPolicy(PictureSpaces(), key=Key.of(1)), ImaginedCourse(WorldModel(Key.of(2))))
    task = DoorRoom()
    many = asyncio.run(player.play([Assignment(task.scenario("train", n), 9) for n in range(9)], key=Key.of(3)))
    asked = Assignment(task.scenario("train", 8), 1, first=7)
    (alone,) = asyncio.run(player.play([asked], key=Key.of(3)))
    assert len(many) == 81 > BLOCK
    same = many[79]
    assert np.array_equal(alone.turns[0].action, same.turns[0].action)
    assert np.array_equal(alone.turns[0].logp, same.turns[0].logp)
    assert np.array_equal(alone.final_state, same.final_state)


def test_walls_and_borders_stop_the_agent() -> None:
    agent = np.array([[1, WALL - 1], [2, WALL - 1], [0, 0], [2, WALL]])
    room = Room(agent, np.full((4, 2), SIDE - 1), np.full(4, 2))
    assert room.moved(np.array([4, 4, 1, 4])).agent.tolist() == [[1, WALL - 1], [2, WALL], [0, 0], [2, WALL + 1]]
    drawn = rooms(list(range(50)))
    assert (drawn.agent[:, 1] < WALL).all()
    assert (drawn.goal[:, 1] > WALL).all()


def test_shortest_ways_fit_into_an_episode_and_can_be_cloned() -> None:
    known = demonstrations(Key.of(0), 80)
    lengths = np.diff(np.concatenate([[-1], np.flatnonzero(known.reached)]))
    assert len(lengths) == 80
    assert lengths.max() <= 2 * MOVES
    policy = cloned(ControlPolicy(PictureSpaces(), key=Key.of(1)), known, Key.of(2))
    task = DoorRoom()
    cold = [Assignment(task.scenario("eval", n), decoding=Decoding(temperature=0.0)) for n in range(40)]
    played = asyncio.run(PicturePlayer(policy).play(cold, key=Key.of(3)))
    assert np.mean([task.success(trajectory) for trajectory in played]) > 0.1


def test_a_fit_lowers_the_loss_and_a_saved_model_is_the_same() -> None:
    model, other, known = WorldModel(Key.of(0)), WorldModel(Key.of(1)), demonstrations(Key.of(2), 40)
    first = model.fit(known, 1, Key.of(3))
    assert model.fit(known, 15, Key.of(3)) < first
    other.take(model.held())
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))
    assert model.fit(known, 2, Key.of(4)) == other.fit(known, 2, Key.of(4))


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="episodes and updates must be at least 1"):
        WorldModelling(episodes=0)
