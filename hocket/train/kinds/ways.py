"""Greedy and sampled play of one policy: which of both figures leads, and when both are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GREEDY, SAMPLED = "greedy", "sampled"
SAMPLED_KEYS = (SAMPLED, f"{SAMPLED}/low", f"{SAMPLED}/high")
"""What an evaluation tells of sampled play, beside the measure of greedy play, `low` and `high`."""


@dataclass(frozen=True)
class Way:
    """How well a policy does when it plays so, with the 95 % interval, NaN where there is none."""

    name: str
    value: float
    low: float
    high: float

    def apart(self, other: Way) -> bool:
        """Whether the two differ by more than their intervals."""
        return self.low > other.high or other.low > self.high


def leads_of(task: Any) -> str | None:
    """The way of playing that a task names in `leads`: `greedy` or `sampled`.

    Where it names one, play is measured both ways before and after training; None is greedy play alone.
    """
    way: str | None = getattr(task, "leads", None)
    return way


def ways_of(evaluation: Mapping[str, Any], measure: str) -> dict[str, Way]:
    """The ways that an evaluation, as summaries hold it, was measured in, greedy first."""
    keys = {GREEDY: (measure, "low", "high"), SAMPLED: SAMPLED_KEYS}
    by_name = {name: [_number(evaluation.get(key)) for key in of] for name, of in keys.items()}
    return {name: Way(name, *numbers) for name, numbers in by_name.items() if math.isfinite(numbers[0])}


def ways_shown(before: Mapping[str, Any], after: Mapping[str, Any], measure: str, leads: str) -> tuple[str, ...]:
    """The ways to show: the one that leads, and the other where they differ by more than their intervals.

    Args:
        before, after: evaluations as summaries hold them.
        leads: the way that the task names.
    """
    both = [ways for ways in (ways_of(before, measure), ways_of(after, measure)) if len(ways) > 1]
    if not both:
        return (GREEDY,)
    first = SAMPLED if leads == SAMPLED else GREEDY
    differ = any(ways[GREEDY].apart(ways[SAMPLED]) for ways in both)
    return (first, GREEDY if first == SAMPLED else SAMPLED) if differ else (first,)


def as_greedy(evaluation: Mapping[str, Any], measure: str, way: str) -> dict[str, float]:
    """The measure and its interval of one way, under the names that greedy play has them by."""
    numbers = ways_of(evaluation, measure).get(way)
    if numbers is None:
        return {}
    ends = {"low": numbers.low, "high": numbers.high}
    return {measure: numbers.value, **{name: end for name, end in ends.items() if not math.isnan(end)}}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
