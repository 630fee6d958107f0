"""Rows of data, wherever they stand: JSON lines, CSV, parquet, and anything that iterates over mappings."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.numerals import number, spelled

SUFFIXES = (".jsonl", ".csv", ".parquet")
"""How the name of a file of data ends."""

_AS_JSON = ("messages", "responses", "scores", "tools", "steps", "completions", "labels")
"""Columns whose cells in a CSV file are JSON; a prompt or a response is where it is a list of messages."""
_NUMBERS = ("weight", "margin", "target")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_NO_NUMBER = {"nan", "NaN", "inf", "-inf"}
"""How tables write a missing or infinite number, where all cells are text."""
_MAYBE_JSON = ("prompt", "completion", "chosen", "rejected", "demonstration")


@dataclass(frozen=True)
class Record:
    """A row as it was written: its number, where it stands in words, and its cells by column. None is no cell.

    `folder` is where the file lies, and with it the pictures that the row names.
    """

    number: int
    where: str
    cells: Mapping[str, Any]
    folder: Path | None = None


def read_table(path: Path, names: Mapping[str, str] | None = None) -> list[Record]:
    """The rows of a file, by what its name ends in; lines are counted from 1, as are rows of a parquet file.

    Args:
        names: the columns that stand for hocket's, by hocket's name; cells of CSV are read by what their column is for.

    Raises:
        ConfigurationError: naming the file, and the line where there is one, for what cannot be read.
    """
    if not path.exists():
        raise ConfigurationError(f"there is no file {path}")
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name a {' or '.join(SUFFIXES)} file in it")
    meanings = {column: name for name, column in (names or {}).items()}
    readers: dict[str, Callable[[Path], Iterator[Record]]] = {
        ".csv": partial(_csv_records, meanings=meanings),
        ".parquet": _parquet_records,
    }
    rows = list(readers.get(path.suffix.lower(), _json_records)(path))
    if not rows:
        kind = "JSON object with a prompt per line" if path.suffix.lower() not in readers else "row per example"
        raise ConfigurationError(f"{path} is empty; write one {kind}")
    return [replace(row, folder=path.parent) for row in rows]


def table_of(rows: Iterable[Any], name: str) -> list[Record]:
    """Mappings from Python as rows, counted from 0 as `name[0]`; a `datasets.Dataset` is one such iterable.

    Raises:
        ConfigurationError: when there are none, or one is no mapping.
    """
    records = []
    for place, row in enumerate(rows):
        where = f"{name}[{place}]"
        if not isinstance(row, Mapping):
            raise ConfigurationError(f'{where}: {kind_of(row)} where a mapping belongs; give {{"prompt": ...}}')
        records.append(Record(place, where, _stated({str(column): _plain(cell) for column, cell in row.items()})))
    if not records:
        raise ConfigurationError(f"{name} is empty; give one mapping with a prompt per example")
    return records


def kind_of(value: Any) -> str:
    """What a cell holds, in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else f"of type {type(value).__name__}")


def _stated(row: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a row of a table with columns of its own, where null is no cell."""
    return {column: cell for column, cell in row.items() if cell is not None}


def _plain(cell: Any) -> Any:
    """A cell as JSON would hold it: arrays as lists, numpy's numbers as Python's."""
    if isinstance(cell, Mapping):
        return {str(name): _plain(value) for name, value in cell.items()}
    if isinstance(cell, (list, tuple)):
        return [_plain(value) for value in cell]
    return _plain(cell.tolist()) if hasattr(cell, "tolist") else cell


# ---------------------------------------------------------------- files


def _text(path: Path) -> str:
    try:
        # As it stands: JSON strings and quoted cells may hold line ends of their own.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8 text (byte {error.start}); convert it") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None


def _json_records(path: Path) -> Iterator[Record]:
    # Only line feeds end a line: JSON strings may hold other separators. Blank lines are passed over.
    for place, line in enumerate(_text(path).split("\n"), start=1):
        where = f"{path}, line {place}"
        if not line.strip():
            continue
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{where}: not valid JSON ({error}); write one object per line") from None
        if not isinstance(cells, dict):
            raise ConfigurationError(f'{where}: {kind_of(cells)} where an object belongs; write {{"prompt": ...}}')
        if _has_float(cells.get("answer")):
            cells["answer"] = _exact(cells["answer"], json.loads(line, parse_float=str)["answer"])
        yield Record(place, where, cells)


def _has_float(answer: Any) -> bool:
    return any(isinstance(value, float) for value in (answer if isinstance(answer, list) else [answer]))


def _exact(answer: Any, written: Any) -> Any:
    """An answer read from JSON; numbers that no float holds exactly, such as 1e400, stay as they were `written`."""
    if isinstance(answer, list) and isinstance(written, list):
        return [_exact(*both) for both in zip(answer, written, strict=True)]
    if not isinstance(answer, float) or not isinstance(written, str):
        return answer
    return answer if number(written) == number(spelled(answer)) else written


def _csv_records(path: Path, meanings: Mapping[str, str]) -> Iterator[Record]:
    csv.field_size_limit(2**31 - 1)  # a cell may hold a whole conversation
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    heading: list[str] | None = None
    end = 0
    while True:
        line, where = end + 1, f"{path}, line {end + 1}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise ConfigurationError(f"{where}: not valid CSV ({error}); quote cells that hold quotes") from None
        if cells is None:
            return
        end = reader.line_num
        if heading is None:
            heading = [cell.strip() for cell in cells]
            twice = next((column for column in heading if heading.count(column) > 1), None)
            if twice is not None:
                raise ConfigurationError(f"{where}: the column {twice!r} is named twice; rename one")
        elif cells:
            if len(cells) != len(heading):
                raise ConfigurationError(
                    f"{where}: {len(cells)} cells where the heading has {len(heading)} columns; quote cells with commas"
                )
            read = {
                column: _csv_cell(meanings.get(column, column), cell, where)
                for column, cell in zip(heading, cells, strict=True)
            }
            yield Record(line, where, _stated(read))


def _csv_cell(column: str, cell: str, where: str) -> Any:
    """A cell's value; an empty one is none. What is no number or label where one belongs stays text."""
    if not cell.strip():
        return None
    if column in _AS_JSON:
        try:
            return json.loads(cell)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{where}: {column} is not valid JSON ({error}); write a list as JSON") from None
    if column in _NUMBERS:
        value = number(cell)
        with suppress(OverflowError):
            return cell if value is None else float(value)
    if column == "label":
        return _TRUTHS.get(cell.strip().lower(), cell)
    if column == "answer":
        return _csv_answer(cell)
    if column in _MAYBE_JSON and cell.lstrip().startswith("["):
        try:
            items = json.loads(cell)
        except (ValueError, RecursionError):
            return cell
        return items if items and all(isinstance(item, dict) and "role" in item for item in items) else cell
    return cell


def _csv_answer(cell: str) -> Any:
    """Text, or a list of accepted answers as JSON or Python writes it; a number that tables call missing is none."""
    if cell.strip() in _NO_NUMBER:
        return float(cell)
    if not cell.lstrip().startswith("["):
        return cell
    try:
        value = json.loads(cell)
        return _exact(value, json.loads(cell, parse_float=str)) if isinstance(value, list) and value else cell
    except (ValueError, RecursionError):
        pass
    try:
        value = ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell
    # As Python would write it, since it reads the array `['a' 'b']` as one text.
    return value if isinstance(value, list) and value and repr(value) == cell.strip() else cell


def _parquet_records(path: Path) -> Iterator[Record]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigurationError(f"{path}: parquet needs the package pyarrow: pip install 'hocket[data]'") from error
    try:
        rows = parquet.read_table(str(path)).to_pylist()
    except Exception as error:
        words = " ".join(str(error).split())
        raise ConfigurationError(f"{path} cannot be read as parquet ({words}); write it again") from None
    for place, row in enumerate(rows, start=1):
        cells = {str(column): _plain(cell) for column, cell in row.items()}
        yield Record(place, f"{path}, row {place}", _stated(cells))
