"""Named things (recipes, workflows, tasks), declared where they are defined and imported only when asked for.

The source says the name: `name = "debate"` in the body of a class, `name="grpo"` as the first argument of a call that
makes a constant. So a package's names are known from the text of its files, and moving a definition from one file to
another edits no table. Names are spelled with hyphens; when one is looked up, underscores are hyphens.

    WORKFLOWS = Registry("workflow", ("hocket.agents.workflows",), CLASS)
    WORKFLOWS.find("debate")        # imports its file alone
    WORKFLOWS.find("mine.py:Mine")
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.user_files import load_object

CLASS = re.compile(
    r'class (?P<attribute>\w+)\b.*?\n    name = "(?P<name>[^"\n]+)"(?:\n    description = "(?P<description>[^"\n]+)")?',
    re.DOTALL,
)
"""A class whose body says `name = "..."` and, in the next line, perhaps `description = "..."`."""

SKIPPED = frozenset({"claims"})
"""Folders whose files declare nothing for others."""


def constant(*makers: str) -> re.Pattern[str]:
    r"""The declaration `X = MAKER(name="...", description="...", family="...")`, the last two at will.

    Args:
        makers: regular expressions of what is called, such as `Recipe` or `\w+\.but`.
    """
    return re.compile(
        rf'(?P<attribute>\w+)(?:: \w+)? = (?:{"|".join(makers)})\(\s*name="(?P<name>[^"\n]+)"'
        r'(?:,\s*description="(?P<description>[^"\n]+)")?(?:,\s*family="(?P<family>[^"\n]+)")?'
    )


@dataclass(frozen=True)
class Declaration:
    """A name, and the class or constant `attribute` of `module` that it stands for.

    `description` and `family` are as written there.
    """

    name: str
    module: str
    attribute: str
    description: str = ""
    family: str = ""

    def load(self) -> Any:
        """What is declared; imports its module."""
        return getattr(importlib.import_module(self.module), self.attribute)


def hyphenated(name: str) -> str:
    """A name as names are spelled."""
    return name.replace("_", "-")


class Names(Mapping[str, Declaration]):
    """Declarations by name, each once; one is looked up with underscores or hyphens alike."""

    def __init__(self, declared: Iterable[Declaration] = ()) -> None:
        self._declared = {hyphenated(one.name): one for one in declared}

    def __getitem__(self, name: str) -> Declaration:
        return self._declared[hyphenated(name)]

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in self._declared.values())

    def __len__(self) -> int:
        return len(self._declared)


@dataclass(frozen=True)
class Registry:
    """Everything of one kind by its name.

    Attributes:
        kind: what a name stands for, in messages.
        packages: where the library declares such things; one that does not exist is empty.
        declaration: how a top-level statement declares one: groups `attribute`, `name` and perhaps `description`.
        group: the entry-point group under which installed packages name modules or packages that declare more.
    """

    kind: str
    packages: tuple[str, ...]
    declaration: re.Pattern[str]
    group: str | None = "hocket.methods"

    @cached_property
    def own(self) -> Mapping[str, Declaration]:
        """What the library declares, package by package, names in alphabetical order.

        Raises:
            ConfigurationError: when two things have one name.
        """
        return self._declared(self.packages)

    @cached_property
    def declared(self) -> Mapping[str, Declaration]:
        """What the library and installed packages declare.

        Raises:
            ConfigurationError: when two things have one name.
        """
        installed = () if self.group is None else sorted({entry.module for entry in entry_points(group=self.group)})
        return self._declared((*self.packages, *installed))

    def __contains__(self, name: str) -> bool:
        # Looking for installed packages takes longer than reading the library's own.
        return name in self.own or name in self.declared

    def load(self, name: str) -> Any:
        """What a name stands for.

        Raises:
            ConfigurationError: for an unknown name, with the nearest.
        """
        if name not in self:
            raise ConfigurationError(
                f"there is no {self.kind} {name!r}{nearest(name.lower(), self.declared)}; a file is FILE.py:NAME"
            )
        return (self.own.get(name) or self.declared[name]).load()

    def find(self, name: str) -> Any:
        """What a name stands for, or what `FILE.py:NAME` names.

        Raises:
            ConfigurationError: for an unknown name, with the nearest; for a file alone or one without that name.
        """
        if name.endswith(".py"):
            raise ConfigurationError(
                f"{self.kind} {name!r} names a file alone; write {name}:NAME for a {self.kind} in it"
            )
        if ":" in name and name not in self:
            return load_object(name, self.kind)
        return self.load(name)

    def _declared(self, packages: tuple[str, ...]) -> Names:
        declared: dict[str, Declaration] = {}
        for package in packages:
            for one in sorted(self._scan(package), key=lambda one: one.name):
                other = declared.setdefault(hyphenated(one.name), one)
                if other is not one:
                    raise ConfigurationError(
                        f"{other.module} and {one.module} both declare the {self.kind} {one.name!r}; rename one"
                    )
        return Names(declared.values())

    def _scan(self, package: str) -> Iterator[Declaration]:
        for module, text in sources(package):
            for statement in _STATEMENT.split(text):
                if match := self.declaration.match(statement):
                    yield Declaration(module=module, **{key: value or "" for key, value in match.groupdict().items()})


_STATEMENT = re.compile(r"\n(?=[A-Za-z_@])")
"""Where a top-level statement begins."""


@functools.cache
def sources(package: str) -> tuple[tuple[str, str], ...]:
    """The modules of a package, or a module alone, and their source texts, sorted by name; nothing is imported."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # Of a package above it.
        spec = None
    if spec is None:
        return ()
    if spec.submodule_search_locations is None:
        return () if spec.origin is None else ((package, Path(spec.origin).read_text(encoding="utf-8")),)
    texts: dict[str, str] = {}
    for folder in map(Path, spec.submodule_search_locations):
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            if not SKIPPED.intersection(parts):
                texts[".".join((package, *parts)).removesuffix(".__init__")] = file.read_text(encoding="utf-8")
    return tuple(sorted(texts.items()))
