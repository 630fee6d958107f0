"""Recorded batches as JSON documents: which fields there are, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hocket.core.errors import ConfigurationError, nearest

Row = Mapping[str, Any]

TOP = ("version", "trajectories", "state")
REQUIRED = ("group", "scores", "logp")
OPTIONAL = (
    *("id", "tokens", "logp_behaviour", "logp_proximal", "logp_ref", "logp_under", "entropy", "value", "final_value"),
    "score",
    *("trained", "segment", "turn", "agent", "state", "final_state", "turn_scores", "token_scores", "source", "parent"),
    *("text", "label", "embedding", "truncated", "info", "history"),
)
NUMBERS = ("logp", "logp_behaviour", "logp_proximal", "logp_ref", "entropy", "value", "score")
COUNTS = ("tokens", "segment", "turn")
PER_DECISION = (*NUMBERS, *COUNTS, "trained")
PER_TURN = ("agent", "state", "turn_scores")
OBJECTS = ("scores", "logp_under", "token_scores", "info", "history", "parent")


def rows_of(document: Mapping[str, Any]) -> Sequence[Row]:
    """The trajectories of a document, checked field by field.

    Raises:
        ConfigurationError: naming the trajectory and the field at fault.
    """
    unknown = next((name for name in document if name not in TOP), None)
    if unknown is not None:
        hint = "; put it under state" if unknown in ("step", "progress") else nearest(str(unknown), TOP)
        raise ConfigurationError(f"the batch has an unknown field {unknown!r}{hint}")
    if document.get("version") != 1:
        raise ConfigurationError(f"the batch has version {document.get('version')!r}; this reads version 1")
    if not isinstance(document.get("state", {}), Mapping):
        raise ConfigurationError("state must be an object: what stages remember by slot, step and progress")
    rows = document.get("trajectories")
    if not isinstance(rows, list) or not rows:
        raise ConfigurationError("the batch has no trajectories")
    for number, row in enumerate(rows):
        _check(f"trajectory {number}", row)
    return rows


def _check(where: str, row: Any) -> None:
    if not isinstance(row, Mapping):
        raise ConfigurationError(f"{where} must be an object")
    missing = next((name for name in REQUIRED if name not in row), None)
    if missing is not None:
        raise ConfigurationError(f"{where} lacks {missing!r}")
    known = {*REQUIRED, *OPTIONAL}
    unknown = next((name for name in sorted(row) if name not in known), None)
    if unknown is not None:
        raise ConfigurationError(f"{where} has an unknown field {unknown!r}; further columns go into info")
    for name in OBJECTS:
        if row.get(name) is not None and not isinstance(row[name], Mapping):
            raise ConfigurationError(f"{where}: {name} must be an object, not {row[name]!r}")
    _list(where, "logp", row["logp"], _is_number, "numbers")
    size = len(row["logp"])
    for name in PER_DECISION:
        if row.get(name) is not None:
            kind, words = _kind(name)
            _list(where, name, row[name], kind, words)
            _length(where, name, row[name], size, "decisions")
    _check_scores(where, row, size)
    _check_turns(where, row)
    _check_parent(where, row)


def _kind(name: str) -> tuple[Callable[[Any], bool], str]:
    if name == "trained":
        return lambda value: value in (0, 1), "true or false"
    return (_is_count, "whole numbers") if name in COUNTS else (_is_number, "numbers")


def _check_scores(where: str, row: Row, size: int) -> None:
    for name, value in row["scores"].items():
        if value is not None and not _is_number(value):
            raise ConfigurationError(f"{where}: scores.{name} must be a number or null, not {value!r}")
    for field in ("token_scores", "logp_under"):
        for name, values in (row.get(field) or {}).items():
            _list(where, f"{field}.{name}", values, lambda value: value is None or _is_number(value), "numbers")
            _length(where, f"{field}.{name}", values, size, "decisions")


def _check_turns(where: str, row: Row) -> None:
    turn = row.get("turn") or [0] * len(row["logp"])
    if turn and (turn[0] != 0 or any(later < earlier for earlier, later in itertools.pairwise(turn))):
        raise ConfigurationError(f"{where}: turn must start at 0 and never fall, not {turn}")
    turns = turn[-1] + 1 if turn else 0
    for name in PER_TURN:
        if row.get(name) is not None:
            column = row[name]
            _list(where, name, column, lambda value: isinstance(value, str | Mapping), "one entry per turn")
            _length(where, name, column, turns, "turns")


def _check_parent(where: str, row: Row) -> None:
    parent = row.get("parent")
    if parent is not None and not ("id" in parent and _is_count(parent.get("length")) and parent["length"] >= 0):
        raise ConfigurationError(f"{where}: parent must be an object with id and length, not {dict(parent)!r}")


def _list(where: str, name: str, values: Any, fits: Callable[[Any], bool], words: str) -> None:
    if not isinstance(values, list) or not all(fits(value) for value in values):
        raise ConfigurationError(f"{where}: {name} must be a list of {words}, not {values!r}")


def _length(where: str, name: str, values: Sequence[Any], size: int, of: str) -> None:
    if len(values) != size:
        raise ConfigurationError(f"{where}: {name} has {len(values)} entries for {size} {of}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts `m10` after `m2`: digits by their value, everything else as text."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part)
