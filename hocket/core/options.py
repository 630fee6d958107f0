"""The settings in a task's name, `NAME?key=value&key=value`, converted to their types."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any

from hocket.core.components import leaf
from hocket.core.errors import ConfigurationError, nearest


def checked(
    name: str,
    given: Mapping[str, str],
    hints: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    kind: str = "task",
) -> dict[str, Any]:
    """The settings of the task `name`, or of another `kind` of thing, converted to their types.

    Lists and objects are written as JSON; a setting whose type is not plain takes after its default.

    Raises:
        ConfigurationError: for an unknown setting, with the nearest, or a value of the wrong type.
    """
    values = {}
    for key, text in given.items():
        if key not in hints:
            raise ConfigurationError(f"{kind} {name} has no setting {key!r}{nearest(key, hints)}")
        values[key] = _value(text, hints[key], (defaults or {}).get(key), f"{kind} {name}: {key}")
    return values


def _value(text: str, hint: Any, default: Any, where: str) -> Any:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = set(typing.get_args(hint)) if union else {hint}
    if str in members or typing.get_origin(hint) is typing.Literal:
        return leaf(text, hint, where)
    try:
        data = json.loads(text)
    except ValueError:
        data = text
    if members <= {int, float, bool, type(None)}:
        return leaf(data, hint, where)
    if isinstance(default, (list, tuple)) and isinstance(data, list):
        return type(default)(data)
    if default is None and isinstance(data, list):
        return data
    raise ConfigurationError(f"{where} = {text!r}: it cannot be set this way; write a JSON list where it is a list")


def read_value(text: str) -> Any:
    """A setting as JSON where it can be read so, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
