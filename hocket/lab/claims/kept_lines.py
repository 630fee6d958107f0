"""What is kept of catalogue rows beside their methods: JSON lines, a file for each group, rows by their names."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


def lines_of(file: Path, row: str) -> Sequence[Line]:
    """The lines of a row, in the order in which they were kept; none where nothing is kept."""
    return _by_row(file).get(row, ())


def replace_lines(file: Path, row: str, lines: Sequence[Line]) -> None:
    """Puts `lines` in the place of those of a row. The file as it is now is read first, and replaced in one move."""
    _by_row.cache_clear()
    rows = {**_by_row(file), row: list(lines)}
    text = "".join(
        json.dumps({"row": name, **line}, ensure_ascii=False) + "\n" for name in sorted(rows) for line in rows[name]
    )
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, file)
    _by_row.cache_clear()


@functools.cache
def _by_row(file: Path) -> Mapping[str, Sequence[Line]]:
    """The lines of a group by row, without the row's name."""
    rows: dict[str, list[Line]] = {}
    for text in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        line = json.loads(text)
        rows.setdefault(line.pop("row"), []).append(line)
    return rows
