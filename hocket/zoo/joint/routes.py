"""Routes through places in the plane: one tour, deliveries by vehicles of limited load, several vehicles at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat, Slots
from hocket.zoo.joint.route_oracles import EXACT, best_cost, one_tree_bound

Array = NDArray[np.float64]

KINDS = ("tsp", "cvrp", "minmax", "profiles")
LARGEST_DEMAND = 9
USUAL_CAPACITY = ((10, 20), (20, 30), (50, 40), (100, 50))
"""Of Kool et al. (arXiv:1803.08475), by the number of customers; between them it grows evenly."""

FORBIDDEN = 0.2
"""How often a customer is closed to a vehicle with a profile; the first vehicle may serve all."""


@dataclass(frozen=True)
class Instance:
    """Places with the depot first, as the oracles read them too.

    Attributes:
        places: `[R, 2]` in the unit square. demands: whole numbers `[R]`, 0 at the depot. wishes: what each vehicle
            earns at each place, `[V, R]`. closed: where it may not go, `[V, R]` bool. capacity: of a vehicle's load.
        longest: whether the longest route counts, else the sum of all.
    """

    places: Array
    demands: Array
    wishes: Array
    closed: NDArray[np.bool_]
    capacity: float
    longest: bool


@dataclass(frozen=True)
class Routes:
    """Routes that begin and end at a depot and serve every customer once; what is paid is minus their cost.

    The kinds: `tsp`, one tour of `count` places, of which the first is the depot; `cvrp`, `count` customers with
    demands, and vehicles that come back to the depot for a new load; `minmax`, vehicles of any load whose longest route
    counts; `profiles`, a `cvrp` in which a vehicle has customers that it earns more at (up to `bonus` each), and others
    that it may not serve.

    An action is a row for each vehicle that is out: a customer, or the depot. At the depot that is to retire, unless a
    customer needs it. If several choose one customer, the surest goes and the others stay where they are; without
    `priorities` the first goes. When all are served every vehicle comes back.

    What is seen: the share of customers left; of each vehicle its place, load, length so far, if it is out, and its
    number; of each place that is left where it is, its demand, each vehicle's gain there, and its distance from each.

    Attributes:
        capacity: of a vehicle, 0 for the usual one. stretch: all places are this flat, 1 for a square.
    """

    kind: str = "tsp"
    count: int = 20
    vehicles: int = 1
    capacity: int = 0
    priorities: bool = True
    stretch: float = 1.0
    bonus: float = 0.3

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigurationError(f"there are no routes {self.kind!r}; choose from {', '.join(KINDS)}")
        if self.count < 3 or self.vehicles < 1 or not 0 < self.stretch <= 1:
            raise ConfigurationError(
                f"task {self.name} needs 3 places, 1 vehicle and stretch in (0, 1], not {self.count}, {self.vehicles} "
                f"and {self.stretch}"
            )
        if self.loaded and 0 < self.capacity < LARGEST_DEMAND:
            raise ConfigurationError(
                f"task {self.name}: a capacity of {self.capacity} is below the largest demand, {LARGEST_DEMAND}"
            )

    @property
    def name(self) -> str:
        return f"routes:{self.kind}"

    @property
    def loaded(self) -> bool:
        return self.kind in ("cvrp", "profiles")

    @property
    def rows(self) -> int:
        """Places, the depot included."""
        return self.count if self.kind == "tsp" else self.count + 1

    @property
    def agents(self) -> tuple[str, ...]:
        return ("dispatcher",)

    @property
    def slots(self) -> Slots:
        wishes, vehicles = self.kind == "profiles", self.vehicles
        fixed = 3 + wishes * vehicles
        return Slots(1 + 5 * vehicles, self.rows, 1 + fixed + vehicles, fixed, vehicles, 5, int(wishes))

    @property
    def seats(self) -> tuple[Seat, ...]:
        slots = self.slots
        return (Seat(slots.own + slots.count * slots.size, slots.count * self.vehicles, slots=slots),)

    @property
    def joint(self) -> int:
        return 0

    def instance(self, seed: int) -> Instance:
        """The instance of a seed."""
        draw = Key.of(seed).derive("routes").numpy()
        places = draw.random((self.rows, 2)) * (1.0, self.stretch)
        demands = draw.integers(1, LARGEST_DEMAND + 1, self.rows).astype(np.float64)
        wishes, closed = np.zeros((self.vehicles, self.rows)), np.zeros((self.vehicles, self.rows), bool)
        if self.kind == "profiles":
            wishes = self.bonus * draw.random(wishes.shape)
            closed = draw.random(closed.shape) < FORBIDDEN
        demands[0], wishes[:, 0], closed[:, 0], closed[0] = 0, 0, False, False
        usual = float(round(np.interp(self.count, *np.array(USUAL_CAPACITY).T)))
        capacity = (self.capacity or usual) if self.loaded else np.inf
        return Instance(places, demands, wishes, closed, float(capacity), self.kind == "minmax")

    def oracle(self, seed: int) -> BestValue | None:
        """The optimum of up to 10 customers; of one longer tour a bound; of anything else nothing."""
        instance = self.instance(seed)
        if self.rows - 1 <= EXACT:
            return BestValue(-best_cost(instance, self.rows if self.loaded else 1))
        return BestValue(-one_tree_bound(instance), exact=False) if self.kind == "tsp" else None

    def open(self, width: int) -> VehicleRoutes:
        return VehicleRoutes(self, width)


class VehicleRoutes(JointEnvironment):
    """Routes under way in as many copies.

    Attributes:
        open: which customers are to be served, `[B, R]`. at, load, length, out: of vehicles, `[B, V]`: the place, what
            is left of the load, how far it went, and whether it has not retired. stops: places of each route so far,
            `[B, V, S]`, as many as `made`, `[B, V]`.
    """

    def __init__(self, world: Routes, width: int) -> None:
        rows, vehicles = world.rows, world.vehicles
        self.world, self.scale = world, 1.0
        self.places, self.distance = np.zeros((width, rows, 2)), np.zeros((width, rows, rows))
        self.demands, self.open = np.zeros((width, rows)), np.zeros((width, rows), bool)
        self.wishes, self.closed = np.zeros((width, vehicles, rows)), np.zeros((width, vehicles, rows), bool)
        self.at, self.made = (np.zeros((width, vehicles), np.int64) for _ in range(2))
        self.load, self.length, self.earned = (np.zeros((width, vehicles)) for _ in range(3))
        self.out, self.stops = np.zeros((width, vehicles), bool), np.zeros((width, vehicles, 2 * rows), np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            drawn = self.world.instance(seed)
            self.places[slot], self.demands[slot] = drawn.places, drawn.demands
            self.wishes[slot], self.closed[slot], self.load[slot] = drawn.wishes, drawn.closed, drawn.capacity
            self.distance[slot] = np.sqrt(((drawn.places[:, None] - drawn.places) ** 2).sum(-1))
            self.scale = drawn.capacity if self.world.loaded else 1.0
        chosen = list(slots)
        self.open[chosen], self.out[chosen] = True, True
        self.open[chosen, 0] = False
        self.at[chosen], self.length[chosen], self.earned[chosen] = 0, 0.0, 0.0
        self.made[chosen], self.stops[chosen] = 0, 0
        return {}

    def _cost(self) -> Array:
        """`[B]`, of the routes so far."""
        total = self.length.max(1) if self.world.kind == "minmax" else self.length.sum(1)
        return np.asarray(total - self.earned.sum(1), np.float64)

    def routes(self, slot: int) -> list[list[int]]:
        """The places of each vehicle's route in a copy, in order, without the depot at its ends."""
        return [self.stops[slot, vehicle, :count].tolist() for vehicle, count in enumerate(self.made[slot])]

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        width, vehicles = self.at.shape
        acted = actions[0].reshape(width, -1).astype(np.int64)
        target, ranks = acted[:, :vehicles], acted[:, vehicles:]
        before, moves = self._cost(), self.out & live[:, None]
        if vehicles > 1:
            if not ranks.shape[1] or not self.world.priorities:
                ranks = np.broadcast_to(np.arange(vehicles), (width, vehicles))
            rivals = (target[:, :, None] == target[:, None]) & moves[:, None] & (target > 0)[:, :, None]
            moves = moves & ~(rivals & (ranks[:, None] < ranks[:, :, None])).any(2)
            self.out &= ~(moves & (self.at == 0) & (target == 0))
        copy, vehicle = np.nonzero(moves & (target != self.at))
        to = target[copy, vehicle]
        self.length[copy, vehicle] += self.distance[copy, self.at[copy, vehicle], to]
        self.earned[copy, vehicle] += self.wishes[copy, vehicle, to]
        left = self.load[copy, vehicle] - self.demands[copy, to]
        self.load[copy, vehicle] = np.where(to == 0, self.scale, left) if self.world.loaded else np.inf
        self.stops[copy, vehicle, self.made[copy, vehicle]] = to
        self.made[copy, vehicle] += 1
        self.at[copy, vehicle], self.open[copy, to] = to, False
        over: NDArray[np.bool_] = np.logical_not(self.open.any(1))
        if vehicles > 1:
            self._recall(~over)
        back = self.distance[np.arange(width)[:, None], self.at, 0] * (over & live)[:, None]
        self.length += back
        self.at = np.where((over & live)[:, None], 0, self.at)
        return Moved((before - self._cost())[:, None], over[:, None], np.zeros((width, 1), bool))

    def _recall(self, going: NDArray[np.bool_]) -> None:
        """Sends out the first vehicle that may serve a customer that no vehicle on the road may serve."""
        orphans = self.open[:, None] & ~self.closed
        orphans &= ~(self.out[..., None] & orphans).any(1, keepdims=True)
        needed = orphans.any(2)
        first = needed & (needed.cumsum(1) == 1)
        self.out |= first & going[:, None]

    def allowed(self) -> list[NDArray[np.bool_]]:
        width, vehicles = self.at.shape
        served = self.open[:, None] & ~self.closed
        if self.world.loaded:
            served = served & (self.demands[:, None] <= self.load[..., None])
        if vehicles == 1:
            served[:, 0, 0] = (self.at[:, 0] > 0) & (self.world.kind != "tsp")
        else:
            mine = self.open[:, None] & ~self.closed & self.out[..., None]
            needed = (mine & (mine.sum(1, keepdims=True) == 1)).any(2)
            served &= self.out[..., None]
            served[..., 0] = (self.at > 0) | ~needed
        served[..., 0] |= ~served.any(2)
        return [served.reshape(width, -1)]

    def seen(self) -> list[NDArray[np.float32]]:
        (width, vehicles), rows = self.at.shape, self.world.rows
        load = self.load / self.scale if self.world.loaded else np.ones_like(self.load)
        numbers = np.broadcast_to((np.arange(vehicles) + 1) / vehicles, self.at.shape)
        of_vehicles = np.stack([self.at, load, self.length, self.out, numbers], -1).reshape(width, -1)
        there = self.open.copy()
        there[:, 0] = True
        parts = [there[..., None], self.places, (self.demands / self.scale)[..., None]]
        if self.world.kind == "profiles":
            parts.append(np.where(self.closed, -1.0, self.wishes / max(self.world.bonus, 1e-9)).transpose(0, 2, 1))
        parts.append(self.distance[np.arange(width)[:, None], self.at].transpose(0, 2, 1))
        of_rows = np.concatenate(parts, -1).reshape(width, -1)
        return [np.concatenate([self.open.sum(1)[:, None] / rows, of_vehicles, of_rows], 1).astype(np.float32)]
