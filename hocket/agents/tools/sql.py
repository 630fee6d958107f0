"""Read-only SQL on a throwaway SQLite database, with limits that do not depend on the machine.

Every query runs on a fresh copy in memory. An authorizer lets through selecting, reading and a list of functions that
are deterministic and cannot grow their input; a query may use so many steps of SQLite's virtual machine, and strings
are short. This defends against mistakes and against queries that run away. It is no sandbox against a flaw in SQLite.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hocket.core.errors import ConfigurationError

Value = str | int | float | bytes | None

FUNCTIONS = frozenset(
    [
        "abs",
        "avg",
        "coalesce",
        "count",
        "cume_dist",
        "dense_rank",
        "first_value",
        "glob",
        "group_concat",
        "ifnull",
        "iif",
        "instr",
        "lag",
        "last_value",
        "lead",
        "length",
        "like",
        "lower",
        "ltrim",
        "max",
        "min",
        "nth_value",
        "ntile",
        "nullif",
        "percent_rank",
        "rank",
        "replace",
        "round",
        "row_number",
        "rtrim",
        "sign",
        "substr",
        "substring",
        "sum",
        "total",
        "trim",
        "typeof",
        "unicode",
        "upper",
    ]
)
"""What a query may call. Left out: what reads clock, chance or files, and what makes long strings from short ones."""

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_STRIDE = 1000


@dataclass(frozen=True)
class Caps:
    """What a query may use.

    Attributes:
        steps: of SQLite's virtual machine, so equal on every machine.
        seconds: a backstop only; a query stopped by it is stopped by steps elsewhere.
        rows: that come back; further ones are cut. length: characters of the query, and of any string.
    """

    steps: int = 200_000
    seconds: float = 5.0
    rows: int = 1000
    length: int = 4096

    def __post_init__(self) -> None:
        if min(self.steps, self.seconds, self.rows, self.length) <= 0:
            raise ConfigurationError(f"every cap of a query must be above 0, unlike in {self}")


@dataclass(frozen=True)
class QueryResult:
    """What a query brought: names of columns, rows, and whether these are all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    complete: bool = True


class QueryError(Exception):
    """A query that cannot be run, refused or stopped, in a sentence."""


@lru_cache(maxsize=256)
def database(script: str) -> bytes:
    """The database that a script of CREATE and INSERT makes.

    Raises:
        ConfigurationError: when the script does not run.
    """
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(script)
        return connection.serialize()
    except sqlite3.Error as error:
        raise ConfigurationError(f"the script of a database does not run: {error}") from error
    finally:
        connection.close()


def query(script: str, sql: str, caps: Caps | None = None) -> QueryResult:
    """Runs one reading statement on the database of `script`, which stays as it is.

    Raises:
        QueryError: for anything else than one reading statement, for errors in it, and past the caps.
    """
    caps = caps or Caps()
    if len(sql) > caps.length:
        raise QueryError(f"a query has at most {caps.length} characters")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(database(script))
        _restrict(connection, caps)
        return _fetched(connection.execute(sql), caps)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
        raise QueryError(_sentence(error)) from None
    except ValueError:  # null characters
        raise QueryError("the query holds a character that SQLite does not take") from None
    finally:
        connection.close()


def _fetched(cursor: sqlite3.Cursor, caps: Caps) -> QueryResult:
    if cursor.description is None:
        raise QueryError("only a SELECT brings rows")
    rows = cursor.fetchmany(caps.rows + 1)
    columns = tuple(str(column[0]) for column in cursor.description)
    return QueryResult(columns, tuple(rows[: caps.rows]), len(rows) <= caps.rows)


def _restrict(connection: sqlite3.Connection, caps: Caps) -> None:
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, caps.length),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, caps.length),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 20),
        (sqlite3.SQLITE_LIMIT_COLUMN, 100),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
        (sqlite3.SQLITE_LIMIT_VDBE_OP, 25_000),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        connection.setlimit(limit, most)
    connection.set_authorizer(_authorised)
    connection.set_progress_handler(_meter(caps), min(_STRIDE, caps.steps))


def _authorised(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in _ALLOWED and not (first or "").startswith("pragma_"):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _meter(caps: Caps) -> Callable[[], int]:
    """Stops a query after its steps, counted in strides."""
    used, ends = 0, time.monotonic() + caps.seconds

    def is_over() -> int:
        nonlocal used
        used += min(_STRIDE, caps.steps)
        return int(used >= caps.steps or time.monotonic() > ends)

    return is_over


def _sentence(error: Exception) -> str:
    words = str(error)
    if "interrupted" in words:
        return "the query takes too long"
    if "not authorized" in words or "prohibited" in words:
        return "only reading is allowed, with common functions"
    return words


class ReadOnlySql:
    """The tool: a query in, its rows out, one per line under the names of the columns.

    Args:
        script: what makes the database.
        caps: what a query may use.
        most: characters per answer; what is longer is cut.
    """

    name = "sql"

    def __init__(self, script: str, caps: Caps | None = None, most: int = 500) -> None:
        self.script, self.caps, self.most = script, caps or Caps(rows=20), most

    @property
    def schema(self) -> Mapping[str, Any]:
        """What it takes, in the form of `apply_chat_template(tools=...)`."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": "Rows of one SELECT on the database.",
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}},
                    "required": ["query"],
                },
            },
        }

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """The rows as text; for a wrong query a text that says what is wrong, never an exception."""
        sql = arguments.get("query")
        if not isinstance(sql, str):
            return "error: sql needs a query"
        try:
            result = query(self.script, sql, self.caps)
        except QueryError as error:
            return f"error: {error}"
        lines = [" | ".join(result.columns), *(" | ".join(map(_shown, row)) for row in result.rows)]
        text = "\n".join(lines if result.complete else [*lines, f"(more than {len(result.rows)} rows)"])
        return text if len(text) <= self.most else text[: self.most - 3] + "..."


def _shown(value: Value) -> str:
    return "null" if value is None else str(value)
