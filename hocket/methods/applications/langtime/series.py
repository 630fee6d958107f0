"""Two recorded series, windows of them, and the world in which a forecast is made patch by patch.

`two_series.npz` holds integers and the lengths of the stretches without a gap that they were recorded in, after each
other. Both come from bokeh_sampledata 2026.1. `glucose` is blood glucose in mg/dl every 15 minutes, every third reading
of the first 53 stretches of CGM.csv.gz of at least 15 hours (a person's continuous monitor, 2010; public domain).
`sea` is sea temperature in thousandths of a degree Celsius every hour, every second reading of
sea_surface_temperature.csv.gz (NERACOOS station B01, Western Maine Shelf, 2016 and 2017; free to use and redistribute).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat

Floats = NDArray[np.float64]

NAMES = ("glucose", "sea")
PATCH, CONTEXT = 4, 16
"""Values of a patch, and those before it that the forecaster reads."""

TRAINING = 0.7
"""The share of a series, in time, whose windows are trained on; windows of the rest are evaluated."""

REACH = 0.25
"""What an action of 1 adds to a value of the first forecast, in deviations of the window's context."""

SQUARE, SLOPE, WORST = 0.7, 0.3, 5.0
"""Weights of the parts of the reward, and the largest loss that counts."""


@functools.cache
def windows(name: str, patches: int, split: str) -> Floats:
    """All windows `[W, CONTEXT + PATCH * patches]` of one split, none of which reaches into the other or over a gap."""
    with np.load(Path(__file__).parent / "two_series.npz") as file:
        values, lengths = file[name].astype(np.float64), file[f"{name}_lengths"]
    size, cut, begin = CONTEXT + PATCH * patches, int(TRAINING * len(values)), 0
    rows = []
    for length in lengths:
        low, high = (begin, min(begin + length, cut)) if split == "train" else (max(begin, cut), begin + length)
        if high - low >= size:
            rows.append(np.lib.stride_tricks.sliding_window_view(values[low:high], size))
        begin += length
    return np.concatenate(rows)


@functools.cache
def normal_windows(name: str, patches: int, split: str) -> Floats:
    """`windows` less their context's mean over its deviation, or the median one in training where that is larger."""
    rows = windows(name, patches, split)
    least = np.median(windows(name, patches, "train")[:, :CONTEXT].std(1))
    context = rows[:, :CONTEXT]
    return np.asarray((rows - context.mean(1, keepdims=True)) / np.maximum(context.std(1, keepdims=True), least))


@functools.cache
def first_forecaster(patches: int) -> Floats:
    """Ridge weights `[CONTEXT + 1, PATCH]` of the next patch by the values before it, those of the truth.

    They are fitted across domains by teacher forcing: to every patch of every training window of all series, each after
    what was recorded before it; every series weighs the same.
    """
    gram, moment = 1e-3 * np.eye(CONTEXT + 1), np.zeros((CONTEXT + 1, PATCH))
    for name in NAMES:
        rows = normal_windows(name, patches, "train")
        x = np.concatenate([rows[:, k * PATCH : k * PATCH + CONTEXT] for k in range(patches)])
        y = np.concatenate([rows[:, k * PATCH + CONTEXT : (k + 1) * PATCH + CONTEXT] for k in range(patches)])
        x = np.concatenate([x, np.ones((len(x), 1))], 1)
        gram, moment = gram + x.T @ x / len(x), moment + x.T @ y / len(x)
    return np.asarray(np.linalg.solve(gram, moment))


def losses(forecast: Floats, truth: Floats) -> Floats:
    """What forecasts `[.., PATCH]` lose, `[..]`: in squares, and in squares of their slopes; at most `WORST`."""
    gap = forecast - truth
    square, slope = (gap**2).mean(-1), (np.diff(gap, axis=-1) ** 2).mean(-1)
    return np.asarray(np.minimum(SQUARE * square + SLOPE * slope, WORST))


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of `patches` patches, each after the last 16 values, of which later ones are forecasts themselves.

    An action in R^4, in units of `REACH`, is added to the patch of the `first_forecaster`. All values are in units of
    the window's context, as `normal_windows` has them. A patch earns minus its `losses`.

    What is seen: the last 16 values, the first forecast, the share of the patches that are made, and by one number for
    each series which it is. The joint state, for credit alone: how many patches are made, the last one, and the truth.

    Attributes:
        series: `glucose`, `sea` or `both`, from which windows are drawn evenly.
    """

    series: str = "both"
    patches: int = 6

    def __post_init__(self) -> None:
        if self.series not in (*NAMES, "both") or not 1 <= self.patches <= 11:
            raise ConfigurationError(
                f"task forecast needs a series of glucose, sea or both, and 1 to 11 patches, not {self.series!r} and "
                f"{self.patches}"
            )

    @property
    def name(self) -> str:
        return "forecast"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("forecaster",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(CONTEXT + PATCH + 1 + len(NAMES), PATCH, discrete=False),)

    @property
    def joint(self) -> int:
        return 1 + PATCH * (1 + self.patches)

    def drawn(self, seed: int) -> tuple[int, Floats]:
        """The series of a seed, and a normalised window of it; odd seeds draw from the end of the series."""
        draw = Key.of(seed).derive("forecast").numpy()
        number = int(draw.integers(2)) if self.series == "both" else NAMES.index(self.series)
        rows = normal_windows(NAMES[number], self.patches, "eval" if seed % 2 else "train")
        return number, rows[int(draw.integers(len(rows)))]

    def open(self, width: int) -> JointEnvironment:
        return Forecasting(self, width)


class Forecasting(JointEnvironment):
    """Windows in as many copies.

    Attributes:
        truth: of the whole window, `[B, CONTEXT + PATCH * H]`. held: the same as forecast so far. number: of the
            series, `[B]`.
    """

    def __init__(self, world: Forecasts, width: int) -> None:
        self.world, self.time, self.number = world, np.zeros(width, np.int64), np.zeros(width, np.int64)
        self.truth = np.zeros((width, CONTEXT + PATCH * world.patches))
        self.held = np.zeros_like(self.truth)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.number[slot], self.truth[slot] = self.world.drawn(seed)
            self.held[slot], self.time[slot] = 0.0, 0
            self.held[slot, :CONTEXT] = self.truth[slot, :CONTEXT]
        return {}

    def _last(self) -> Floats:
        """The last values, `[B, CONTEXT]`."""
        place = np.minimum(self.time, self.world.patches)[:, None] * PATCH + np.arange(CONTEXT)
        return np.asarray(np.take_along_axis(self.held, place, 1))

    def first(self) -> Floats:
        """The next patch as the first forecaster has it, `[B, PATCH]`."""
        last = self._last()
        x = np.concatenate([last, np.ones((len(last), 1))], 1)
        # Row by row: a matrix product's last bits depend on how many copies there are.
        return np.asarray(np.einsum("bi,ip->bp", x, first_forecaster(self.world.patches)))

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        patch = self.first() + REACH * np.asarray(actions[0], np.float64)
        place = CONTEXT + np.minimum(self.time, self.world.patches - 1)[:, None] * PATCH + np.arange(PATCH)
        paid = -losses(patch, np.take_along_axis(self.truth, place, 1))
        np.put_along_axis(self.held, place, np.where(live[:, None], patch, np.take_along_axis(self.held, place, 1)), 1)
        self.time = self.time + live
        over = (self.time >= self.world.patches)[:, None]
        return Moved(paid[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        code = np.eye(len(NAMES))[self.number]
        parts = [self._last(), self.first(), (self.time / self.world.patches)[:, None], code]
        return [np.concatenate(parts, 1).astype(np.float32)]

    def state(self) -> NDArray[np.float32]:
        parts = [self.time[:, None], self._last()[:, -PATCH:], self.truth[:, CONTEXT:]]
        return np.concatenate(parts, 1).astype(np.float32)
