"""Claims about a genetic routing solver that begins with a policy's solutions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.route_players import dispatcher, routes_of
from hocket.methods.applications.claims.cp_rl_jssp import resized
from hocket.methods.applications.earli import (
    Orders,
    children,
    improved,
    policy_orders,
    random_orders,
    shortened,
    split,
    trips,
)
from hocket.zoo.joint.route_oracles import checked_cost
from hocket.zoo.joint.routes import Instance, Routes

claim = Claims("earli", "arXiv:2504.06126, the abstract; the genetic algorithm is of the textbook")


@claim("An order is cut into trips at the least cost: counting all cuts finds the same.", "derived")
def an_order_is_cut_at_the_least_cost() -> Finding:
    world, off = Routes("cvrp", 7, capacity=16), 0.0
    for seed in range(4):
        instance = world.instance(seed)
        orders = random_orders(instance, 5, Key.of(seed))
        least, beginnings = split(instance, orders)
        for row, order in enumerate(orders.tolist()):
            best = np.inf
            for cuts in itertools.product((False, True), repeat=6):
                route = [
                    place
                    for cut, customer in zip((False, *cuts), order, strict=True)
                    for place in ([0] * cut + [customer])
                ]
                pieces = " ".join(map(str, route)).split(" 0 ")
                if all(instance.demands[[int(customer) for customer in piece.split()]].sum() <= 16 for piece in pieces):
                    best = min(best, checked_cost(instance, [route]))
            off = max(off, abs(best - least[row]))
            off = max(off, abs(checked_cost(instance, [trips(orders[row], beginnings[row])]) - best))
    return Finding(off < 1e-9, say(off=off))


@claim("A child serves every customer once, and holds a piece of one parent where it stands.")
def a_child_serves_every_customer_once() -> Finding:
    draw = Key.of(3).numpy()
    instance = Routes("cvrp", 12).instance(0)
    first, second = (random_orders(instance, 400, Key.of(seed)) for seed in (1, 2))
    young = children(first, second, draw)
    complete = bool((np.sort(young, 1) == np.arange(1, 13)).all())
    both = ((young == first).mean(), (young == second).mean())
    alike = children(first, first, draw)
    pieces = np.mean((alike == first).all(1))  # Half of them are the parent, but for a reversal.
    return Finding(
        complete and 0.4 < pieces < 0.7, say(like_one=both[0], like_other=both[1], equal_to_equal_parents=pieces)
    )


@claim(
    "2-opt leaves trips that no reversed piece shortens, of the same customers each and shorter on average; "
    "counting all pieces by hand finds none.",
    "derived",
)
def two_opt_leaves_trips_that_no_reversed_piece_shortens() -> Finding:
    instance, off, costs = Routes("cvrp", 14).instance(1), 0.0, list[tuple[float, float]]()
    orders = random_orders(instance, 12, Key.of(2))
    cost, beginnings = split(instance, orders)
    for old, new, begin, before in zip(orders, shortened(instance, orders, beginnings), beginnings, cost, strict=True):
        trips_ = [_pieces(one, begin) for one in (old, new)]
        if [sorted(trip) for trip in trips_[0]] != [sorted(trip) for trip in trips_[1]]:
            return Finding(False, "a trip has other customers")
        lengths = [sum(_length(instance, trip) for trip in one) for one in trips_]
        costs.append((before - lengths[0], lengths[1] / lengths[0]))
        for trip in trips_[1]:
            for a, b in itertools.combinations(range(len(trip) + 1), 2):
                turned = [*trip[:a], *reversed(trip[a:b]), *trip[b:]]
                off = max(off, _length(instance, trip) - _length(instance, turned))
    apart, left = max(abs(gap) for gap, _ in costs), float(np.mean([share for _, share in costs]))
    return Finding(off < 1e-9 and apart < 1e-9 and left < 0.99, say(still_shorter=off, apart=apart, left=left))


def _pieces(order: Orders, beginnings: Orders) -> list[list[int]]:
    """The trips of an order."""
    route = " ".join(map(str, trips(order, beginnings))).split(" 0 ")
    return [[int(customer) for customer in piece.split()] for piece in route]


def _length(instance: Instance, trip: Sequence[int]) -> float:
    """From the depot through these customers and back."""
    path = instance.places[[0, *trip, 0]]
    return float(np.sqrt(((path[1:] - path[:-1]) ** 2).sum(1)).sum())


@claim("On 8 customers it finds the optimum that counting all routes finds, in every instance, with 2-opt and without.")
def on_eight_customers_it_finds_the_optimum() -> Finding:
    world, gaps = Routes("cvrp", 8), []
    for seed in range(8):
        instance, oracle = world.instance(seed), world.oracle(seed)
        assert oracle is not None
        for local in (False, True):
            first = random_orders(instance, 40, Key.of(seed))
            route, _ = improved(instance, first, Key.of(seed), generations=60, local=local)
            gaps.append(checked_cost(instance, [route]) + oracle.value)
    return Finding(min(gaps) > -1e-9 and max(gaps) < 1e-9, say(largest_gap=max(gaps), least=min(gaps)))


@claim(
    "On 20 customers without 2-opt, with samples of a policy that was trained for 8 steps as seeds, the mean cost is "
    "below that with random seeds at the start and after 20, 50 and 200 generations, by less and less.",
    slow=True,
)
def a_policys_solutions_are_better_seeds() -> Finding:
    task = "routes:cvrp?places=20"
    world, policy, moments = routes_of(task), dispatcher("rloo", task, 0, 8), [0, 20, 50, 200]
    gains = []
    for seed in range(1, 17, 2):
        instance, key = world.instance(seed), Key.of(seed)
        firsts = policy_orders(policy, world, seed, 20, key), random_orders(instance, 20, key)
        seeded, by_chance = (
            improved(instance, first, key, generations=200, local=False)[1][moments] for first in firsts
        )
        gains.append(by_chance - seeded)
    mean = np.mean(gains, 0)
    return Finding(bool((np.diff(mean) < 0).all() and mean[-1] > 0), say(gains=mean.tolist()))


@claim(
    "On 50 customers, with 2-opt in both, at equal processor seconds, those of sampling counted: samples of a policy "
    "that was trained for 8 steps on 20 customers give a lower mean cost than random seeds after .25 and 1 s.",
    slow=True,
    learns=True,
)
def by_time_a_policys_solutions_are_better_seeds() -> Finding:
    begin = dispatcher("rloo", "routes:cvrp?places=20", 0, 8)
    world, policy, gains = routes_of("routes:cvrp?places=50"), resized(begin, "routes:cvrp?places=50"), []
    for seed in range(1, 13, 2):
        instance, key = world.instance(seed), Key.of(seed)
        begun = time.process_time()
        seeds = policy_orders(policy, world, seed, 20, key)
        spent = time.process_time() - begun
        costs = []
        for limit in (0.25, 1.0):
            ours = improved(instance, seeds, key, seconds=limit - spent)[1][-1]
            costs += [improved(instance, seeds[:0], key, seconds=limit)[1][-1], ours]
        gains.append([costs[0] - costs[1], costs[2] - costs[3], spent, *costs])
    first, last, spent, *costs = np.mean(gains, 0).tolist()
    names = ("random in quarter", "seeded in quarter", "random in one", "seeded in one")
    return Finding(first > 0 and last > 0, say(sampling_seconds=spent, **dict(zip(names, costs, strict=True))))
