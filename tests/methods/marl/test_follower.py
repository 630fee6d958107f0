"""Batches that say too little."""

import asyncio
from dataclasses import replace

import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.toys.beliefs import believing
from hocket.methods.marl.follower.method import FOLLOWER, FollowedPath, followed
from hocket.train.loop import collect


def test_batches_without_joint_states_are_refused():
    parts = believing(FOLLOWER, "mapf:planned?agents=3&length=6", curriculum__prompts=2)
    batch = pack(asyncio.run(collect(parts, Key.of(2)))[0].trajectories)
    cut = tuple(None if one is None else one[:, :-1] for one in batch.joint)
    for change in ({"parts": None}, {"joint": ()}, {"joint": (None, *batch.joint[1:])}, {"joint": cut}):
        with pytest.raises(ConfigurationError, match="use mapf:planned"):
            followed(replace(batch, **change))
    assert FOLLOWER.shaping == (FollowedPath(reward=0.01),)
    assert len(followed(batch)) == batch.decisions
