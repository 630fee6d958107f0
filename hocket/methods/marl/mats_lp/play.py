"""Lifelong path finding with a search by every agent, beside the policy alone and paths that ignore others.

hocket train --recipe mats-lp --run light
python -m hocket.methods.marl.mats_lp.play --run light --n 20
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.methods.marl.mats_lp.search import Array, Ints, Problems, StepwiseSearch
from hocket.zoo.joint.grids import distances
from hocket.zoo.joint.paths import MOVES, LifelongPaths, PathCourse

Mover = Callable[[PathCourse, np.random.Generator], Ints]
"""The moves `[B, n]` of all agents in all copies."""


def played(world: LifelongPaths, mover: Mover, episodes: int, first: int = 0, key: Key | None = None) -> Array:
    """Goals that an agent reached in each episode, `[episodes]`; episodes are those of evaluation, from `first` on."""
    course, rng = world.open(episodes), (key or Key.of(0)).derive("play").numpy()
    course.reset(range(episodes), [2 * (first + number) + 1 for number in range(episodes)])
    reached = np.zeros(episodes)
    for _ in range(world.length):
        moves = mover(course, rng)
        reached += course.step(list(moves.T), np.ones(episodes, bool)).rewards.sum(1)
    return reached / world.count


def _guided(sights: Array) -> Ints:
    """The first of the steps that lead nearer, of what is seen `[.., O]`."""
    guide = sights[..., -(len(MOVES) - 1) :]
    return np.where(guide.any(-1), 1 + guide.argmax(-1), 0)


def along_paths(course: PathCourse, rng: np.random.Generator) -> Ints:
    """All take a shortest path, and wait where it is blocked."""
    return _guided(np.stack(course.seen(), 1))


@dataclass(frozen=True, eq=False)
class LightPolicy:
    """A trained policy, whose odds and values are read at rows of what is seen.

    Attributes:
        policy: a control policy with a critic, whose actions are moves.
    """

    policy: Any

    def judged(self, rows: NDArray[np.float32]) -> tuple[Array, Array]:
        """The odds of all moves `[R, 5]` and values `[R]`."""
        with torch.inference_mode():
            inputs = self.policy.as_read(torch.from_numpy(rows))
            odds = torch.softmax(self.policy.module.actor(inputs).double(), -1)
            return odds.numpy(), self.policy.module.critic(inputs).double().squeeze(-1).numpy()

    def __call__(self, course: PathCourse, rng: np.random.Generator) -> Ints:
        """Every agent draws by the odds."""
        sights = np.stack(course.seen(), 1)
        odds, _ = self.judged(sights.reshape(-1, sights.shape[-1]))
        return _drawn(odds, rng).reshape(sights.shape[:2])


def _drawn(odds: Array, rng: np.random.Generator) -> Ints:
    """A move of each row."""
    mass = odds.cumsum(-1)
    return (rng.random((len(odds), 1)) * mass[:, -1:] >= mass).sum(-1).clip(max=odds.shape[-1] - 1)  # type: ignore[no-any-return]


@dataclass(eq=False)
class Searchers:
    """Every agent searches a problem of its own, from what it sees.

    Attributes:
        light: the prior and the values. search: the rule. others: the most agents beside itself in a problem.
    """

    light: LightPolicy
    search: StepwiseSearch = field(default_factory=StepwiseSearch)
    others: int = 2
    _before: Ints | None = field(default=None, repr=False)

    def __call__(self, course: PathCourse, rng: np.random.Generator) -> Ints:
        """The moves of all, drawn in proportion to visits at the root."""
        problems, place, goal = self.problems(course)
        visits, _ = self.search(problems, place, self._evaluate(course, problems, goal))
        self._before = course.place.copy()
        return _drawn(visits.astype(np.float64), rng).reshape(course.place.shape[:2])

    def problems(self, course: PathCourse) -> tuple[Problems, Ints, Ints]:
        """Problems of all agents of all copies `[B n]`, with cells and goals `[B n, 1 + others, 2]`."""
        width, count = course.place.shape[:2]
        before = course.place if self._before is None else self._before
        distance = np.abs(course.place[:, :, None] - course.place[:, None]).max(-1).astype(np.float64)
        distance[distance > course.world.sight] = np.inf
        distance[:, np.arange(count), np.arange(count)] = -1.0
        near = np.argsort(distance, -1, kind="stable")[..., : 1 + self.others]
        rows = np.arange(width)[:, None, None]
        present = np.isfinite(np.take_along_axis(distance, near, -1))
        place, last = course.place[rows, near], before[rows, near]
        goal = np.stack([course.goal, course.goal], 2)[:, :, :1]
        ways = np.zeros((width, count, near.shape[-1], *course.free.shape[1:]), np.int64)
        goals = np.concatenate([goal, place[:, :, 1:]], 2)
        for copy, agent, other in np.ndindex(near.shape):
            if other and present[copy, agent, other]:
                cell = guessed(
                    course.free[copy], last[copy, agent, other], place[copy, agent, other], course.world.sight
                )
                goals[copy, agent, other] = cell
            end = goals[copy, agent, other]
            ways[copy, agent, other] = _ways(
                course.free[copy].tobytes(), len(course.free[copy]), int(end[0]), int(end[1])
            )
        flat = width * count
        free = np.repeat(course.free, count, 0)
        problems = Problems(free, ways.reshape(flat, *ways.shape[2:]), present.reshape(flat, -1))
        return problems, place.reshape(flat, -1, 2), goals.reshape(flat, -1, 2)

    def _evaluate(self, course: PathCourse, problems: Problems, goal: Ints) -> Callable[[Ints], tuple[Array, Array]]:
        """The network's odds and values, of agents that see the others of their problem alone."""
        flat, agents = problems.present.shape
        imagined = replace(course.world, count=agents).open(flat)
        imagined.free, imagined.goal, imagined.ways, imagined.present = (
            problems.free,
            goal,
            problems.ways,
            problems.present,
        )
        edge = course.world.sight
        imagined._walls[:, edge:-edge, edge:-edge] = ~problems.free

        def evaluate(place: Ints) -> tuple[Array, Array]:
            imagined.place = place
            sights = np.stack(imagined.seen(), 1)
            odds, values = self.light.judged(sights.reshape(flat * agents, -1))
            return odds.reshape(flat, agents, -1), values.reshape(flat, agents)

        return evaluate


def guessed(free: NDArray[np.bool_], before: Ints, now: Ints, sight: int) -> Ints:
    """Where a straight line along the last move ends, at a wall or after `sight` cells; here, where there was none."""
    step = now - before
    if np.abs(step).sum() != 1:
        return now
    cell = now
    for _ in range(sight):
        there = cell + step
        if not ((there >= 0).all() and (there < len(free)).all() and free[there[0], there[1]]):
            break
        cell = there
    return cell


@lru_cache(maxsize=65536)
def _ways(cells: bytes, size: int, row: int, column: int) -> Ints:
    return distances(np.frombuffer(cells, bool).reshape(size, size), (row, column))


def compared(policy: Any, world: LifelongPaths, episodes: int, search: StepwiseSearch) -> Mapping[str, Array]:
    """Goals of an agent in each episode, by who moves."""
    light = LightPolicy(policy)
    movers: Mapping[str, Mover] = {
        "search": Searchers(light, search),
        "policy": light,
        "paths that ignore others": along_paths,
    }
    return {name: played(world, mover, episodes) for name, mover in movers.items()}


def main() -> None:
    """Plays a run in its task and prints a table."""
    import hocket
    from hocket import tasks

    parser = argparse.ArgumentParser(description="play a run of mats-lp with a search by every agent")
    parser.add_argument("--run", required=True, help="a trained run of mapf:lifelong")
    parser.add_argument("--task", default="mapf:lifelong")
    parser.add_argument("--n", type=int, default=20, help="episodes")
    parser.add_argument("--searches", type=int, default=30, help="leaves of a tree")
    options = parser.parse_args()
    try:
        task = cast(Any, tasks.find(options.task))
        if not isinstance(task.world, LifelongPaths) or not task.world.guide:
            raise ConfigurationError(
                f"task {options.task}: agents search in lifelong path finding with a guide; use mapf:lifelong"
            )
        policy = hocket.Run(options.run).policy
        goals_by_player = compared(policy, task.world, options.n, StepwiseSearch(searches=options.searches))
    except HocketError as error:
        parser.exit(2, f"{error}\n")
    for name, goals in goals_by_player.items():
        spread = 1.96 * goals.std(ddof=1) / len(goals) ** 0.5 if len(goals) > 1 else 0.0
        print(f"{name:26} {goals.mean():6.2f} goals an agent, +- {spread:.2f}")


if __name__ == "__main__":
    main()
