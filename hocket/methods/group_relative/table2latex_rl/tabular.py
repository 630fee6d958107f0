"""Tables as code: LaTeX's `tabular` with `multicolumn`, read, written and printed as a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.tasks.digits import handwriting
from hocket.tasks.handwriting import SIDE

Pixels = NDArray[np.uint8]

PAPER, INK = 255, 0

_TABULAR = re.compile(r"\\begin\{tabular\}\{([lcr|]+)\}(.*?)\\end\{tabular\}", re.DOTALL)
_SPAN = re.compile(r"\\multicolumn\{([1-9])\}\{([lcr])\}\{([^{}]*)\}")
_SPECIAL = re.compile(r"[\\{}#$%_^~]")


class Cell(NamedTuple):
    """A text over one or more columns; where it stands in them counts for a `multicolumn` alone, else it is empty."""

    text: str
    columns: int = 1
    place: str = ""


class Table(NamedTuple):
    """Rows of cells that fill `columns` columns each."""

    columns: int
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def structure(self) -> tuple[tuple[int, ...], ...]:
        """How many columns each cell has, row by row: the table without its texts."""
        return tuple(tuple(cell.columns for cell in row) for row in self.rows)


def table_in(code: str) -> Table | None:
    """The first table in a text; None where there is none, or one that does not compile.

    That is one without a row, with more cells than columns in a row, or with a command or a special character that is
    no `multicolumn` of a whole cell. A row that ends early is filled with empty cells.
    """
    tabular = _TABULAR.search(code)
    if tabular is None:
        return None
    columns = sum(letter != "|" for letter in tabular[1])
    rows = [_row(line, columns) for line in tabular[2].split(r"\\") if line.strip()]
    filled = tuple(row for row in rows if row is not None)
    return Table(columns, filled) if columns and filled and len(filled) == len(rows) else None


def _row(line: str, columns: int) -> tuple[Cell, ...] | None:
    cells = [_cell(part.strip()) for part in line.split("&")]
    filled = [cell for cell in cells if cell is not None]
    left = columns - sum(cell.columns for cell in filled)
    return None if left < 0 or len(filled) < len(cells) else (*filled, *[Cell("")] * left)


def _cell(text: str) -> Cell | None:
    span = _SPAN.fullmatch(text)
    cell = Cell(text) if span is None else Cell(span[3].strip(), int(span[1]), span[2])
    return None if _SPECIAL.search(cell.text) else cell


def code_of(table: Table) -> str:
    """The code of a table."""
    rows = r"\\".join("&".join(map(_written, row)) for row in table.rows)
    return rf"\begin{{tabular}}{{{'c' * table.columns}}}{rows}\end{{tabular}}"


def _written(cell: Cell) -> str:
    return rf"\multicolumn{{{cell.columns}}}{{{cell.place}}}{{{cell.text}}}" if cell.place else cell.text


@cache
def type_pieces() -> Mapping[str, Pixels]:
    """A printed digit by its character, `[SIDE, SIDE]`: of the handwriting to learn from, what is nearest the mean."""
    pixels, labels = handwriting("train")
    pieces: dict[str, Pixels] = {" ": np.full((SIDE, SIDE), PAPER, np.uint8)}
    for digit in range(10):
        mine = pixels[labels == digit].astype(np.float64)
        middle = ((mine - mine.mean(0)) ** 2).sum((1, 2)).argmin()
        pieces[str(digit)] = (255 - mine[middle]).astype(np.uint8)
    return pieces


UNKNOWN: Pixels = np.pad(np.full((SIDE - 2, SIDE - 2), PAPER, np.uint8), 1, constant_values=INK)
"""What is printed for a character that is no digit: an empty box."""


def printed(table: Table, least: tuple[int, int] = (2, 2)) -> Pixels:
    """A table in print, dark on white, `[SIDE * rows, SIDE * columns]`, on a sheet of at least so many of both.

    Texts that are wider than their cell are squeezed.
    """
    sheet = np.full((SIDE * max(least[0], len(table.rows)), SIDE * max(least[1], table.columns)), PAPER, np.uint8)
    for number, row in enumerate(table.rows):
        left = 0
        for cell in row:
            room = SIDE * cell.columns
            strip = _strip(cell.text, room)
            free = room - strip.shape[1]
            start = left + {"l": 0, "r": free}.get(cell.place, free // 2)
            sheet[SIDE * number : SIDE * (number + 1), start : start + strip.shape[1]] = strip
            left += room
    return sheet


def _strip(text: str, room: int) -> Pixels:
    """A line of print, at most `room` pixels wide."""
    if not text:
        return np.empty((SIDE, 0), np.uint8)
    pieces: Sequence[Pixels] = [type_pieces().get(letter, UNKNOWN) for letter in text]
    strip = np.concatenate(pieces, axis=1)
    wide = min(room, strip.shape[1])
    return strip[:, np.arange(wide) * strip.shape[1] // wide]
