"""States of worlds that are copied and put back, into another copy too."""

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.dynamic_coalition_mrta.arena import Coalitions
from hocket.methods.marl.attention_tracking_marl.tracking import Tracking
from hocket.methods.marl.eph_mapf.neighbours import NeighbouringPaths
from hocket.zoo.joint.bandits import BanditWorld
from hocket.zoo.joint.evasion import Flee
from hocket.zoo.joint.particles import SpeakerListener, Spread, Tag
from hocket.zoo.joint.partners import Partner
from hocket.zoo.joint.paths import LifelongPaths
from hocket.zoo.joint.recall import Corridor
from hocket.zoo.joint.skirmish import Skirmish
from hocket.zoo.joint.solo import Solo

WORLDS = [
    Spread(count=3),
    Tag(2, 1, 0),
    SpeakerListener(),
    Flee(),
    LifelongPaths(size=8, count=3),
    Skirmish(),
    Corridor(),
    Partner(),
    BanditWorld(),
    Tracking(),
    NeighbouringPaths(),
    Coalitions(),
    Solo(tasks.find("gym:Pendulum-v1")),
    Solo(tasks.find("gym:FrozenLake-v1")),
]


def moves(world, width, rng):
    return [
        rng.integers(0, seat.actions, width) if seat.discrete else rng.uniform(-1, 1, (width, seat.actions))
        for seat in world.seats
    ]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.name}-{len(world.agents)}")
def test_a_restored_copy_goes_on_as_the_first_did(world):
    width, rng, live = 3, np.random.default_rng(0), np.ones(3, bool)
    course = world.open(width)
    course.reset(range(width), [5, 6, 7])
    course.step(moves(world, width, rng), live)
    held = course.snapshot(0)
    script = [moves(world, width, rng) for _ in range(3)]
    only = np.array([True, False, False])
    first = []
    for actions in script:
        moved = course.step(actions, only)
        first.append((moved.rewards[0].copy(), [seen[0].copy() for seen in course.seen()]))
    for slot in (0, 2):
        others = [seen[1].copy() for seen in course.seen()]
        course.restore(slot, held)
        for seen, other in zip(course.seen(), others, strict=True):
            np.testing.assert_array_equal(seen[1], other)
        for actions, (paid, sights) in zip(script, first, strict=True):
            given = [np.repeat(part[:1], width, 0) for part in actions]
            moved = course.step(given, np.arange(width) == slot)
            np.testing.assert_array_equal(moved.rewards[slot], paid)
            for seen, sight in zip(course.seen(), sights, strict=True):
                np.testing.assert_array_equal(seen[slot], sight)
    course.close()


class Stubborn:
    """An environment that cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("no copies")


def test_a_world_that_cannot_be_copied_is_named():
    environment = tasks.find("gym:CartPole-v1").make()
    environment.world.unwrapped.part = Stubborn()
    with pytest.raises(ConfigurationError, match="cannot be restored, because it cannot be copied"):
        environment.snapshot()
