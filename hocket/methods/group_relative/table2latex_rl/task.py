"""The task `tables`: pictures of tables in handwriting, to be written as LaTeX.

A row has two cells with a digit each, or one `multicolumn` over both columns with a digit on the left or on the right;
no cell is empty. So the picture alone decides the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.media import MEDIA, with_pictures
from hocket.core.options import checked
from hocket.core.pictures import picture_bytes
from hocket.methods.group_relative.table2latex_rl.tabular import Cell, Pixels, Table, code_of, table_in
from hocket.stages import Split
from hocket.tasks.digits import handwriting
from hocket.tasks.form import TaskForm
from hocket.tasks.handwriting import SIDE
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

COLUMNS = 2

LONGEST = 96
"""Tokens of an answer at most."""

READ = 0.4
"""How often a beginner reads the picture before it writes. Otherwise it writes two cells in every row."""


class Tables(TextTask):
    """A picture of a table in handwriting; the answer is its code. Training and evaluation share no table and no hand.

    Right is the same table, whatever the alignment of plain columns.
    """

    name: str = "tables"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("tables", split, number).numpy()
        table = drawn(rng)
        while split_of(code_of(table)) != split:
            table = drawn(rng)
        picture = MEDIA.put(picture_bytes(handwritten(table, split, rng)), f"the picture of tables/{split}/{number}")
        message = {"role": "user", "content": with_pictures("Table?", [picture])}
        return Scenario(f"tables/{split}/{number}", (message,), code_of(table), seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings = {"model": "nano-vlm", "steps": 60, "decoding.max_tokens": LONGEST, "update.lr": 3e-4}
        return {**super().suggest(recipe), **settings}

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(table_in(text) == table_in(str(scenario.answer)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`compiles`: whether there is a table; `structure`: whether its cells are as in the picture, texts aside."""
        table, due = table_in(trajectory.answer), table_in(str(trajectory.scenario.answer))
        assert due is not None
        same = table is not None and table.structure == due.structure
        return {"compiles": float(table is not None), "structure": float(same)}

    def label(self, trajectory: Trajectory) -> str | None:
        table = table_in(trajectory.answer)
        return None if table is None else code_of(table)

    @property
    def lessons(self) -> Lessons:
        """A beginner's code; on request."""

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            table = table_in(str(scenario.answer))
            assert table is not None
            text = read_first(table) if rng.random() < READ else code_of(hurried(table))
            written = {"role": "assistant", "content": text}
            return [Lesson(tuple(scenario.messages), (written,))]

        return Lessons("how a beginner writes tables, mostly without multicolumn", 0, play)


def drawn(rng: np.random.Generator) -> Table:
    """A table of one row or two, two in three times."""
    return Table(COLUMNS, tuple(_row(rng) for _ in range(1 + int(rng.random() < 2 / 3))))


def _row(rng: np.random.Generator) -> tuple[Cell, ...]:
    first, second = (str(digit) for digit in rng.integers(10, size=2).tolist())
    places = ("", "", "l", "r")
    place = places[int(rng.integers(len(places)))]
    return (Cell(first, COLUMNS, place),) if place else (Cell(first), Cell(second))


def handwritten(table: Table, split: Split, rng: np.random.Generator) -> Pixels:
    """A table as a picture `[2 * SIDE, 2 * SIDE]`, light on dark, with digits from the handwriting of a split."""
    pixels, labels = handwriting(split)
    picture = np.zeros((COLUMNS * SIDE, COLUMNS * SIDE), np.uint8)
    for number, row in enumerate(table.rows):
        for column, cell in enumerate(row):
            left = SIDE * (COLUMNS - 1 if cell.place == "r" else column)
            digit = pixels[rng.choice(np.flatnonzero(labels == int(cell.text)))]
            picture[SIDE * number : SIDE * (number + 1), left : left + SIDE] = digit
    return picture


def read_first(table: Table) -> str:
    """A right answer behind a thought: what stands in the quarters of the picture, `.` for nothing."""
    marks = [mark for row in table.rows for mark in _marks(row)]
    return f"<think>{' '.join(marks)}</think>{code_of(table)}"


def _marks(row: Sequence[Cell]) -> Sequence[str]:
    if len(row) == COLUMNS:
        return [cell.text for cell in row]
    return [row[0].text, "."] if row[0].place == "l" else [".", row[0].text]


def hurried(table: Table) -> Table:
    """The table with an empty cell beside a digit, where there should be one cell over both columns."""
    rows = list[tuple[Cell, ...]]()
    for row in table.rows:
        pair = (Cell(row[0].text), Cell(""))
        rows.append(row if len(row) == COLUMNS else pair if row[0].place == "l" else pair[::-1])
    return table._replace(rows=tuple(rows))


def from_settings(name: str, settings: Mapping[str, str]) -> Tables:
    """The task; it has no settings."""
    checked(name, settings, {})
    return Tables()


TABLES = TaskForm(
    name="tables",
    description="pictures of tables in handwriting, to be written as LaTeX",
    make=from_settings,
)
