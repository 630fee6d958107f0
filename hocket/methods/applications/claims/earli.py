"""Claims about a genetic routing solver that begins with a policy's solutions."""

from __future__ import annotations

import itertools

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.route_players import dispatcher, routes_of
from hocket.methods.applications.earli import children, improved, policy_orders, random_orders, split, trips
from hocket.zoo.joint.route_oracles import checked_cost
from hocket.zoo.joint.routes import Routes

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


@claim("On 8 customers it finds the optimum that counting all routes finds, in every instance.")
def on_eight_customers_it_finds_the_optimum() -> Finding:
    world, gaps = Routes("cvrp", 8), []
    for seed in range(8):
        instance, oracle = world.instance(seed), world.oracle(seed)
        route, _ = improved(instance, random_orders(instance, 40, Key.of(seed)), Key.of(seed), generations=60)
        assert oracle is not None
        gaps.append(checked_cost(instance, [route]) + oracle.value)
    return Finding(min(gaps) > -1e-9 and max(gaps) < 1e-9, say(largest_gap=max(gaps), least=min(gaps)))


@claim(
    "On 20 customers, with samples of a policy that was trained for 8 steps as seeds, the mean cost is below that with "
    "random seeds at the start and after 20, 50 and 200 generations, by less and less.",
    slow=True,
)
def a_policys_solutions_are_better_seeds() -> Finding:
    task = "routes:cvrp?places=20"
    world, policy, moments = routes_of(task), dispatcher("rloo", task, 0, 8), [0, 20, 50, 200]
    gains = []
    for seed in range(1, 17, 2):
        instance, key = world.instance(seed), Key.of(seed)
        firsts = policy_orders(policy, world, seed, 20, key), random_orders(instance, 20, key)
        seeded, by_chance = (improved(instance, first, key, generations=200)[1][moments] for first in firsts)
        gains.append(by_chance - seeded)
    mean = np.mean(gains, 0)
    return Finding(bool((np.diff(mean) < 0).all() and mean[-1] > 0), say(gains=mean.tolist()))
