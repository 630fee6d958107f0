"""Batches that say too little."""

import asyncio
from dataclasses import replace

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.marl.follower.method import FOLLOWER, FollowedPath, followed
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import collect


def test_batches_without_joint_states_are_refused():
    task = tasks.find("mapf:planned?agents=3&length=6")
    parts = build_parts(configure([("recipe", FOLLOWER), ("curriculum.prompts", 2)], task), task)
    batch = pack(asyncio.run(collect(parts, Key.of(2)))[0].trajectories)
    cut = tuple(None if one is None else one[:, :-1] for one in batch.joint)
    for change in ({"parts": None}, {"joint": ()}, {"joint": (None, *batch.joint[1:])}, {"joint": cut}):
        with pytest.raises(ConfigurationError, match="use mapf:planned"):
            followed(replace(batch, **change))
    assert FOLLOWER.shaping == (FollowedPath(reward=0.01),)
    assert len(followed(batch)) == batch.decisions
