"""A genetic routing solver that begins with a policy's solutions: EARLI (arXiv:2504.06126).

A policy that was trained by RL on past instances samples K solutions of a new one, and these are the first population
of a genetic algorithm, in place of random ones. The search itself is unchanged; crossover begins with good and diverse
parents, which matters most where time is short.

The solver is one of its own, for pyvrp has had no genetic algorithm since version 0.13: an individual is an order of
all customers, cut into trips at the least cost (Prins 2004); children are by order crossover and a reversed piece, and
their trips are shortened by 2-opt, the local search; the best different ones survive. The paper's solver (HGS) searches
between trips too.

    from hocket.methods.applications.earli import improved, policy_orders, random_orders

The policy is any of routes, such as that of `hocket train --task routes:cvrp --recipe rloo`, so the row is no recipe.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control import ControlPolicy
from hocket.zoo.joint.routes import Instance, Routes

Array = NDArray[np.float64]
Orders = NDArray[np.int64]
"""Orders of all customers, `[K, N]`."""


def split(instance: Instance, orders: Orders) -> tuple[Array, Orders]:
    """The least cost `[K]` of cutting each order into trips, and where the trip that ends before each place begins.

    Returns:
        The costs, and beginnings `[K, N + 1]`: the trip that ends before place j begins at place `beginnings[:, j]`.
    """
    places, demands = instance.places, instance.demands
    apart = np.sqrt(((places[:, None] - places) ** 2).sum(-1))
    rows, (many, count) = np.arange(len(orders))[:, None], orders.shape
    home = apart[0][orders]
    along = np.zeros((many, count))
    along[:, 1:] = apart[orders[:, :-1], orders[:, 1:]].cumsum(1)
    loads = np.concatenate([np.zeros((many, 1)), demands[orders].cumsum(1)], 1)
    best, beginnings = np.full((many, count + 1), np.inf), np.zeros((many, count + 1), np.int64)
    best[:, 0] = 0.0
    longest = int(np.searchsorted(np.sort(demands[1:]).cumsum(), instance.capacity, "right"))
    for begin in range(count):
        end = slice(begin, min(count, begin + longest))
        cost = best[:, [begin]] + home[:, [begin]] + along[:, end] - along[:, [begin]] + home[:, end]
        cost = np.where(loads[:, end.start + 1 : end.stop + 1] - loads[:, [begin]] <= instance.capacity, cost, np.inf)
        after = slice(end.start + 1, end.stop + 1)
        better = cost < best[:, after]
        best[:, after] = np.where(better, cost, best[:, after])
        beginnings[:, after] = np.where(better, begin, beginnings[:, after])
    return best[rows[:, 0], -1], beginnings


def trips(order: Orders, beginnings: Orders) -> list[int]:
    """One order `[N]` as a route, in which 0 is a visit of the depot."""
    pieces, end = list[list[int]](), len(order)
    while end:
        begin = int(beginnings[end])
        pieces.append(order[begin:end].tolist())
        end = begin
    return [place for piece in reversed(pieces) for place in (0, *piece)][1:]


def children(parents: Orders, others: Orders, draw: np.random.Generator) -> Orders:
    """Order crossover: a piece of each parent where it stands, and around it the other's customers in its order.

    In half of the children a piece is then reversed.
    """
    many, count = parents.shape
    cuts = np.sort(draw.integers(0, count + 1, (many, 2)), 1)
    place = np.arange(count)
    inside = (place >= cuts[:, :1]) & (place < cuts[:, 1:])
    held = np.zeros((many, count + 1), bool)
    np.put_along_axis(held, np.where(inside, parents, 0), True, 1)
    held[:, 0] = False
    later = np.argsort(np.take_along_axis(held, others, 1), 1, kind="stable")
    outside = np.argsort(inside, 1, kind="stable")
    made = np.empty_like(parents)
    np.put_along_axis(made, outside, np.take_along_axis(others, later, 1), 1)
    made = np.where(inside, parents, made)
    ends = np.sort(draw.integers(0, count, (many, 2)), 1)
    turned = (place >= ends[:, :1]) & (place <= ends[:, 1:]) & (draw.random((many, 1)) < 0.5)
    return np.asarray(
        np.take_along_axis(made, np.where(turned, ends.sum(1, keepdims=True) - place, place), 1), np.int64
    )


def shortened(instance: Instance, orders: Orders, beginnings: Orders) -> Orders:
    """Orders `[K, N]` whose trips no reversed piece shortens (2-opt); `beginnings` as `split` returns them."""
    places = instance.places
    apart = np.sqrt(((places[:, None] - places) ** 2).sum(-1))
    orders, (many, count) = orders.copy(), orders.shape
    first, last = _ends(beginnings)
    place = np.arange(count)
    one_trip = (first[:, :, None] == first[:, None]) & (place[:, None] < place)
    live = np.arange(many)
    while len(live):
        row = orders[live]
        before, after = np.roll(row, 1, 1), np.roll(row, -1, 1)
        before[place == first[live]], after[place == last[live]] = 0, 0
        present = apart[before, row][:, :, None] + apart[row, after][:, None]
        gain = present - apart[before[:, :, None], row[:, None]] - apart[row[:, :, None], after[:, None]]
        gain = np.where(one_trip[live], gain, 0.0).reshape(len(live), -1)
        best = gain.argmax(1)
        better = np.take_along_axis(gain, best[:, None], 1)[:, 0] > 1e-9
        live, begin, end = live[better], *(part[better][:, None] for part in np.divmod(best, count))
        turned = (place >= begin) & (place <= end)
        orders[live] = np.take_along_axis(orders[live], np.where(turned, begin + end - place, place), 1)
    return orders


def _ends(beginnings: Orders) -> tuple[Orders, Orders]:
    """The places at which the trip of each place begins and ends, `[K, N]` each."""
    many, count = len(beginnings), beginnings.shape[1] - 1
    first, last, rows = np.zeros((many, count), np.int64), np.zeros((many, count), np.int64), np.arange(many)
    begin, end = np.full(many, count), np.full(many, count)
    for place in reversed(range(count)):
        over = place < begin
        end = np.where(over, begin, end)
        begin = np.where(over, beginnings[rows, begin], begin)
        first[:, place], last[:, place] = begin, end - 1
    return first, last


def improved(
    instance: Instance,
    orders: Orders,
    key: Key,
    *,
    generations: int | None = None,
    seconds: float | None = None,
    population: int = 40,
    local: bool = True,
) -> tuple[list[int], Array]:
    """The best route that the genetic algorithm finds, and the best cost after each generation, the first population's
    included.

    Args:
        orders: the first population; random ones fill it up. generations, seconds: when it ends, the latter in
            processor time; one of them is needed. local: whether trips are shortened by 2-opt.

    Raises:
        ConfigurationError: for several vehicles, or without an end.
    """
    if len(instance.wishes) > 1 or (generations is None) == (seconds is None):
        raise ConfigurationError("the genetic algorithm is for one vehicle, and ends after generations or seconds")
    begun, draw = time.process_time(), key.numpy()
    missing = max(0, population - len(orders))
    orders = np.concatenate([orders, random_orders(instance, missing, key.derive("more"))])
    orders, cost = _assessed(instance, orders, local)
    best, number = list[float](), 0
    while True:
        orders, cost = _survivors(orders, cost, population)
        best.append(float(cost[0]))
        if number == generations or (seconds is not None and time.process_time() - begun >= seconds):
            break
        chosen = draw.integers(0, len(orders), (2, 2, population)).min(1)  # Ranks; the better of two.
        young, costs = _assessed(instance, children(orders[chosen[0]], orders[chosen[1]], draw), local)
        orders, cost = np.concatenate([orders, young]), np.concatenate([cost, costs])
        number += 1
    return trips(orders[0], split(instance, orders[:1])[1][0]), np.array(best)


def _assessed(instance: Instance, orders: Orders, local: bool) -> tuple[Orders, Array]:
    """Orders after the local search, if there is one, and their costs."""
    cost, beginnings = split(instance, orders)
    if local:
        orders = shortened(instance, orders, beginnings)
        cost, _ = split(instance, orders)
    return orders, cost


def _survivors(orders: Orders, cost: Array, count: int) -> tuple[Orders, Array]:
    """The best `count`, one of each cost."""
    _, first = np.unique(cost.round(9), return_index=True)
    return orders[first[:count]], cost[first[:count]]


def random_orders(instance: Instance, count: int, key: Key) -> Orders:
    """Orders `[count, N]`, drawn evenly."""
    customers = np.arange(1, len(instance.places))
    return key.numpy().permuted(np.tile(customers, (count, 1)), axis=1)


def policy_orders(policy: ControlPolicy, world: Routes, seed: int, count: int, key: Key) -> Orders:
    """Orders `[count, N]` of solutions that a policy samples for an instance."""
    fleet, live = world.open(count), np.ones(count, bool)
    fleet.reset(range(count), [seed] * count)
    carried, draw = np.zeros((count, policy.carries), np.float32), key.numpy()
    while live.any():
        uniforms = np.clip(draw.random((count, policy.draws)), 1e-12, 1 - 1e-12)
        seen, (mask,) = fleet.seen()[0], fleet.allowed()
        action, _ = policy.sample(seen, uniforms, np.ones(count, np.float32), mask, carried)
        live = live & ~fleet.step([action], live).terminated[:, 0]
    return as_orders([fleet.routes(slot)[0] for slot in range(count)])


def as_orders(routes: Sequence[Sequence[int]]) -> Orders:
    """Routes without their visits of the depot."""
    return np.array([[place for place in route if place] for route in routes], np.int64)


EARLI = Analysis(
    name="earli",
    title="Accelerating Vehicle Routing via AI-Initialized Genetic Algorithms",
    where="docs/applications.md",
    kind="application",
)
