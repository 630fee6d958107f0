"""POGEMA: path finding of many agents on grids, and one protocol for learners and planners (arXiv:2407.14931).

A benchmark, so no recipe. The worlds are `mapf:lifelong` and `mapf:once` (`hocket.zoo.joint`), or those
of the package itself (`pogema:lifelong`, `pogema:once`, `pogema:together`); the primary indicators of an episode are in
`hocket.zoo.joint.walks`, and `hocket eval` shows them. Here is what the protocol makes of them over a
set of instances. The formulas are the paper's, section 4.2, but for path finding, which is printed there upside down:
it is 1 for the best cost, as in the released evaluation. Performance, Out-of-Distribution and Cooperation are one
formula on different sets of maps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean

from hocket.core.analyses import Analysis

POGEMA = Analysis(
    name="pogema",
    title="Path finding of many agents, and how methods are measured in it",
    where="docs/control.md",
    kind="benchmark",
)


def performance(costs: Mapping[str, Sequence[float | None]]) -> dict[str, float]:
    """Of each method the mean over instances of `SoC_best / SoC`, and 0 where it did not solve one.

    Args:
        costs: by method, the sum of costs in every instance; None where it was not solved.
    """
    best = [min((one for one in case if one is not None), default=None) for case in zip(*costs.values(), strict=True)]
    return {
        name: fmean(0.0 if one is None or least is None else least / one for one, least in zip(own, best, strict=True))
        for name, own in costs.items()
    }


def lifelong_performance(throughputs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Of each method the mean of `throughput / throughput_best` over the instances in which any reached a goal.

    Raises:
        ValueError: where none did in any.
    """
    cases = [case for case in zip(*throughputs.values(), strict=True) if max(case) > 0]
    if not cases:
        raise ValueError("no method reached a goal in any instance, so none can be compared to the best")
    return {name: fmean(case[place] / max(case) for case in cases) for place, name in enumerate(throughputs)}


def path_finding(cost: int | None, optimal: int) -> float:
    """`optimal / cost` of a single agent's path, 0 where it found none."""
    return 0.0 if cost is None else optimal / cost


def scalability(runtimes: Mapping[int, float]) -> float:
    """How little the time of an agent grows with their number: at most 1.

    The mean over pairs `a < b` of numbers of agents of `(runtime(a) / runtime(b)) / (a / b)`.

    Args:
        runtimes: seconds by number of agents, two numbers at least.
    """
    each = [runtimes[agents] / agents for agents in sorted(runtimes)]
    return min(1.0, fmean(fewer / more for fewer, more in itertools.combinations(each, 2)))
