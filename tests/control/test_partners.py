"""Partners of a kind that is not told."""

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.zoo.joint.partners import Partner, bayes_optimal, informed_optimal, last_round_optimal

COPIES = 4000


def rounds(world: Partner, moves):
    """Mean return when `moves(seen, kinds)` says what the agent does, over many copies."""
    course = world.open(COPIES)
    course.reset(range(COPIES), list(range(COPIES)))
    paid = 0.0
    for _ in range(world.length):
        moved = course.step([moves(course.seen()[0], course.state().argmax(1))], np.ones(COPIES, bool))
        paid += float(moved.rewards.mean())
    assert moved.terminated.all()
    return paid


def parts(world: Partner, seen):
    """Situation, last situation and the partner's last move."""
    return [seen[:, k * world.kinds : (k + 1) * world.kinds].argmax(1) for k in range(3)]


@pytest.mark.parametrize("world", [Partner(), Partner(kinds=4, slip=0.2, noise=0, length=10)], ids=["3", "4"])
def test_best_returns_are_those_of_playing(world):
    def informed(seen, kinds):
        return (kinds + parts(world, seen)[0]) % world.kinds

    def last(seen, kinds):
        now, before, did = parts(world, seen)
        return (did - before + now) % world.kinds

    fits = np.zeros((COPIES, world.kinds))

    def remembers(seen, kinds):
        now, before, did = parts(world, seen)
        known = seen[:, 2 * world.kinds : 3 * world.kinds].any(1)
        fits[np.flatnonzero(known), ((did - before) % world.kinds)[known]] += 1
        return (fits.argmax(1) + now) % world.kinds

    slack = 4 * world.length**0.5 / COPIES**0.5 * 2
    for moves, best in ((informed, informed_optimal), (last, last_round_optimal), (remembers, bayes_optimal)):
        assert abs(rounds(world, moves) - best(world)) < slack
    chance = world.length / world.kinds
    assert chance < last_round_optimal(world) < bayes_optimal(world) < informed_optimal(world)


def test_a_partner_who_never_slips_is_known_after_a_round_and_one_who_always_does_never():
    assert bayes_optimal(Partner(slip=0.0)) == pytest.approx(1 / 3 + 19)
    for best in (bayes_optimal, informed_optimal, last_round_optimal):
        assert best(Partner(slip=1.0)) == pytest.approx(20 / 3)


def test_an_episode_is_its_seed_whatever_is_played_beside_it_and_whatever_the_agent_does():
    world = Partner(length=5, noise=2)
    wide, alone = world.open(4), world.open(1)
    wide.reset(range(4), [7, 8, 9, 10])
    alone.reset([0], [9])
    for time in range(5):
        assert np.array_equal(wide.seen()[0][2], alone.seen()[0][0])
        wide.step([np.array([0, 1, time % 3, 2])], np.ones(4, bool))
        alone.step([np.array([2])], np.ones(1, bool))


def test_the_kind_is_told_only_where_that_is_asked_for():
    told, untold = tasks.find("recall:partner?told=true").world, tasks.find("recall:partner").world
    assert told.seats[0].observations == untold.seats[0].observations + 3
    course = told.open(50)
    course.reset(range(50), list(range(50)))
    assert np.array_equal(course.seen()[0][:, 10:13], course.state())
    assert set(course.state().argmax(1)) == {0, 1, 2}


def test_bad_partners_are_refused():
    with pytest.raises(ConfigurationError, match="slip in"):
        tasks.find("recall:partner?slip=2")
