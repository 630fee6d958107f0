"""Robots on a grid with tasks that need several at once: a robot chooses a cell of the map around it, and walks there.

Moves, sights, intentions and worths are those of the authors' GyMRT2A, but for what `Coalitions` says is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat
from hocket.methods.applications.dynamic_coalition_mrta.best_cover import best_cover
from hocket.methods.applications.dynamic_coalition_mrta.network import TaskMaps
from hocket.zoo.joint.particles import drawn_from

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVELS = 3
"""The most robots that a task needs."""

DECAY = 0.67
"""What the next cell of a path weighs in an intention; the cell after it has the square of this, and so on."""

ROBOTS, TASKS, INTENTIONS, TIME, INSIDE = 0, slice(1, 1 + LEVELS), 1 + LEVELS, 2 + LEVELS, 3 + LEVELS
"""Channels of a map: other robots, open tasks by level, intentions of others, the share of the time that is over, and
whether the cell is inside the arena. The joint state has them without the last, of all robots."""

CHANNELS = 4 + LEVELS


@dataclass(frozen=True)
class Coalitions:
    """`count` robots and `tasks` tasks of levels 1 to 3, or to `count`, both anywhere in `size` by `size` cells.

    A robot names a cell of the square map around it, and takes a step of a shortest way there, also aslant. While it
    sees open tasks it names one of theirs. One that stands beside its task pushes it: a task of level l is done when l
    robots push it in the same step, who enter its cell; fewer wait. It pays everyone l squared over the sum of all
    tasks, so a return is the share of worth that was covered. An episode ends when all is done, or after `length`.

    A robot sees others and tasks within `view` cells along either axis, and hears intentions from robots within
    `reach`: for each the way that is left to what it chose last, `0.67^k` for the k-th cell. With `revise` it chooses
    anew in every step; without, it keeps to a choice until it is beside it.

    Ours are: sizes; tasks appear at steps drawn up to `latest`, and none in the place of one that is done; robots may
    share a cell, and no obstacle is in the way, so the planner's path is known in closed form; the channel of the time.

    Attributes:
        count: robots.

    Raises:
        ConfigurationError: for sizes below 1, and for more tasks than cells.
    """

    count: int = 4
    tasks: int = 4
    size: int = 6
    view: int = 4
    reach: int = 4
    length: int = 16
    latest: int = 8
    revise: bool = True

    def __post_init__(self) -> None:
        if min(self.count, self.tasks, self.view, self.reach, self.length) < 1 or self.size < 2:
            raise ConfigurationError(
                f"task coalitions needs agents, tasks, view, reach and length of at least 1 and a size of at least 2, "
                f"not {self.count}, {self.tasks}, {self.view}, {self.reach}, {self.length} and {self.size}"
            )
        if self.latest < 0:
            raise ConfigurationError(
                f"task coalitions: latest is the last step at which a task appears, at least 0, not {self.latest}"
            )
        if self.tasks > self.size**2:
            raise ConfigurationError(f"task coalitions: {self.tasks} tasks do not fit on {self.size**2} cells")

    @property
    def name(self) -> str:
        return "coalitions"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"robot_{number}" for number in range(self.count))

    @property
    def span(self) -> int:
        """Cells to either side of a robot on its map."""
        return max(self.view, self.reach)

    @property
    def seats(self) -> tuple[Seat, ...]:
        cells = (2 * self.span + 1) ** 2
        return (Seat(CHANNELS * cells, cells, sight_form=TaskMaps(CHANNELS, INTENTIONS)),) * self.count

    @property
    def joint(self) -> int:
        return (CHANNELS - 1) * self.size**2

    def oracle(self, seed: int) -> BestValue | None:
        """The best cover by who knows all tasks from the beginning; None for more than 4 robots or tasks."""
        if max(self.count, self.tasks) > 4:
            return None
        course = CoalitionCourse(self, 1)
        course.reset([0], [seed])
        return BestValue(best_cover(course.place[0], course.cell[0], course.level[0], course.release[0], self.length))

    def open(self, width: int) -> CoalitionCourse:
        return CoalitionCourse(self, width)


class CoalitionCourse(JointEnvironment):
    """Many copies.

    Attributes:
        place, target: where robots are and what they chose last, `[B, n, 2]`. bound: whether they are still on their
            way, `[B, n]`. cell, level, release, left: of tasks, `[B, K, 2]` and `[B, K]`; a task appears at step
            `release`, and is `left` until it is done.
    """

    def __init__(self, world: Coalitions, width: int) -> None:
        self.world = world
        self.place, self.target = np.zeros((2, width, world.count, 2), np.int64)
        self.bound = np.zeros((width, world.count), bool)
        self.cell, self.level = np.zeros((width, world.tasks, 2), np.int64), np.ones((width, world.tasks), np.int64)
        self.release = np.zeros((width, world.tasks), np.int64)
        self.left, self.time = np.zeros((width, world.tasks), bool), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        world = self.world
        for slot, seed in zip(slots, seeds, strict=True):
            draw = drawn_from(seed)
            self.place[slot] = draw.integers(0, world.size, (world.count, 2))
            cells = draw.choice(world.size**2, world.tasks, replace=False)
            self.cell[slot] = np.stack(np.divmod(cells, world.size), -1)
            self.level[slot] = draw.integers(1, min(LEVELS, world.count) + 1, world.tasks)
            self.release[slot] = draw.integers(0, world.latest + 1, world.tasks)
            self.target[slot] = self.place[slot]
            self.bound[slot], self.left[slot], self.time[slot] = False, True, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world, moving = self.world, live[:, None]
        offset = np.stack(np.divmod(np.stack(actions, 1), 2 * world.span + 1), -1) - world.span
        self.target = np.where(moving[..., None], np.clip(self.place + offset, 0, world.size - 1), self.target)
        way = self.target - self.place
        near = np.abs(way).max(-1) <= 1
        names = (self.target[:, :, None] == self.cell[:, None]).all(-1) & self.present[:, None]
        pushes = names & near[..., None] & moving[..., None]
        done = self.present & (pushes.sum(1) >= self.level)
        waits = (pushes & ~done[:, None]).any(-1)
        self.place = np.where((waits | ~moving)[..., None], self.place, self.place + np.clip(way, -1, 1))
        self.bound = np.where(moving, ~near, self.bound)
        self.left = self.left & ~done
        self.time = self.time + live
        worth = self.level**2
        paid = (worth * done).sum(1) / worth.sum(1)
        over = ~self.left.any(1) | (self.time >= world.length)
        every = (len(live), world.count)
        return Moved(
            np.broadcast_to(paid[:, None], every), np.broadcast_to(over[:, None], every), np.zeros(every, bool)
        )

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which tasks are there and not done, `[B, K]`."""
        return self.left & (self.time[:, None] >= self.release)

    def intentions(self) -> Floats:
        """The way that is left to every robot, `[B, n, S, S]`: `0.67^k` at its k-th cell."""
        size = self.world.size
        maps = np.zeros((*self.place.shape[:2], size, size))
        way = self.target - self.place
        far = np.abs(way).max(-1)
        copies, robots = np.indices(far.shape)
        for step in range(1, int(far.max(initial=0)) + 1):
            on = far >= step
            cells = (self.place + np.clip(way, -step, step))[on]
            maps[copies[on], robots[on], cells[:, 0], cells[:, 1]] = DECAY**step
        return maps

    def _tasks(self) -> Floats:
        """Open tasks by level, `[B, L, S, S]`."""
        maps = np.zeros((len(self.time), LEVELS, self.world.size, self.world.size))
        copies, tasks = np.nonzero(self.present)
        cells = self.cell[copies, tasks]
        maps[copies, self.level[copies, tasks] - 1, cells[:, 0], cells[:, 1]] = 1.0
        return maps

    def _robots(self) -> Floats:
        """Where every robot is, `[B, n, S, S]`."""
        size = self.world.size
        spots = np.eye(size**2)[self.place[..., 0] * size + self.place[..., 1]]
        maps: Floats = spots.reshape(*self.place.shape[:2], size, size)
        return maps

    def _elapsed(self) -> Floats:
        return self.time / self.world.length

    def seen(self) -> list[NDArray[np.float32]]:
        world, span = self.world, self.world.span
        width, count, size = len(self.time), world.count, world.size
        robots = self._robots()
        apart = np.abs(self.place[:, :, None] - self.place[:, None]).max(-1)
        heard = (apart <= world.reach) & ~np.eye(count, dtype=bool)
        maps = np.zeros((width, count, CHANNELS, size, size))
        maps[:, :, ROBOTS] = robots.sum(1, keepdims=True) - robots
        maps[:, :, TASKS] = self._tasks()[:, None]
        maps[:, :, INTENTIONS] = np.einsum("bij,bjrc->birc", heard, self.intentions())
        maps[:, :, TIME] = self._elapsed()[:, None, None, None]
        maps[:, :, INSIDE] = 1.0
        around = np.pad(maps, [(0, 0)] * 3 + [(span, span)] * 2)
        near = np.arange(2 * span + 1)
        rows, columns = (self.place[..., axis, None] + near for axis in (0, 1))
        copies, robots_ = np.indices((width, count))
        local = around[copies[..., None, None], robots_[..., None, None], :, rows[..., None], columns[..., None, :]]
        local = np.moveaxis(local, -1, 2)
        sight = np.abs(near - span) <= world.view
        local[:, :, :INTENTIONS] *= sight[:, None] & sight
        flat = local.reshape(width, count, -1).astype(np.float32)
        return list(flat.transpose(1, 0, 2))

    def allowed(self) -> list[NDArray[np.bool_]]:
        """Cells of visible open tasks; any in the arena where there is none; without revision what it is bound to."""
        world, span = self.world, self.world.span
        wide = 2 * span + 1
        masks = []
        for number, sight in enumerate(self.seen()):
            maps: NDArray[np.bool_] = np.asarray(sight.reshape(len(sight), CHANNELS, wide * wide) > 0)
            tasks: NDArray[np.bool_] = np.logical_or.reduce(maps[:, TASKS], 1)
            mask = np.where(tasks.any(1, keepdims=True), tasks, maps[:, INSIDE])
            if not world.revise:
                way = self.target[:, number] - self.place[:, number] + span
                held = np.eye(wide * wide, dtype=bool)[way[:, 0] * wide + way[:, 1]]
                mask = np.where(self.bound[:, number, None], held, mask)
            masks.append(mask)
        return masks

    def state(self) -> NDArray[np.float32]:
        every = np.concatenate([self._robots().sum(1, keepdims=True), self._tasks()], 1)
        time = np.broadcast_to(self._elapsed()[:, None, None, None], (len(every), 1, *every.shape[2:]))
        state = np.concatenate([every, self.intentions().sum(1, keepdims=True), time], 1)
        return state.reshape(len(state), -1).astype(np.float32)
