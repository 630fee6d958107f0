"""Path finding by action values and what is added to them, alone and as an ensemble.

hocket train --recipe eph-mapf --run values
python -m hocket.methods.marl.eph_mapf.play --run values
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, HocketError
from hocket.methods.marl.eph_mapf.additions import PAST, Additions, Moment, moves
from hocket.methods.marl.eph_mapf.neighbours import NeighbouringCourse, NeighbouringPaths

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

PLAYERS: Mapping[str, Additions] = {
    "values alone": Additions(priorities=False),
    "priorities": Additions(),
    "paths around all": Additions(around="all"),
    "paths around arrived": Additions(around="arrived"),
    "escapes": Additions(escape="all"),
    "paths and escapes, all": Additions(around="all", escape="all"),
    "paths and escapes, arrived": Additions(around="arrived", escape="arrived"),
    "paths and escapes, nobody": Additions(around="nobody", escape="nobody"),
}
"""The players that are compared, which are the members of the ensemble; all but the first have priorities."""


@dataclass(frozen=True, eq=False)
class Solutions:
    """Of every episode whether it was solved `[N]` and in how many steps `[N]`; the limit where it was not."""

    solved: NDArray[np.bool_]
    steps: Ints


def action_values(policy: Any, course: NeighbouringCourse) -> Array:
    """Of all agents of all copies, `[B, n, 5]`."""
    sights = np.stack(course.seen(), 1)
    with torch.inference_mode():
        rows = policy.as_read(torch.from_numpy(sights.reshape(-1, sights.shape[-1])))
        values = policy.action_form.values(policy.module.actor(rows)).double().numpy()
    return cast(Array, values.reshape(*sights.shape[:2], -1))


def played(policy: Any, world: NeighbouringPaths, rules: Additions, episodes: int) -> Solutions:
    """The first episodes of evaluation."""
    course = world.open(episodes)
    course.reset(range(episodes), [2 * number + 1 for number in range(episodes)])
    live: NDArray[np.bool_] = np.ones(episodes, bool)
    steps = np.full(episodes, world.length)
    past: list[Ints] = []
    for time in range(world.length):
        values, named = action_values(policy, course), np.zeros((episodes, world.count), np.int64)
        for copy in np.flatnonzero(live):
            held = np.array([places[copy] for places in past]).reshape(-1, world.count, 2)
            moment = Moment(course.free[copy], course.place[copy], course.goal[copy], held)
            named[copy] = moves(moment, values[copy], rules)
        moved = course.step(list(named.T), live)
        past = [course.place.copy(), *past[: PAST - 1]]
        over = live & moved.terminated[:, 0]
        steps[over] = time + 1
        live &= ~over
        if not live.any():
            break
    return Solutions(~live, steps)


def best_of(members: Sequence[Solutions]) -> Solutions:
    """In every episode the solution with the fewest steps."""
    solved = np.array([member.solved for member in members])
    return Solutions(np.asarray(solved.any(0)), np.array([member.steps for member in members]).min(0))


def compared(policy: Any, world: NeighbouringPaths, episodes: int) -> dict[str, Solutions]:
    """The solutions of all players, and of their ensemble."""
    by_player = {name: played(policy, world, rules, episodes) for name, rules in PLAYERS.items()}
    return {**by_player, "ensemble": best_of(list(by_player.values()))}


def main() -> None:
    """Plays a run in its task and prints a table."""
    import hocket
    from hocket import tasks

    parser = argparse.ArgumentParser(description="play a run of eph-mapf with what is added to its values")
    parser.add_argument("--run", required=True, help="a trained run of mapf:neighbours")
    parser.add_argument("--task", default="mapf:neighbours?size=8&agents=8&length=40&settled=false")
    parser.add_argument("--n", type=int, default=60, help="episodes")
    options = parser.parse_args()
    try:
        task = cast(Any, tasks.find(options.task))
        if not isinstance(task.world, NeighbouringPaths):
            raise ConfigurationError(f"task {options.task}: its agents do not show what they see; use mapf:neighbours")
        policy: Any = hocket.Run(options.run).policy
        if not hasattr(policy.action_form, "values"):
            raise ConfigurationError(f"run {options.run} has no action values; train eph-mapf on mapf:neighbours")
        by_player = compared(policy, task.world, options.n)
    except HocketError as error:
        parser.exit(2, f"{error}\n")
    for name, result in by_player.items():
        share = result.solved.mean()
        spread = 1.96 * (share * (1 - share) / options.n) ** 0.5
        print(f"{name:28} {share:.3f} solved, +- {spread:.3f}, {result.steps.mean():.1f} steps")


if __name__ == "__main__":
    main()
