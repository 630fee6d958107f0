"""Rooms: packages whose modules are short and whose public names stand for themselves.

    from hocket.credit import GAE        # imports hocket.credit.gae alone

No list of exports is kept: what a room holds is read from the text of its files, and imported when it is asked for.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from hocket.core.discovery import sources
from hocket.core.errors import nearest

_DEFINITION = re.compile(r"^(?:class|def|async def) ([A-Za-z]\w*)|^([A-Z]\w*)(?:: [^=\n]+)? = ", re.MULTILINE)


@functools.cache
def public(package: str) -> Mapping[str, str]:
    """The module of each public class, function and constant of a package; of equal names the first module's."""
    names: dict[str, str] = {}
    for module, text in sources(package):
        for match in _DEFINITION.finditer(text):
            names.setdefault(match[1] or match[2], module)
    return names


def at_home(name: str) -> str | None:
    """The module of a public name that left its room for a method or the zoo; None where there is none."""
    return public("hocket.methods").get(name) or public("hocket.zoo").get(name)


def folder_of_row(module: str) -> str:
    """The folder of a catalogue row, `hocket.methods.GROUP.ROW`, in which a module stands; empty for other modules."""
    parts = module.split(".")
    return ".".join(parts[:4]) if parts[:2] == ["hocket", "methods"] and len(parts) > 4 else ""


def lazy(package: str, **elsewhere: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a room; `elsewhere` are names it offers besides, with their modules."""

    def held() -> dict[str, str]:
        return {**public(package), **elsewhere}

    def attribute(name: str) -> Any:
        # What moved into the file of its only method is found there, so that code written before goes on working.
        module = None if name.startswith("_") else held().get(name) or at_home(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{nearest(name, held())}")
        return getattr(importlib.import_module(module), name)

    return attribute, lambda: sorted(held())
