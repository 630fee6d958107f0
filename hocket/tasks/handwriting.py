"""Handwritten digits in three parts that nobody shares: to generate from, to judge by, to evaluate with.

The file beside this module holds the 1,797 digits of 8 x 8 pixels that scikit-learn ships (`load_digits`, BSD): the
test set of the UCI "optical recognition of handwritten digits". Digit i belongs to part i mod 3.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Part = Literal["generate", "judge", "evaluate"]
PARTS: tuple[Part, ...] = ("generate", "judge", "evaluate")

SIDE = 8
"""Pixels along a side of a digit."""

PLACES = ("top left", "top right", "bottom left", "bottom right")
"""The quarters of a canvas, in the order of its rows."""

NOTHING = -1
"""What the judge reads where there is no digit."""

_WIDTH, _RIDGE = 1e-3, 1e-2
_FARTHEST = 1.25
"""How much farther from the judge's nearest digit a digit may be than the judge's own are from each other."""


@dataclass(frozen=True)
class DigitSet:
    """Pixels `[N, 64]` float64 in [0, 16], where 16 is ink, and labels `[N]` long."""

    pixels: NDArray[np.float64]
    label: NDArray[np.int64]


@functools.cache
def all_digits() -> DigitSet:
    """All digits, in the order of their file."""
    data = load_file(Path(__file__).with_name("handwriting.safetensors"))
    return DigitSet(data["pixels"].astype(np.float64), data["label"].astype(np.int64))


@functools.cache
def digits(part: Part) -> DigitSet:
    """One of the three parts."""
    data, chosen = all_digits(), slice(PARTS.index(part), None, len(PARTS))
    return DigitSet(data.pixels[chosen], data.label[chosen])


def canvas(pixels: NDArray[np.float64]) -> NDArray[np.float32]:
    """Four digits `[B, 4, 64]` as the quarters of pictures `[B, 256]` in [-1, 1], row by row."""
    rows = len(pixels)
    grid = pixels.reshape(rows, 2, 2, SIDE, SIDE).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(grid.reshape(rows, -1) / 8.0 - 1.0, dtype=np.float32)


def quarters(pictures: NDArray[np.floating]) -> NDArray[np.float64]:
    """The inverse of `canvas`, cut off at the range of ink."""
    rows = len(pictures)
    grid = ((pictures.astype(np.float64) + 1.0) * 8.0).clip(0.0, 16.0).reshape(rows, 2, SIDE, 2, SIDE)
    return grid.transpose(0, 1, 3, 2, 4).reshape(rows, 4, SIDE * SIDE)


@dataclass(frozen=True)
class DigitReader:
    """Reads single digits: regularised least squares in a Gaussian kernel, made from one part alone.

    What has less or more ink than any digit of that part, or is far from all of them, is no digit.
    """

    pixels: NDArray[np.float64]
    weights: NDArray[np.float64]
    ink: tuple[float, float]
    farthest: float

    def read(self, pixels: NDArray[np.float64]) -> NDArray[np.int64]:
        """The digits of `[N, 64]`, `[N]`; `NOTHING` where there is none, or a pixel is not finite."""
        shown = np.where(np.isfinite(pixels), pixels, -np.inf)
        finite = shown.min(1) > -np.inf
        shown = np.where(finite[:, None], shown, 0.0)
        distance, ink = _squares(shown, self.pixels), shown.sum(1)
        label = (np.exp(-_WIDTH * distance) @ self.weights).argmax(1)
        drawn = finite & (ink >= self.ink[0]) & (ink <= self.ink[1]) & (distance.min(1) <= self.farthest)
        return np.where(drawn, label, NOTHING)


@functools.cache
def judge(part: Part) -> DigitReader:
    """The judge that a part makes; it reads 98 in 100 digits of other parts right."""
    own_part = digits(part)
    distance = _squares(own_part.pixels, own_part.pixels)
    kernel = np.exp(-_WIDTH * distance) + _RIDGE * np.eye(len(distance))
    weights = np.asarray(np.linalg.solve(kernel, np.eye(10)[own_part.label] * 2.0 - 1.0), np.float64)
    np.fill_diagonal(distance, np.inf)
    ink = own_part.pixels.sum(1)
    return DigitReader(
        own_part.pixels, weights, (float(ink.min()), float(ink.max())), float(_FARTHEST * distance.min(1).max())
    )


def _squares(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared distances `[N, M]`."""
    result: NDArray[np.float64] = (left**2).sum(1)[:, None] + (right**2).sum(1)[None] - 2.0 * left @ right.T
    return result.clip(min=0.0)
