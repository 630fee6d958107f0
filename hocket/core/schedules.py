"""Settings that change over a run: a value at each share of it.

A stage reads `value_at(setting, batch.progress)`, where a setting is a number or one of the schedules below. `progress`
is the share of the run that lies before the step, 0 in the first step and 1 in the last. Outside a run it is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Constant", "Cosine", "Linear", "Setting", "Steps", "bounds", "value_at"]


@dataclass(frozen=True)
class Constant:
    """`value` throughout."""

    value: float

    def __call__(self, progress: float) -> float:
        return self.value

    @property
    def values(self) -> tuple[float, ...]:
        """What it can be, extremes included."""
        return (self.value,)


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` in a straight line over the first `over` of the run, then `end`."""

    start: float
    end: float
    over: float = 1.0

    def __post_init__(self) -> None:
        _check_share("over", self.over)

    def __call__(self, progress: float) -> float:
        share = min(1.0, max(0.0, progress / self.over))
        # Exactly the ends at the ends, and exactly constant between equal ones.
        return self.end if share == 1.0 else self.start + share * (self.end - self.start)

    @property
    def values(self) -> tuple[float, ...]:
        """What it can be, extremes included."""
        return self.start, self.end


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` along half a cosine, slow at both ends, over the first `over` of the run, then `end`."""

    start: float
    end: float
    over: float = 1.0

    def __post_init__(self) -> None:
        _check_share("over", self.over)

    def __call__(self, progress: float) -> float:
        share = min(1.0, max(0.0, progress / self.over))
        turned = (1 - math.cos(math.pi * share)) / 2
        return self.end if share == 1.0 else self.start + turned * (self.end - self.start)

    @property
    def values(self) -> tuple[float, ...]:
        """What it can be, extremes included."""
        return self.start, self.end


@dataclass(frozen=True)
class Steps:
    """`values[0]` until `at[0]`, then `values[1]` until `at[1]`, and so on: one value more than places.

    `at` are shares of the run, rising; a value holds from its place on.
    """

    values: tuple[float, ...]
    at: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.at) + 1:
            raise ValueError(f"{len(self.at)} places need {len(self.at) + 1} values, not {len(self.values)}")
        if any(left >= right for left, right in pairwise(self.at)):
            raise ValueError(f"at must rise, not {self.at}")

    def __call__(self, progress: float) -> float:
        return self.values[sum(progress >= place for place in self.at)]


Setting = float | Constant | Linear | Cosine | Steps
"""A number, or how it changes over a run."""


def value_at(setting: Setting, progress: float) -> float:
    """The setting's value when `progress` of the run is over."""
    return setting if isinstance(setting, (int, float)) else setting(progress)


def bounds(setting: Setting) -> tuple[float, float]:
    """The least and the largest value a setting takes, for checks."""
    values = (setting,) if isinstance(setting, (int, float)) else setting.values
    return min(values), max(values)


def _check_share(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1], not {value}")
