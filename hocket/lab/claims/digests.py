"""Digests of code: of a method's module and of the pieces of the rooms that it uses, in turn."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

METHODS = Path(__file__).parents[2] / "methods"
ATLAS = "atlas.jsonl"
"""In a group's folder, the runs of `hocket.lab.claims.atlas`."""
ROOMS = (
    "methods",
    "curriculum",
    "rollout",
    "rewards",
    "credit",
    "objectives",
    "update",
    "hooks",
    "lab.exact",
    "lab.toys",
)
"""Where the pieces of a method are; the rest of the library is held by its own tests."""

ENGINE = frozenset({"hocket.update.problem"})
"""In a room of pieces, but none of a method: how any loss becomes a gradient, which is the same for all."""

PIECE = re.compile(rf"^\s*from (hocket\.(?:{'|'.join(map(re.escape, ROOMS))})\.[\w.]+) import ", re.MULTILINE)
_REMARK = re.compile(r"^[ \t]*(?:#.*)?\n", re.MULTILINE)
_WORDS = re.compile(
    r"^    (?:title|source|family|catalogue_ids|axes|formula|conventions|note|task|requires|survives)=.*\n"
    r"(?:(?:    [ \t\"\])}].*)?\n)*"
    r"|^from hocket\.core\.requirements import .*\n",
    re.MULTILINE,
)
"""What a recipe says of itself, as arguments of its making, and the import of what it requires."""
_STRING = re.compile(r'(?P<docstring>^[ \t]*r?"""[\s\S]*?"""[ \t]*\n)|"""[\s\S]*?"""', re.MULTILINE)
_IMPORTS = re.compile(r"^(?:from|import) (?:.*\(\n(?:[ \t].*\n)+\)|.*)\n", re.MULTILINE)
ORIGIN = re.compile(r"(?<=from )hocket[\w.]*(?= import )")
"""Where a function imports from."""
_OWN = re.compile(r"from hocket[\w.]* import ([\s\S]*)")
_NAME = re.compile(r"\w+(?: as \w+)?")
SHIPPED = re.compile(r"^claim\.shipped\((?:.*\)|\n(?:[ \t].*\n)+\))\n", re.MULTILINE)
LEARNS = re.compile(r"^claim\.learns\((?:.*\)|\n(?:[ \t].*\n)+\))\n", re.MULTILINE)
_SPARES = re.compile(r"^claim\.spares\((?:.*\)|\n(?:[ \t].*\n)+\))\n", re.MULTILINE)


@functools.cache
def read_module(module: str) -> tuple[str, str, tuple[str, ...]]:
    """A module's digests with what recipes say of themselves and without, and the pieces that it imports.

    Remarks, empty lines, docstrings, imports and claims about recipes as shipped are left out.
    """
    file = METHODS.parents[1].joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return "", "", ()
    text = code_alone(without_runs(file.read_text(encoding="utf-8")))
    return hashed(_placeless(text)), hashed(_placeless(_WORDS.sub("", text))), tuple(sorted(set(PIECE.findall(text))))


def without_runs(text: str) -> str:
    """Without claims about recipes as shipped, what these learn, and reasons to spare mutants."""
    return _SPARES.sub("", LEARNS.sub("", SHIPPED.sub("", text)))


def code_alone(text: str) -> str:
    """Without remarks, empty lines and docstrings."""
    return _REMARK.sub("", _STRING.sub(lambda found: "" if found["docstring"] else found[0], text))


def _placeless(text: str) -> str:
    """A module without where it imports from: of the library's names, which stay as they are when a piece moves."""
    lines: set[str] = set()
    for statement in _IMPORTS.findall(text):
        imported = _OWN.match(statement)
        lines |= set(_NAME.findall(imported[1])) if imported else {statement.strip()}
    return ORIGIN.sub("", _IMPORTS.sub("", text)) + "\n".join(sorted(lines))


def hashed(text: str) -> str:
    """A short digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def digest(*modules: str, words: bool = False) -> str:
    """A digest of modules and all pieces that they use, in turn; `words`: also of what recipes say of themselves.

    It is of the code alone: a piece that moves to another file keeps it.
    """
    waiting, known = list(modules), dict[str, str]()
    while waiting:
        module = waiting.pop()
        if module not in known and module not in ENGINE:
            full, code, used = read_module(module)
            known[module] = full if words else code
            waiting += used
    return hashed("\n".join(sorted(set(known.values()))))
