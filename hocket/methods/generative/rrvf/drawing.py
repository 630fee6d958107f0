"""Bar charts as programs, `a3 b8 d1`: a letter is a column, the digit behind it the height of its bar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hocket.core.media import MEDIA
from hocket.core.pictures import open_picture

COLUMNS = "abcd"
SIDE, TALLEST = 16, 8
"""Pixels of a picture's side, and the greatest height of a bar."""

WIDE, INK = 4, 220
"""Pixels of a column, of which the last is a gap, and the brightness of bars."""

Program = Mapping[str, int]
Pixels = NDArray[np.uint8]

_BAR = re.compile(rf"([{COLUMNS}])([0-{TALLEST}])")


def program_in(code: str) -> Program | None:
    """The heights by column; None for code that does not run: another word, a column twice, or nothing at all."""
    bars = [_BAR.fullmatch(word) for word in code.split()]
    heights = {bar[1]: int(bar[2]) for bar in bars if bar is not None}
    return heights if heights and len(heights) == len(bars) else None


def code_of(program: Program) -> str:
    """The code of a program."""
    return " ".join(f"{column}{height}" for column, height in program.items())


def render(program: Program) -> Pixels:
    """A chart as a picture `[SIDE, SIDE]`, light bars on dark."""
    picture = np.zeros((SIDE, SIDE), np.uint8)
    for column, height in program.items():
        left = WIDE * COLUMNS.index(column)
        picture[SIDE - height * SIDE // TALLEST :, left : left + WIDE - 1] = INK
    return picture


@lru_cache(4096)
def shown(digest: str) -> Pixels:
    """A picture of the store as a render would be: grey, `[SIDE, SIDE]`."""
    picture = open_picture(MEDIA.data(digest), "the picture to draw").convert("L")
    return np.asarray(picture if picture.size == (SIDE, SIDE) else picture.resize((SIDE, SIDE)))


def likeness(left: Pixels, right: Pixels) -> float:
    """Intersection over union of light: `sum min / sum max` over pixels, in [0, 1]; 0 of two dark pictures."""
    most = float(np.maximum(left, right).sum(dtype=np.int64))
    return float(np.minimum(left, right).sum(dtype=np.int64)) / most if most else 0.0


def difference(render: Pixels, picture: Pixels) -> str:
    """How a render's columns have to change to be like a picture, `a up, c down`; `same` where none has to.

    Columns are compared by their light; differences of less than half a bar's unit count for nothing.
    """
    light = [image.reshape(SIDE, len(COLUMNS), WIDE).sum((0, 2), dtype=np.int64) for image in (render, picture)]
    unit = INK * (WIDE - 1) * SIDE // TALLEST
    gaps = ((light[1] - light[0]) / unit).tolist()
    words = [
        f"{column} {'up' if gap > 0 else 'down'}" for column, gap in zip(COLUMNS, gaps, strict=True) if abs(gap) >= 0.5
    ]
    return ", ".join(words) or "same"
