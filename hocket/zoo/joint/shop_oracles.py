"""The least makespan of a job shop by CP-SAT, and a checker of schedules: code that shares nothing with the world's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hocket.core.errors import ConfigurationError

Table = Sequence[Sequence[float]]


def least_makespan(machines: Table, durations: Table, limit: float = 5.0) -> tuple[float, bool]:
    """The least makespan, and whether it is proven; else a bound that none is below.

    Args:
        limit: seconds of CP-SAT's deterministic time, so that equal calls give equal answers.

    Raises:
        ConfigurationError: without ortools.
    """
    bound, proven, _ = _solved(machines, durations, limit)
    return bound, proven


def solved_starts(machines: Table, durations: Table, limit: float = 5.0) -> list[list[int]]:
    """The start of every operation in the best schedule that CP-SAT finds; arguments and errors as above."""
    return _solved(machines, durations, limit)[2]


def _solved(machines: Table, durations: Table, limit: float) -> tuple[float, bool, list[list[int]]]:
    """The best bound, whether it is reached, and the starts of the best schedule."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ConfigurationError(f"the least makespan is CP-SAT's ({error}): pip install 'hocket[worlds]'") from None
    model, horizon = cp_model.CpModel(), int(sum(map(sum, durations)))
    spans: dict[int, list[object]] = {}
    starts: list[list[Any]] = []
    makespan = model.new_int_var(0, horizon, "makespan")
    for order, times in zip(machines, durations, strict=True):
        before = None
        starts.append([])
        for machine, time in zip(order, times, strict=True):
            start = model.new_int_var(0, horizon, "")
            starts[-1].append(start)
            spans.setdefault(int(machine), []).append(model.new_fixed_size_interval_var(start, int(time), ""))
            if before is not None:
                model.add(start >= before)
            before = start + int(time)
        model.add(makespan >= before)
    for intervals in spans.values():
        model.add_no_overlap(intervals)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time, solver.parameters.num_workers = limit, 1
    proven = solver.solve(model) == cp_model.OPTIMAL
    return float(round(solver.best_objective_bound)), proven, [[solver.value(start) for start in row] for row in starts]


def checked_makespan(machines: Table, durations: Table, starts: Table) -> float:
    """The makespan of a schedule by the start of every operation.

    Raises:
        ConfigurationError: for an operation that begins before the one before it is over, or two at once on a machine.
    """
    uses: dict[int, list[tuple[float, float]]] = {}
    for job, (order, times, begins) in enumerate(zip(machines, durations, starts, strict=True)):
        over = 0.0
        for machine, time, start in zip(order, times, begins, strict=True):
            if start < over:
                raise ConfigurationError(f"job {job} begins on machine {machine} at {start:g}, before {over:g}")
            over = start + time
            uses.setdefault(int(machine), []).append((start, over))
    for machine, turns in uses.items():
        turns.sort()
        for (_, over), (start, _) in itertools.pairwise(turns):
            if start < over:
                raise ConfigurationError(f"machine {machine} begins at {start:g}, before {over:g}")
    return max(end for turns in uses.values() for _, end in turns)
