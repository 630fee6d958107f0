"""One text, and one hash, for equal plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def canonical(value: Any) -> str:
    """One text for all spellings of a value: dicts in any order, lists and tuples alike, sets in any order.

    Values of different types differ, even 1, 1.0, true and "1".
    """
    if isinstance(value, Mapping):
        entries = sorted((canonical(key), canonical(item)) for key, item in value.items())
        return "{" + ",".join(f"{key}:{item}" for key, item in entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(canonical, value))) + ">"
    return f"{type(value).__name__} {value!r}"


def database_hash(database: Any) -> str:
    """The SHA-256 of a database made of dicts, lists, sets and plain values."""
    return hashlib.sha256(canonical(database).encode("utf-8", "surrogatepass")).hexdigest()
