"""Worlds in which one of the team may be a traitor, and what is refused of them."""

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.bardec_pomdp.betrayal import Betrayal
from hocket.methods.marl.bardec_pomdp.gathering import Gathering
from hocket.methods.marl.bardec_pomdp.traitor import TRAITOR, Betrayed
from hocket.methods.marl.black_box_marl_attacks.foraging import Foraging
from hocket.recipes import find
from hocket.rollout.joint import JointPlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import collect
from hocket.zoo.joint.sequential_world import SequentialWorld


def test_the_traitor_moves_in_the_place_of_one_and_nobody_else_changes():
    plain, world = Gathering(rounds=3), Betrayed(Gathering(rounds=3), 0.7)
    one, other, rng = plain.open(40), world.open(40), np.random.default_rng(0)
    one.reset(range(40), range(40))
    other.reset(range(40), range(40))
    types, live = other.types, np.ones(40, bool)
    assert 0.5 < types.any(1).mean() < 0.9
    assert (types.sum(1) <= 1).all()
    for _round in range(3):
        acting = other.acting()
        assert np.array_equal(acting[:, :3], ~types)
        assert np.array_equal(acting[:, 3], types.any(1))
        moves = [rng.integers(0, 2, 40) for _ in range(4)]
        made = [np.where(types[:, place], moves[3], moves[place]) for place in range(3)]
        mine, theirs = one.step(made, live), other.step(moves, live)
        assert np.array_equal(theirs.rewards[:, :3], mine.rewards)
        assert np.allclose(theirs.rewards[:, 3], -mine.rewards.mean(1))
        for own, seen in zip(one.seen(), other.seen(), strict=False):
            assert np.array_equal(own, seen)
        sight = other.seen()[3]
        for slot in np.flatnonzero(types.any(1)):
            assert np.array_equal(sight[slot, :-3], one.seen()[types[slot].argmax()][slot])
        assert np.array_equal(sight[:, -3:], types)
        assert np.array_equal(other.state(), np.concatenate([one.state(), types], 1))
    assert theirs.terminated.all()


def test_masks_and_turns_are_those_of_the_place():
    world = Betrayed(SequentialWorld(Gathering()), 1.0)
    course = world.open(6)
    course.reset(range(6), range(6))
    acting = course.acting()
    assert np.array_equal(acting.sum(1), np.ones(6))
    assert np.array_equal(acting[:, 3], course.types[:, 0])


def test_who_is_replaced_decides_nothing_and_success_is_the_teams():
    task = tasks.find("dilemma:gathering?traitor=0.5")
    recipe = find("bardec-pomdp")
    parts = build_parts(configure([("recipe", recipe), ("task", "dilemma:gathering?traitor=0.5")], task), task)
    assert isinstance(parts.player, JointPlayer)
    experience, _ = run_async(collect(parts, Key.of(1)))
    kinds = set()
    for one in experience.trajectories:
        agents = [turn.agent for turn in one.turns]
        assert len(agents) == 3
        kinds.add(TRAITOR in agents)
        rewards = np.asarray(one.scores["reward"].value).reshape(3, 2).sum(1)
        members = [earned for earned, agent in zip(rewards, agents, strict=True) if agent != TRAITOR]
        assert task.success(one) == pytest.approx(np.mean(members))
        assert task.describe(one)["betrayed"] == float(TRAITOR in agents)
    assert kinds == {True, False}


def test_the_number_of_members_is_suggested():
    task = tasks.find("forage:5x5-2p-1f?traitor=0.5&length=5")
    assert task.suggest(find("bardec-pomdp"))["regularisers.2.members"] == 2
    assert "regularisers.2.members" not in task.suggest(find("mappo"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dilemma:gathering?traitor=1.5", "no probability"),
        ("dilemma:gathering?agents=1", "two players"),
        ("mpe:tag?traitor=0.5", "who all see"),
        ("forage:5x5-3p-1f?traitor=0.5&messages=3", "who all see"),
        ("mapf:lifelong?traitor=0.5", "traitor"),
    ],
)
def test_what_does_not_fit_is_refused(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_a_world_without_a_traitor_is_refused():
    task = tasks.find("forage:5x5-3p-1f")
    config = configure([("recipe", find("bardec-pomdp")), ("task", "forage:5x5-3p-1f")], task)
    with pytest.raises(ConfigurationError, match="traitor="):
        build_parts(config, task)


def test_two_members_and_another_prior():
    world = Betrayed(Foraging(5, 2, 1), 0.0)
    course = world.open(3)
    course.reset(range(3), range(3))
    assert not course.types.any()
    with pytest.raises(ConfigurationError, match="prior"):
        Betrayal(Gathering().pay, 2, 1.5)
