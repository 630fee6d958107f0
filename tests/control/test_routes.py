"""Routes: every solution passes the checker, nothing beats an oracle, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.route_players import costs, nearest
from hocket.zoo.joint.route_oracles import best_cost, checked_cost, one_tree_bound
from hocket.zoo.joint.routes import Routes

SMALL = [Routes("tsp", 6), Routes("cvrp", 5, capacity=15), Routes("minmax", 5, 2), Routes("profiles", 4, 2)]
LARGER = [Routes("tsp", 8), Routes("cvrp", 7), Routes("cvrp", 7, 3), Routes("minmax", 7, 3), Routes("profiles", 7, 3)]


def _any_choice(seed):
    draw = Key.of(seed).numpy()

    def choose(fleet, allowed):
        vehicles = fleet.world.vehicles
        mask = allowed.reshape(len(allowed), vehicles, -1)
        rows = (draw.random(mask.shape) * mask).argmax(-1)
        if vehicles == 1:
            return rows[:, 0]
        return np.concatenate([rows, draw.permuted(np.tile(np.arange(vehicles), (len(rows), 1)), axis=1)], 1)

    return choose


@pytest.mark.parametrize("world", LARGER, ids=lambda world: f"{world.name} {world.vehicles}")
def test_whatever_is_chosen_is_a_solution_and_none_beats_the_oracle(world):
    found, _ = costs(world, _any_choice(1), range(8))
    best = np.array([-world.oracle(seed).value for seed in range(8)])
    assert (found >= best - 1e-9).all()
    assert (costs(world, nearest, range(8))[0] >= best - 1e-9).all()


def test_what_is_paid_is_minus_the_checked_cost():
    for world in LARGER:
        fleet, live, paid, choose = world.open(8), np.ones(8, bool), np.zeros(8), _any_choice(2)
        fleet.reset(range(8), range(8))
        while live.any():
            moved = fleet.step([choose(fleet, fleet.allowed()[0])], live)
            paid, live = paid + moved.rewards[:, 0] * live, live & ~moved.terminated[:, 0]
        checked = [checked_cost(world.instance(seed), fleet.routes(seed)) for seed in range(8)]
        assert paid == pytest.approx(-np.array(checked))


def _brute_force(world, seed):
    """The best cost over all orders, all cuts of them into trips, and all vehicles of each trip."""
    one, best = world.instance(seed), math.inf
    customers = range(1, world.rows)
    trips = 1 if world.kind in ("tsp", "minmax") else len(customers)
    for order in itertools.permutations(customers):
        for cuts in itertools.product((False, True), repeat=len(order) - 1):
            pieces, piece = [], [order[0]]
            for cut, place in zip(cuts, order[1:], strict=True):
                if cut:
                    pieces.append(piece)
                    piece = []
                piece.append(place)
            pieces.append(piece)
            if len(pieces) > trips * world.vehicles:
                continue
            for owners in itertools.product(range(world.vehicles), repeat=len(pieces)):
                if list(owners) != sorted(owners):
                    continue
                routes = [[] for _ in range(world.vehicles)]
                for owner, places in zip(owners, pieces, strict=True):
                    routes[owner] += [*([0] if routes[owner] else []), *places]
                try:
                    best = min(best, checked_cost(one, routes))
                except ConfigurationError:
                    continue
    return best


@pytest.mark.parametrize("world", SMALL, ids=lambda world: world.name)
def test_the_oracle_is_what_counting_all_routes_finds(world):
    assert -world.oracle(3).value == pytest.approx(_brute_force(world, 3))


def test_the_bound_of_longer_tours_is_one():
    for seed in range(5):
        instance = Routes("tsp", 10).instance(seed)
        best = best_cost(instance, 1)
        assert 0.97 * best < one_tree_bound(instance) <= best + 1e-9
    assert not Routes("tsp", 20).oracle(1).exact
    assert Routes("cvrp", 20).oracle(1) is None


def _step(world, rows, ranks):
    fleet = world.open(1)
    fleet.reset([0], [1])
    fleet.step([np.array([[*rows, *ranks]])], np.ones(1, bool))
    return fleet


def test_of_several_that_choose_one_customer_the_surest_goes():
    assert _step(Routes("minmax", 6, 3), (4, 4, 2), (2, 0, 1)).at.tolist() == [[0, 4, 2]]
    assert _step(Routes("minmax", 6, 3, priorities=False), (4, 4, 2), (2, 0, 1)).at.tolist() == [[4, 0, 2]]


def test_who_is_not_needed_may_retire_and_one_goes_on():
    fleet = _step(Routes("minmax", 6, 3), (0, 0, 0), (0, 1, 2))
    assert fleet.out.tolist() == [[True, False, False]]
    mask = fleet.allowed()[0].reshape(3, -1)
    assert mask[0].tolist() == [False, *[True] * 6]  # Nobody else would serve them.
    assert mask[1:].sum(1).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("routes", "problem"),
    [
        ([[1, 2], [3]], "not every customer once"),
        ([[1, 2, 3, 4], [4, 5, 6]], "not every customer once"),
        ([[1, 2, 3, 4, 5, 6], []], "carries"),
        ([[], [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]], "may not serve"),
    ],
)
def test_the_checker_refuses_what_is_no_solution(routes, problem):
    world = Routes("profiles", 6, 2, capacity=9)
    instance = next(one for seed in range(99) if (one := world.instance(seed)).closed.any())
    with pytest.raises(ConfigurationError, match=problem):
        checked_cost(instance, routes)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("routes:cvrp?capacity=5", "a capacity of 5 is below the largest demand, 9"),
        ("routes:tsp?places=2", "needs 3 places"),
        ("routes:tps", "did you mean 'tsp'"),
        ("routes:tsp?vehicles=2", "vehicles"),
    ],
)
def test_what_cannot_be_is_refused(name, problem):
    with pytest.raises(ConfigurationError, match=problem):
        tasks.find(name)
