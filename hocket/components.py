"""Stages as values: to plain data and back, and changed by dotted path.

A component is a frozen dataclass. Its plain form is `{type: hocket.objectives.ClippedSurrogate, low: 0.2}`; only
classes that `hocket`'s stage packages export load by name, others as an explicit `FILE.py:NAME`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import importlib
import importlib.util
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hocket.errors import ConfigurationError, nearest
from hocket.types import GroupBy

ROOMS = (
    *("curriculum", "rollout", "rewards", "credit", "objectives", "update"),
    *("types", "recipe", "casting", "policies", "tools", "train", "schedules", "workflows"),
)
"""Packages whose exported classes may be named in a configuration."""


def is_component(value: object) -> bool:
    """Whether `value` is an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


# ---------------------------------------------------------------- to plain data


def to_plain(value: Any) -> Any:
    """Plain data (dicts, lists, numbers, strings) that `from_plain` turns back into an equal value."""
    if isinstance(value, GroupBy):
        return {"type": "hocket.types.GroupBy", "columns": list(value.columns)}
    if is_component(value):
        fields = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"type": type_name(type(value)), **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list, frozenset)):
        return [to_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, types.FunctionType):
        return type_name(value)
    return value


def type_name(thing: Any) -> str:
    """`hocket.ROOM.Class` for the library's own, `FILE.py:NAME` for a user's."""
    module = sys.modules[thing.__module__]
    source = getattr(module, "__hocket_file__", None)
    if source is not None:
        return f"{source}:{thing.__qualname__}"
    for room in ROOMS:
        if thing.__module__.startswith(f"hocket.{room}"):
            return f"hocket.{room}.{thing.__qualname__}"
    return f"{thing.__module__}.{thing.__qualname__}"


# ---------------------------------------------------------------- from plain data


def from_plain(data: Any, hint: Any = Any, where: str = "") -> Any:
    """Builds a value of type `hint` from plain data. `where` is the dotted key, for messages.

    Raises:
        ConfigurationError: naming the key, what is wrong and the mend.
    """
    if isinstance(data, Mapping) and "type" in data:
        return _build(load_type(str(data["type"]), where), data, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(data, Mapping):
        return _build(hint, data, where)
    if is_component(data) or callable(data):
        return data
    if isinstance(data, Sequence) and not isinstance(data, str):
        return _sequence(data, hint, where)
    return leaf(data, hint, where)


def _sequence(data: Sequence[Any], hint: Any, where: str) -> Any:
    members = [from_plain(item, Any, f"{where}.{number}") for number, item in enumerate(data)]
    if any(is_component(member) for member in members):
        return tuple(members)
    if not members and hint is not Any:
        return ()
    return leaf(members, hint, where)


def _build(cls: Any, data: Mapping[str, Any], where: str) -> Any:
    given = {name: value for name, value in data.items() if name != "type"}
    if cls is GroupBy:
        return GroupBy(*given.get("columns", ()))
    hints = field_types(cls)
    for name in given:
        if name not in hints:
            raise ConfigurationError(f"{_dotted(where, name)} is not a setting of {cls.__name__}{nearest(name, hints)}")
    values = {name: from_plain(value, hints[name], _dotted(where, name)) for name, value in given.items()}
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where or cls.__name__}: {error}") from error


def leaf(data: Any, hint: Any, where: str) -> Any:
    """A plain value checked against its type; numbers written as text (`1e-4`) are accepted for floats."""
    simple = _simple(hint)
    if isinstance(data, str) and _accepts(simple, float) and not _accepts(simple, str):
        try:
            data = float(data)
        except ValueError:
            pass
    try:
        return msgspec.convert(data, simple, strict=True)
    except msgspec.ValidationError as error:
        reason = str(error).split(" - at")[0]
        raise ConfigurationError(f"{where} = {data!r}: {reason[0].lower()}{reason[1:]}") from None


def _simple(hint: Any) -> Any:
    """`hint` with everything msgspec cannot check (protocols, callables) turned into Any."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        # Values of a component's type were taken before; what is left must be one of the others.
        plain = [member for member in typing.get_args(hint) if not dataclasses.is_dataclass(member)]
        members = [_simple(member) for member in plain]
        return Any if Any in members else functools.reduce(lambda left, right: left | right, members)
    if origin in (tuple, list, dict, frozenset, typing.Literal) or hint in (int, float, str, bool, type(None)):
        return hint
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint
    return Any


def _accepts(hint: Any, kind: type) -> bool:
    return hint is kind or kind in typing.get_args(hint)


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def field_types(cls: Any) -> Mapping[str, Any]:
    """Resolved types of a component's settings by name."""
    return _field_types(cls)


@functools.cache
def _field_types(cls: Any) -> Mapping[str, Any]:
    # Resolving the names in annotations is most of the time that reading a configuration takes.
    hints = typing.get_type_hints(cls)
    return types.MappingProxyType({f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init})


def load_type(name: str, where: str = "") -> Any:
    """The class or function called `hocket.ROOM.NAME` or `FILE.py:NAME`."""
    if ".py:" in name:
        return load_object(name, where)
    parts = name.split(".")
    if len(parts) != 3 or parts[0] != "hocket" or parts[1] not in ROOMS:
        raise ConfigurationError(f"{where}.type = {name!r}: write hocket.ROOM.CLASS or FILE.py:NAME".lstrip("."))
    module = importlib.import_module(f"hocket.{parts[1]}")
    exported = getattr(module, "__all__", [n for n in vars(module) if n[0].isupper()])
    if parts[2] not in exported:
        raise ConfigurationError(f"{where}.type: hocket.{parts[1]} has no {parts[2]!r}{nearest(parts[2], exported)}")
    return getattr(module, parts[2])


def load_object(reference: str, where: str = "") -> Any:
    """What `FILE.py:NAME` names. The file is run as a module of its own; relative paths are from the current folder."""
    file, _, name = reference.rpartition(":")
    if not file.endswith(".py"):
        raise ConfigurationError(f"{where or 'reference'} = {reference!r}: write FILE.py:NAME")
    module = load_file(Path(file), where)
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise ConfigurationError(f"{where or file}: {file} has no {name!r}{nearest(name, public)}")
    return getattr(module, name)


def load_file(path: Path, where: str = "") -> types.ModuleType:
    """Runs a user's file as a module, once per path."""
    resolved = path.resolve()
    name = f"hocket_user_{hashlib.blake2b(str(resolved).encode(), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    if not resolved.is_file():
        raise ConfigurationError(f"{where or 'file'}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, resolved)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__hocket_file__ = str(path)  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigurationError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module


# ---------------------------------------------------------------- changed by dotted path


def replaced(component: Any, path: str, value: Any, where: str = "") -> Any:
    """A copy of `component` with the setting at dotted `path` changed; see `replaced_all`."""
    return replaced_all(component, {path: value}, where)


def replaced_all(component: Any, edits: Mapping[str, Any], where: str = "") -> Any:
    """A copy of `component` with the settings at dotted paths changed; values may be plain data.

    A number indexes a tuple. Settings of one component change together, so they are checked together. `where` is the
    path of `component` itself, for messages.

    Raises:
        ConfigurationError: for an unknown path (with the nearest one), a wrong type, or settings that clash.
    """
    if not is_component(component):
        raise ConfigurationError(f"{where}: {component!r} has no settings; set it as a whole with {{type: ..., ...}}")
    hints = field_types(type(component))
    changed: dict[str, Any] = {}
    for head, below in _by_head(edits).items():
        inner = _dotted(where, head)
        if head not in hints:
            kind = getattr(component, "name", None) or type(component).__name__
            raise ConfigurationError(f"{inner}: {kind} has no setting {head!r}{nearest(head, hints)}")
        changed[head] = _edited(getattr(component, head), hints[head], below, inner)
    try:
        return dataclasses.replace(component, **changed)
    except (TypeError, ValueError) as error:
        place, reason = where or ", ".join(edits), str(error)
        raise ConfigurationError(reason if reason.startswith(place) else f"{place}: {reason}") from error


def _by_head(edits: Mapping[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """Edits by the first word of their path: the rest of the path and the value, in order."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for path, value in edits.items():
        head, _, rest = path.partition(".")
        found.setdefault(head, []).append((rest, value))
    return found


def _edited(current: Any, hint: Any, edits: list[tuple[str, Any]], where: str) -> Any:
    """One setting after its edits: a value for the whole of it, and paths below that."""
    below: dict[str, Any] = {}
    for rest, value in edits:
        if rest:
            below[rest] = value
        else:
            current, below = from_plain(value, hint, where), {}
    if not below:
        return current
    return _edited_tuple(current, below, where) if isinstance(current, tuple) else replaced_all(current, below, where)


def _edited_tuple(current: tuple[Any, ...], edits: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    members = list(current)
    for place, below in _by_head(edits).items():
        if not place.isdigit() or int(place) >= len(members):
            raise ConfigurationError(f"{where}: {place!r} is not a place in a list of {len(members)}")
        members[int(place)] = _edited(members[int(place)], Any, below, _dotted(where, place))
    return tuple(members)


def is_default(component: Any, path: str) -> bool:
    """Whether the setting at an existing dotted `path` has the value its class gives it."""
    *above, name = path.split(".")
    for step in above:
        component = component[int(step)] if isinstance(component, tuple) else getattr(component, step)
    setting = next(f for f in dataclasses.fields(component) if f.name == name)
    made = setting.default_factory() if setting.default_factory is not dataclasses.MISSING else setting.default
    return bool(getattr(component, name) == made)


def has_path(component: Any, path: str) -> bool:
    """Whether `replaced` would find `path`."""
    for name in path.split("."):
        if isinstance(component, tuple):
            if not name.isdigit() or int(name) >= len(component):
                return False
            component = component[int(name)]
        elif is_component(component) and name in field_types(type(component)):
            component = getattr(component, name)
        else:
            return False
    return True
