"""OSPO: a fleet is its own baseline, one step at a time (One Step is Enough, arXiv:2507.15351).

Vehicles that are alike share one policy and choose among orders at the same time. Each is credited with what it earns
in that one step, against the fleet's mean and deviation,

    A_i = (r_i - mean_j r_j) / (std_j r_j + eps),

in the clipped loss of PPO: no critic, no later rewards. With `discount` above 0 the discounted return of a vehicle
takes the place of its reward, which is the paper's GRPO. Later rewards may be left out where what follows does not
depend on which vehicle serves which rider. So it is where each has an order: vehicles are alike, and it does not matter
which of them stands where a trip ends. Where some stay idle, where they stay matters, and one step is not enough. The
claims show both.

The world `fleet` is a grid city of our own with drawn orders; the paper's is Manhattan's record of taxi trips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, Occurrences
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import suffix_sum
from hocket.core.signals import rewards_by_occurrence
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.credit.formulas import centred, scaled
from hocket.credit.sequential_agents import simultaneous
from hocket.methods.marl.ippo import IPPO
from hocket.objectives.entropy import EntropyBonus
from hocket.stages import Correction, Credit
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task


@dataclass(frozen=True)
class StepReward(Credit):
    """A decision's credit is what it earned, and with a `discount` above 0 what its agent earns later, discounted.

    Attributes:
        discount: in [0, 1).
    """

    discount: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must be in [0, 1), not {self.discount}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        occurrences = batch.occurrences
        earned = rewards_by_occurrence(batch)
        worth = suffix_sum(earned, occurrences.trajectory, batch.trajectories, discount=self.discount)
        return replace(occurrences, advantage=worth)


@dataclass(frozen=True)
class FleetRelative(Correction):
    """Credit against that of the agents that acted at the same time: `(c_i - mean_j c_j) / (std_j c_j + epsilon)`.

    Decisions of weight 0 enter no statistic and get 0, as does a moment in which all have the same.

    Attributes:
        epsilon: added to the deviation, whose sum of squares is divided by the number of agents.
    """

    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be at least 0, not {self.epsilon}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with these advantages, `[E]` float64."""
        occurrences, moment, size = batch.occurrences, *simultaneous(batch)
        used = occurrences.weight != 0
        middle = centred(occurrences.advantage.double()[used], moment[used], size)
        advantage = torch.zeros(len(used), dtype=torch.float64)
        advantage[used] = scaled(middle, middle, moment[used], size, ddof=0, epsilon=self.epsilon)
        return batch.credited(advantage=advantage)


@dataclass(frozen=True)
class Fleet:
    """`count` vehicles on a grid of `side` by `side` cells, `length` moments of `orders` new orders each.

    A vehicle chooses an order or waits. Of those that choose one order the nearest serves it, of equally near ones the
    first; it earns 1 less the share of the largest distance that it drives to the rider, and stands where the trip ends
    in the next moment. All others earn nothing and stay. Orders that nobody serves are lost. With `scattered` all
    vehicles are put anywhere after each moment, whatever they did.

    What is seen: where a vehicle stands, the share of the time that is over, and of each order how far it is along both
    axes, the distance, the length of the trip, and the share of the fleet that is nearer.
    """

    count: int = 6
    orders: int = 4
    side: int = 6
    length: int = 8
    scattered: bool = False

    def __post_init__(self) -> None:
        if min(self.count, self.orders, self.side) < 2 or self.length < 1:
            raise ConfigurationError(
                f"task fleet needs at least 2 vehicles, 2 orders, 2 by 2 cells and 1 moment, not {self.count}, "
                f"{self.orders}, {self.side} and {self.length}"
            )

    @property
    def name(self) -> str:
        return "fleet"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"vehicle_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3 + 5 * self.orders, self.orders + 1),) * self.count

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> Trips:
        return Trips(self, width)


class Trips(JointEnvironment):
    """Fleets in as many copies.

    Attributes:
        places: where vehicles stand, `[B, N, 2]`. riders, goals: of the orders of all moments, `[B, T + 1, K, 2]`.
            spots: where vehicles are put after a moment in a scattered world, `[B, T, N, 2]`.
    """

    def __init__(self, world: Fleet, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.places = np.zeros((width, world.count, 2), np.int64)
        self.riders = np.zeros((width, world.length + 1, world.orders, 2), np.int64)
        self.goals = np.zeros_like(self.riders)
        self.spots = np.zeros((width, world.length, world.count, 2), np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            draw = Key.of(seed).derive("fleet").numpy()
            for part in (self.places, self.riders, self.goals, self.spots):
                part[slot] = draw.integers(0, self.world.side, part.shape[1:])
            self.time[slot] = 0
        return {}

    def _orders(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Riders and goals of the moment, `[B, K, 2]`."""
        rows = np.arange(len(self.time))
        return self.riders[rows, self.time], self.goals[rows, self.time]

    def distances(self) -> NDArray[np.int64]:
        """From every vehicle to every rider, `[B, N, K]`."""
        riders, _ = self._orders()
        apart_by: NDArray[np.int64] = np.abs(self.places[:, :, None] - riders[:, None]).sum(-1)
        return apart_by

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world, distance = self.world, self.distances()
        chosen = np.stack([np.asarray(action, np.int64) for action in actions], 1)
        wanted = chosen[:, :, None] == np.arange(world.orders)
        # The nearest of those that chose an order, of equally near ones the first.
        rank = np.where(wanted, distance * world.count + np.arange(world.count)[:, None], np.iinfo(np.int64).max)
        serves = wanted & (rank == rank.min(1, keepdims=True))
        paid = (serves * (1 - distance / (2 * (world.side - 1)))).sum(-1)
        _, goals = self._orders()
        ends = (serves[..., None] * goals[:, None]).sum(2)
        moved = np.where(serves.any(-1)[..., None], ends, self.places)
        if world.scattered:
            moved = self.spots[np.arange(len(live)), np.minimum(self.time, world.length - 1)]
        self.places = np.where(live[:, None, None], moved, self.places)
        self.time = self.time + live
        over = np.repeat((self.time >= world.length)[:, None], world.count, 1)
        return Moved(paid.astype(np.float64), over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        world, distance, (riders, goals) = self.world, self.distances(), self._orders()
        apart_by = (riders[:, None] - self.places[:, :, None]) / world.side
        trip = np.broadcast_to(np.abs(goals - riders).sum(-1)[:, None], distance.shape)
        nearer = (distance[:, :, None] > distance[:, None]).mean(2)
        far = 2 * (world.side - 1)
        rows = np.concatenate([apart_by, np.stack([distance / far, trip / far, nearer], -1)], -1)
        time = np.broadcast_to((self.time / world.length)[:, None, None], (*distance.shape[:2], 1))
        observed = np.concatenate([self.places / world.side, time, rows.reshape(*distance.shape[:2], -1)], -1)
        return list(observed.astype(np.float32).transpose(1, 0, 2))


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 1,
    "steps": 40,
    "credit.gamma": 0.97,
    "update.lr": 3e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _fleet(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"agents": int, "orders": int, "side": int, "length": int, "scattered": bool}
    return native_task(name, settings, hints, Fleet, _SUGGESTED, identified=False, team=True)


FLEET = TaskForm(
    name="fleet",
    description="vehicles that choose among orders of riders, e.g. fleet?agents=6&orders=4",
    make=_fleet,
)

OSPO = IPPO.but(
    name="ospo",
    title="One-step policy optimisation of a fleet",
    source="One Step is Enough: Multi-Agent Reinforcement Learning based on One-Step Policy Optimization for Order "
    "Dispatch on Ride-Sharing Platforms, arXiv:2507.15351",
    catalogue_ids=("ospo",),
    axes=("credit", "team"),
    formula="A_it = (r_it - mean_j r_jt)/(std_j r_jt + eps) over vehicles j,  L = -mean min(rho A, clip(rho) A) "
    "- 0.01 mean H",
    conventions={
        **IPPO.conventions,
        "whitening": "by the fleet of a moment: the sum of squares is divided by the number of vehicles, epsilon 1e-6",
        "later rewards": "none; credit.discount above 0 counts them, as in the paper's GRPO",
        "agents": "share one network without an identity",
        "value": "none",
        "world": "a grid city with drawn orders stands in for records of taxi trips",
    },
    task="fleet",
    requires=(Requirement.AGENTS,),
    credit=StepReward(),
    correction=FleetRelative(),
    regularisers=(EntropyBonus(coefficient=0.01),),
)
