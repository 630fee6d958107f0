"""The best routes of few places, bounds of longer tours, and a checker: code that shares nothing with the world's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError

Array = NDArray[np.float64]

EXACT = 10
"""Customers up to which `best_cost` counts all subsets."""


class RouteProblem(Protocol):
    """What routes must do: see `Instance` of `hocket.zoo.joint.routes`."""

    @property
    def places(self) -> Array: ...

    @property
    def demands(self) -> Array: ...

    @property
    def wishes(self) -> Array: ...

    @property
    def closed(self) -> NDArray[np.bool_]: ...

    @property
    def capacity(self) -> float: ...

    @property
    def longest(self) -> bool: ...


def tour_costs(places: Array) -> Array:
    """The length of the shortest tour from place 0 through each subset of the n others, `[2^n]` (Held and Karp)."""
    count = len(places) - 1
    gaps = np.hypot(*np.moveaxis(places[:, None] - places, -1, 0))
    apart, home = gaps[1:, 1:], gaps[0, 1:]
    sets = np.arange(1 << count)
    ending = np.full((1 << count, count), math.inf)
    for last in range(count):
        ending[1 << last, last] = home[last]
    sizes = np.array([bin(subset).count("1") for subset in sets])
    for size in range(2, count + 1):
        for last in range(count):
            chosen = sets[(sizes == size) & (sets >> last & 1 == 1)]
            ending[chosen, last] = (ending[chosen ^ (1 << last)] + apart[last]).min(1)
    total = (ending + home).min(1)
    total[0] = 0.0
    return np.asarray(total, np.float64)


def best_cost(problem: RouteProblem, trips: int) -> float:
    """The least cost of any routes, of which a vehicle makes at most so many from the depot and back.

    Raises:
        ConfigurationError: for more than `EXACT` customers.
    """
    count, vehicles = len(problem.places) - 1, len(problem.wishes)
    if count > EXACT:
        raise ConfigurationError(f"{count} customers are too many to count all routes; take at most {EXACT}")
    sets = np.arange(1 << count)
    members = (sets[:, None] >> np.arange(count) & 1).astype(np.float64)
    trip = np.where(members @ problem.demands[1:] <= problem.capacity + 1e-9, tour_costs(problem.places), math.inf)
    several = trip
    if trips > 1 and math.isinf(trip[-1]):
        several = trip.copy()
        for union in sets[1:]:
            parts = _subsets(int(union))
            parts = parts[parts & (union & -union) > 0]  # The trip that serves the first of them.
            several[union] = np.minimum(trip[union], (trip[parts] + several[union ^ parts]).min())
    best = np.full(len(sets), math.inf)
    best[0] = 0.0
    for vehicle in range(vehicles):
        mine = several - members @ problem.wishes[vehicle, 1:]
        mine = np.where(members @ problem.closed[vehicle, 1:] > 0, math.inf, mine)
        joined = np.full(len(sets), math.inf)
        for union in sets:
            parts = _subsets(int(union))
            pairs = mine[parts], best[union ^ parts]
            joined[union] = (np.maximum(*pairs) if problem.longest else np.add(*pairs)).min()
        best = joined
    return float(best[-1])


def _subsets(bits: int) -> NDArray[np.int64]:
    """All subsets of a set of bits, itself and none among them."""
    subsets = np.zeros(1, np.int64)
    for bit in range(bits.bit_length()):
        if bits >> bit & 1:
            subsets = np.concatenate([subsets, subsets | 1 << bit])
    return subsets


def one_tree_bound(problem: RouteProblem, rounds: int = 100) -> float:
    """A lower bound of a tour's length by 1-trees, whose penalties are raised by subgradients (Held and Karp 1970)."""
    places = problem.places
    gaps = np.sqrt(((places[:, None] - places) ** 2).sum(-1))
    penalty, best, size = np.zeros(len(places)), 0.0, 0.1
    for _ in range(rounds):
        length, degree = _one_tree(gaps + penalty[:, None] + penalty)
        best = max(best, length - 2 * float(penalty.sum()))
        penalty += size * (degree - 2)
        size *= 0.95
    return best


def _one_tree(weights: Array) -> tuple[float, NDArray[np.int64]]:
    """The least tree over all places but the first, and its two least edges: the weight, and edges at each place."""
    count, total = len(weights), 0.0
    degree = np.zeros(count, np.int64)
    near, parent = weights[1].copy(), np.ones(count, np.int64)
    near[:2] = math.inf
    for _ in range(count - 2):
        place = int(near.argmin())
        total += float(near[place])
        degree[[place, parent[place]]] += 1
        near[place] = math.inf
        closer = (weights[place] < near) & np.isfinite(near)
        near, parent = np.where(closer, weights[place], near), np.where(closer, place, parent)
    two = np.argsort(weights[0, 1:])[:2] + 1
    degree[two] += 1
    degree[0] = 2
    return total + float(weights[0, two].sum()), degree


def checked_cost(problem: RouteProblem, routes: Sequence[Sequence[int]]) -> float:
    """The cost of routes, one a vehicle, in which 0 is a visit of the depot.

    Raises:
        ConfigurationError: for a customer that is not served once, a load that is too large, or a closed customer.
    """
    served = sorted(place for route in routes for place in route if place)
    if served != list(range(1, len(problem.places))):
        raise ConfigurationError(f"the routes serve {served}, not every customer once")
    lengths, earned = [], 0.0
    for vehicle, route in enumerate(routes):
        load, length, last = 0.0, 0.0, 0
        for place in [*route, 0]:
            load = load + float(problem.demands[place]) if place else 0.0
            if load > problem.capacity:
                raise ConfigurationError(f"vehicle {vehicle} carries {load:g} of {problem.capacity:g} to {place}")
            if problem.closed[vehicle, place]:
                raise ConfigurationError(f"vehicle {vehicle} may not serve customer {place}")
            length += math.dist(problem.places[last], problem.places[place])
            earned += float(problem.wishes[vehicle, place])
            last = place
        lengths.append(length)
    return (max(lengths) if problem.longest else sum(lengths)) - earned
