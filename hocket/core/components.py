"""Components as values: conversion to plain data and back, and changes by dotted path.

A component is a frozen dataclass. Its plain form is `{type: hocket.objectives.ClippedSurrogate, low: 0.2}`. The type is
`hocket.ROOM.NAME` for the exports of hocket's subpackages, the dotted path for classes of installed packages, and
`FILE.py:NAME` for classes in a file.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from hocket.core.aliases import present_name
from hocket.core.batch import GroupBy
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.rooms import folder_of_row, public
from hocket.core.user_files import load_object
from hocket.stages import Reward, Stage

ROOMS = (
    *("curriculum", "rollout", "rewards", "credit", "objectives", "update", "hooks"),
    *("types", "recipe", "core", "policies", "agents.tools", "train", "agents.workflows"),
)
"""Subpackages whose exported classes a configuration may name."""


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
    """The name of a class or function in configurations: `hocket.ROOM.NAME`, `FILE.py:NAME` or the dotted path."""
    module = sys.modules[thing.__module__]
    source = getattr(module, "__hocket_file__", None)
    if source is not None:
        return f"{source}:{thing.__qualname__}"
    for room in ROOMS:
        if f"{thing.__module__}.".startswith(f"hocket.{room}.") and thing.__qualname__ in public(f"hocket.{room}"):
            return f"hocket.{room}.{thing.__qualname__}"
    folder = folder_of_row(thing.__module__)
    if folder and public(folder).get(thing.__qualname__) == thing.__module__:
        return f"{folder}.{thing.__qualname__}"
    return f"{thing.__module__}.{thing.__qualname__}"


# ---------------------------------------------------------------- from plain data


def from_plain(data: Any, hint: Any = Any, where: str = "") -> Any:
    """Builds a value of type `hint` from plain data. `where` is the dotted key, for messages.

    Raises:
        ConfigurationError: with the key, the problem and the correction.
    """
    if isinstance(data, Mapping) and "type" in data:
        return _build(load_type(str(data["type"]), where), data, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(data, Mapping):
        return _build(hint, data, where)
    if isinstance(data, Mapping) and (member := _member_type(hint)) is not None:
        return {name: from_plain(item, member, f"{where}.{name}") for name, item in data.items()}
    if is_component(data) or callable(data):
        return data
    if isinstance(data, Sequence) and not isinstance(data, str):
        return _sequence(data, hint, where)
    if isinstance(data, str) and _takes_function(hint):
        return load_named(data, where)
    if isinstance(data, str) and isinstance(hint, type) and issubclass(hint, Stage) and hint.room:
        return _by_name(data, hint, where)
    return leaf(data, hint, where)


def _member_type(hint: Any) -> Any:
    """The type of a mapping's values if they are components; None for other types."""
    members = typing.get_args(hint)
    holds_components = typing.get_origin(hint) in (Mapping, dict) and dataclasses.is_dataclass(members[1])
    return members[1] if holds_components else None


def _by_name(name: str, kind: type[Stage], where: str) -> Any:
    """The component of a kind by its name, with its defaults, such as `hinge` or `Hinge` for a link; else the name."""
    plain = name.replace("-", "").replace("_", "").lower()
    for exported, module in public(f"hocket.{kind.room}").items():
        if exported.lower() == plain:
            cls = getattr(importlib.import_module(module), exported)
            if isinstance(cls, type) and issubclass(cls, kind):
                return _build(cls, {}, where)
    return name


def _takes_function(hint: Any) -> bool:
    """Whether a type accepts functions and no strings."""
    members = _members_of(hint)
    return str not in members and any(typing.get_origin(member) is Callable for member in members)


def _sequence(data: Sequence[Any], hint: Any, where: str) -> Any:
    members = [from_plain(item, Any, f"{where}.{number}") for number, item in enumerate(data)]
    slot = _slot(hint)
    if any(is_component(member) for member in members) or (slot is not None and slot.several):
        return tuple(members)
    if not members and hint is not Any:
        return ()
    return leaf(members, hint, where)


def _build(cls: Any, data: Mapping[str, Any], where: str) -> Any:
    settings = {name: value for name, value in data.items() if name != "type"}
    if cls is GroupBy:
        return GroupBy(*settings.get("columns", ()))
    hints = field_types(cls)
    for name in settings:
        if name not in hints:
            raise ConfigurationError(f"{_dotted(where, name)} is not a setting of {cls.__name__}{nearest(name, hints)}")
    values = {name: from_plain(value, hints[name], _dotted(where, name)) for name, value in settings.items()}
    _check_slots(cls, values, where)
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where or cls.__name__}: {error}") from error


def leaf(data: Any, hint: Any, where: str) -> Any:
    """A plain value after a check against its type; strings of numbers (`1e-4`) are accepted for floats."""
    simple = _simple(hint)
    if isinstance(data, (str, int, float)) and _takes_list(simple):
        # `64,64` and `64`, from a command line.
        data = [yaml.safe_load(part) for part in data.split(",")] if isinstance(data, str) else [data]
    if isinstance(data, str) and _accepts(simple, float) and not _accepts(simple, str):
        try:
            data = float(data)
        except ValueError:
            pass
    if isinstance(data, float) and math.isnan(data):
        raise ConfigurationError(f"{where} = nan: give a number")
    try:
        return msgspec.convert(data, simple, strict=True)
    except msgspec.ValidationError as error:
        reason = _TYPES.sub(_in_words, str(error).split(" - at")[0])
        choices = _choices(simple)
        if choices and not isinstance(data, (Mapping, list)):
            raise ConfigurationError(f"{where} = {data!r}: choose from {', '.join(choices)}") from None
        raise ConfigurationError(f"{where} = {data!r}: {reason[0].lower()}{reason[1:]}") from None


_TYPES = re.compile(r"`([^`]*)`")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def _in_words(match: re.Match[str]) -> str:
    """The types that msgspec names, in words."""
    return " or ".join(_KINDS.get(kind, kind) for kind in match[1].split(" | "))


def _members_of(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _takes_list(hint: Any) -> bool:
    """Whether a type accepts lists and no single values."""
    members = [member for member in _members_of(hint) if member is not type(None)]
    return bool(members) and all(typing.get_origin(member) in (tuple, list) for member in members)


def _choices(hint: Any) -> list[str]:
    """The values of a setting that has a fixed list of them; none for other types."""
    choices: list[str] = []
    for member in _members_of(hint):
        if typing.get_origin(member) is typing.Literal:
            choices += map(str, typing.get_args(member))
        elif isinstance(member, type) and issubclass(member, enum.Enum):
            choices += [str(item.value) for item in member]
        elif member is not type(None):
            return []
    return choices


def _simple(hint: Any) -> Any:
    """`hint` with Any for every type that msgspec cannot check (protocols, callables)."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        # Values of a component's type are handled before; this value must be of another type of the union.
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
    # Resolving the names in annotations takes most of the time of reading a configuration.
    hints = typing.get_type_hints(cls)
    return types.MappingProxyType({f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init})


def load_type(name: str, where: str = "") -> Any:
    """The component class `hocket.ROOM.NAME`, `FILE.py:NAME` or `package.module.NAME`."""
    loaded = load_named(name, f"{where}.type".lstrip("."))
    if not (isinstance(loaded, type) and dataclasses.is_dataclass(loaded)):
        key = f"{where}.type".lstrip(".")
        raise ConfigurationError(f"{key} = {name!r} is no dataclass; write hocket.ROOM.CLASS or FILE.py:NAME of one")
    return loaded


def load_named(name: str, where: str = "reference") -> Any:
    """The object that `hocket.ROOM.NAME`, `FILE.py:NAME` or the dotted path `package.module.NAME` refers to."""
    if ".py:" in name:
        return load_object(name, where)
    name = present_name(name)
    path, _, last = name.rpartition(".")
    if not path or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"{where} = {name!r}: write hocket.ROOM.CLASS, FILE.py:NAME or package.module.NAME")
    exports = public(path) if path.removeprefix("hocket.") in ROOMS or folder_of_row(f"{path}.") else {}
    path = exports.get(last, path)
    try:
        module = importlib.import_module(path)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{where} = {name!r}: {path} cannot be imported ({reason})") from error
    if last.startswith("_") or not hasattr(module, last):
        names = exports or [name for name in vars(module) if not name.startswith("_")]
        raise ConfigurationError(f"{where}: {path} has no {last!r}{nearest(last, names)}")
    return getattr(module, last)


# ---------------------------------------------------------------- components in slots


class _Slot(NamedTuple):
    """A setting that takes components: their class, whether it takes a list, and whether it takes None."""

    wanted: type[Any]
    several: bool
    optional: bool


def misplaced(component: Any, where: str = "") -> str | None:
    """Which setting of a component, or of a nested one, holds a wrong kind of component, as a sentence; else None."""
    cls: Any = type(component)
    for name, slot in _slots(cls).items():
        value, inner = getattr(component, name), _dotted(where, name)
        wrong = _wrong(value, slot, inner)
        if wrong:
            return wrong
        for path, member in _members(value, inner):
            below = misplaced(member, path) if is_component(member) else None
            if below:
                return below
    return None


def _check_slots(cls: Any, values: Mapping[str, Any], where: str) -> None:
    """Raises an error for a stage with a wrong kind of component. A recipe checks its slots itself, in more detail."""
    slots = _slots(cls) if issubclass(cls, Stage) else {}
    for name in slots.keys() & values.keys():
        wrong = _wrong(values[name], slots[name], _dotted(where, name))
        if wrong:
            raise ConfigurationError(wrong)


@functools.cache
def _slots(cls: Any) -> Mapping[str, _Slot]:
    """The settings of a component that take stages or other components of one class."""
    try:
        hints = field_types(cls)
    except (NameError, TypeError):  # Names known to type checkers alone.
        return {}
    slots = {name: _slot(hint) for name, hint in hints.items()}
    return {name: slot for name, slot in slots.items() if slot is not None}


def _slot(hint: Any) -> _Slot | None:
    origin = typing.get_origin(hint)
    if origin not in (None, tuple, typing.Union, types.UnionType):
        return None
    members = set(typing.get_args(hint)) or {hint}
    wanted, *others = members - {type(None), Ellipsis} or {None}
    component = isinstance(wanted, type) and (issubclass(wanted, Stage) or dataclasses.is_dataclass(wanted))
    return _Slot(wanted, origin is tuple, type(None) in members) if component and not others else None


def _members(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """The value of a setting, or each member of a tuple, with its path."""
    if isinstance(value, tuple):
        yield from ((f"{where}.{number}", member) for number, member in enumerate(value))
    else:
        yield where, value


def _wrong(value: Any, slot: _Slot, where: str) -> str | None:
    """Why a slot cannot hold `value`, with the correction, as a sentence; None when it can."""
    if value is None and slot.optional:
        return None
    if slot.several and not isinstance(value, tuple):
        return f"{where} takes a list; write [{{type: {_place(slot.wanted)}}}]"
    for path, member in _members(value, where) if slot.several else ((where, value),):
        if not (isinstance(member, slot.wanted) or (slot.several and slot.wanted is Reward and _rewards(member))):
            return f"{path}: {_subject(member)} not {_article(slot.wanted)}; {_correction(member, slot.wanted)}"
    return None


def _place(wanted: type[Any]) -> str:
    """The type to write for a component of a class: `hocket.credit.NAME`, or the class itself."""
    kind = issubclass(wanted, Stage) and Stage in wanted.__bases__
    return f"hocket.{wanted.room}.NAME" if kind else type_name(wanted)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, Mapping, Sequence))


def _subject(value: Any) -> str:
    """The beginning of a message: `ClippedSurrogate is an objective,`, `Mine is`, or the value itself."""
    if isinstance(value, Stage):
        return f"{type(value).__name__} is {_article(next(c for c in type(value).__mro__ if Stage in c.__bases__))},"
    return f"{value!r} is" if _is_plain(value) else f"{type(value).__name__} is"


def _correction(value: Any, wanted: type[Any]) -> str:
    foreign = not isinstance(value, Stage) and not _is_plain(value) and not type(value).__module__.startswith("hocket.")
    if foreign and issubclass(wanted, Stage):
        return f"derive its class from {wanted.__module__}.{wanted.__name__}"
    return f"write {{type: {_place(wanted)}}}"


def _article(cls: type[Any]) -> str:
    name = cls.__name__.lower() if Stage in cls.__bases__ else cls.__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _rewards(value: Any) -> bool:
    """Whether an object can serve as a reward although its class does not derive from `Reward`."""
    return callable(value) and hasattr(value, "name") and hasattr(value, "weight")


# ---------------------------------------------------------------- changes by dotted path


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
    _check_slots(type(component), changed, where)
    try:
        return dataclasses.replace(component, **changed)
    except (TypeError, ValueError) as error:
        place, reason = where or ", ".join(edits), str(error)
        raise ConfigurationError(reason if reason.startswith(place) else f"{place}: {reason}") from error


def _by_head(edits: Mapping[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """Edits by the first name of their path: the rest of the path and the value, in order."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    for path, value in edits.items():
        head, _, rest = path.partition(".")
        groups.setdefault(head, []).append((rest, value))
    return groups


def _edited(current: Any, hint: Any, edits: list[tuple[str, Any]], where: str) -> Any:
    """A setting after its edits: values for the setting itself, and for paths below it."""
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


def value_at(component: Any, path: str) -> Any:
    """The value at an existing dotted `path`; the component itself if the path is empty."""
    for step in filter(None, path.split(".")):
        component = component[int(step)] if isinstance(component, tuple) else getattr(component, step)
    return component


def differences(left: Any, right: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted paths at which two values differ, with both values there; recurses while both have the same type."""
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        parts: list[tuple[str, Any, Any]] = [(str(n), *pair) for n, pair in enumerate(zip(left, right, strict=True))]
    elif is_component(left) and type(left) is type(right):
        parts = [
            (setting.name, getattr(left, setting.name), getattr(right, setting.name))
            for setting in dataclasses.fields(left)
            if setting.init
        ]
    else:
        if left != right:
            yield where, left, right
        return
    for name, first, second in parts:
        yield from differences(first, second, _dotted(where, name))


def is_default(component: Any, path: str) -> bool:
    """Whether the setting at an existing dotted `path` has its class's default value."""
    above, _, name = path.rpartition(".")
    component = value_at(component, above)
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
