"""Agents that decide along networks: what the world shows, what is refused, and what a file of weights says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.types import Assignment, Scenario

SPREAD = "mpe:spread?agents=3&networked=true&length=4"


def seated(width: int = 4, left: float = 1.0) -> tuple[JointPlayer, ControlPolicy]:
    task: JointTask = tasks.find(SPREAD)
    policy = ControlPolicy(task.spaces(task.world.agents), key=Key.of(3))
    world: Any = replace(task.world, networks=policy.module.actor.drawn, left=left)
    return JointPlayer(world, {"policy": policy}, dict.fromkeys(world.agents, "policy"), width=width), policy


def played(player: JointPlayer, *seeds: int) -> list[Any]:
    asked = [Assignment(Scenario(id=f"spread/{seed}", seed=seed), 1) for seed in seeds]
    return asyncio.run(player.play(asked, key=Key.of(11)))


def test_an_episode_depends_on_its_own_seed_and_key_only() -> None:
    alone = played(seated()[0], 5)[0]
    among = played(seated()[0], 2, 9, 5, 7, 4, 8)[2]
    for one, other in zip(alone.turns, among.turns, strict=True):
        assert (one.observation == other.observation).all()
        assert (one.action == other.action).all()
        assert (one.time == other.time).all()


def test_a_step_takes_a_time_for_each_and_orders_change() -> None:
    one = played(seated()[0], 5)[0]
    times = np.stack([turn.time for turn in one.turns])
    assert (np.sort(times % 3, 0) == np.arange(3)[:, None]).all()
    assert (times // 3 == np.arange(4)).all()
    assert len(np.unique(times % 3, axis=1).T) > 1


def test_without_networks_all_move_at_once() -> None:
    player = seated()[0]
    one = played(replace(player, world=replace(player.world, networks=None), _open=[]), 5)[0]
    assert all(turn.time.tolist() == [0, 1, 2, 3] for turn in one.turns)


def test_weights_are_read_again(tmp_path: Any) -> None:
    player, policy = seated()
    policy.module.actor.network.biases[-1].data += 1.0
    policy.save(tmp_path)
    other = seated()[1]
    other.load(tmp_path)
    assert (other.module.actor.network.biases[-1] == policy.module.actor.network.biases[-1]).all()
    plain = ControlPolicy(tasks.find("mpe:spread?agents=3").spaces(player.world.agents), key=Key.of(3))
    with pytest.raises(ConfigurationError, match="another network"):
        plain.load(tmp_path)


@pytest.mark.parametrize("network", [NetworkSettings(body="recurrent"), NetworkSettings(normalise=True)])
def test_other_bodies_are_refused(network: NetworkSettings) -> None:
    task: JointTask = tasks.find(SPREAD)
    with pytest.raises(ConfigurationError, match=r"drop network\.body"):
        ControlPolicy(task.spaces(task.world.agents), key=Key.of(3), network=network)


@pytest.mark.parametrize(
    "name",
    [
        "mpe:spread?agents=2&networked=true&sequenced=true",
        "mpe:spread?agents=1&networked=true",
        "mpe:tag?networked=true",
    ],
)
def test_worlds_without_networks_say_so(name: str) -> None:
    with pytest.raises(ConfigurationError, match="drop"):
        tasks.find(name)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--task", "mpe:spread?agents=2"], "add networked=true"),
        (["--task", "mpe:spread?agents=2&networked=true", "--cast", "separate"], "drop --cast"),
    ],
)
def test_the_recipe_says_what_it_needs(more: list[str], words: str, tmp_path: Any, capsys: Any) -> None:
    given = ["train", "--recipe", "bayesian-network-actor-critic", "--steps", "1", "--runs", str(tmp_path)]
    assert main([*given, *more]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")
