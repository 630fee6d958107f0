"""The best cover of tasks by robots that know all beforehand, by enumeration of who does what in which order."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def best_cover(robots: Ints, tasks: Ints, levels: Ints, release: Ints, length: int) -> float:
    """The largest share of worth, the squared levels, that can be done in `length` steps.

    A plan is an order of tasks with a coalition for each. A task is done when it is there and the last of its coalition
    has come from its task before. Steps may go aslant, and to push takes one where a robot is there already.

    Args:
        robots, tasks: their cells, `[n, 2]` and `[K, 2]`. levels: how many robots each needs, `[K]`. release: the steps
            before which tasks are not there, `[K]`.
    """
    worths: list[int] = (levels**2).tolist()
    from_start = np.maximum(np.abs(robots[:, None] - tasks).max(-1), 1).tolist()
    between = np.maximum(np.abs(tasks[:, None] - tasks).max(-1), 1).tolist()
    wanted, every, best = levels.tolist(), sum(worths), 0
    coalitions = {level: list(itertools.combinations(range(len(robots)), level)) for level in set(wanted)}

    def visit(free: tuple[int, ...], at: tuple[int, ...], left: frozenset[int], covered: int) -> None:
        nonlocal best
        best = max(best, covered)
        if covered + sum(worths[task] for task in left) <= best:
            return
        for task in sorted(left, key=worths.__getitem__, reverse=True):
            come = [
                free[robot] + (from_start[robot][task] if at[robot] < 0 else between[at[robot]][task])
                for robot in range(len(free))
            ]
            for coalition in coalitions.get(wanted[task], []):
                done = max(*(come[robot] for robot in coalition), int(release[task]) + 1)
                if done > length:
                    continue
                after, there = list(free), list(at)
                for robot in coalition:
                    after[robot], there[robot] = done, task
                visit(tuple(after), tuple(there), left - {task}, covered + worths[task])

    visit((0,) * len(robots), (-1,) * len(robots), frozenset(range(len(tasks))), 0)
    return float(best / every)
