"""Registries of recipes, workflows and tasks by name. A definition is found in source text and imported on demand.

A definition contains its name: `name = "debate"` in the body of a class, or `name="grpo"` as the first argument of a
call that makes a constant. So the names of a package are read from its files without imports, and moving a definition
to another file changes no table. Names are spelled with hyphens; a lookup treats underscores as hyphens.

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

from hocket.core.errors import LIST_LIMIT, ConfigurationError, nearest, suggestion
from hocket.core.user_files import load_object

CLASS = re.compile(
    r'class (?P<attribute>\w+)\b(?!\(\w*Task\)).*?\n    name = "(?P<name>[^"\n]+)"'
    r'(?:\n    description = "(?P<description>[^"\n]+)")?',
    re.DOTALL,
)
"""A class whose body has `name = "..."` and, optionally, `description = "..."` in the next line; no class of tasks."""

SKIPPED = frozenset({"claims"})
"""Folders without declarations."""


def constant(*makers: str) -> re.Pattern[str]:
    r"""The pattern of `X = MAKER(name="...", description="...", family="...")`; the last two are optional.

    Args:
        makers: regular expressions of the called function, such as `Recipe` or `\w+\.but`.
    """
    return re.compile(
        rf'(?P<attribute>\w+)(?:: \w+)? = (?:{"|".join(makers)})\(\s*name="(?P<name>[^"\n]+)"'
        r'(?:,\s*description="(?P<description>[^"\n]+)")?(?:,\s*family="(?P<family>[^"\n]+)")?'
    )


@dataclass(frozen=True)
class Declaration:
    """A declared name, and the class or constant `attribute` of `module` that it refers to."""

    name: str
    module: str
    attribute: str
    description: str = ""
    family: str = ""

    def load(self) -> Any:
        """The declared object; imports its module."""
        return getattr(importlib.import_module(self.module), self.attribute)


def hyphenated(name: str) -> str:
    """A name with hyphens in place of underscores."""
    return name.replace("_", "-")


class Names(Mapping[str, Declaration]):
    """Declarations by name; a lookup treats underscores as hyphens."""

    def __init__(self, declared: Iterable[Declaration] = ()) -> None:
        self._declared = {hyphenated(declaration.name): declaration for declaration in declared}

    def __getitem__(self, name: str) -> Declaration:
        return self._declared[hyphenated(name)]

    def __iter__(self) -> Iterator[str]:
        return (declaration.name for declaration in self._declared.values())

    def __len__(self) -> int:
        return len(self._declared)


@dataclass(frozen=True)
class Registry:
    """All objects of one kind by name.

    Attributes:
        kind: the kind, for messages.
        packages: the packages with the library's declarations; a package that does not exist counts as empty.
        declaration: the pattern of a declaring top-level statement, with groups `attribute`, `name` and optionally
            `description`.
        group: the entry-point group under which installed packages name modules or packages with further declarations.
    """

    kind: str
    packages: tuple[str, ...]
    declaration: re.Pattern[str]
    group: str | None = "hocket.methods"

    @cached_property
    def own(self) -> Mapping[str, Declaration]:
        """The declarations of the library, package by package, in alphabetical order.

        Raises:
            ConfigurationError: when two declarations have the same name.
        """
        return self._declared(self.packages)

    @cached_property
    def declared(self) -> Mapping[str, Declaration]:
        """The declarations of the library and of installed packages.

        Raises:
            ConfigurationError: when two declarations have the same name.
        """
        installed = () if self.group is None else sorted({entry.module for entry in entry_points(group=self.group)})
        return self._declared((*self.packages, *installed))

    def __contains__(self, name: str) -> bool:
        # Looking up installed packages takes longer than reading the library's files.
        return name in self.own or name in self.declared

    def load(self, name: str) -> Any:
        """The object with a name.
        Raises:
            ConfigurationError: for an unknown name, with the nearest.
        """
        if name not in self:
            raise ConfigurationError(f"there is no {self.kind} {name!r}{self._hint(name.lower())}")
        return (self.own.get(name) or self.declared[name]).load()

    def _hint(self, word: str) -> str:
        """The nearest names, and where to look if they are many."""
        if len(self.declared) <= LIST_LIMIT:
            return f"{nearest(word, self.declared)}; a file is FILE.py:NAME"
        return suggestion(
            word, self.declared, f"`hocket {self.kind}s --search WORD` finds others; a file is FILE.py:NAME"
        )

    def find(self, name: str) -> Any:
        """The object with a name, or the object `FILE.py:NAME`.

        Raises:
            ConfigurationError: for an unknown name, with the nearest; for a file without `:NAME`, or without that name.
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
            for item in sorted(self._scan(package), key=lambda item: item.name):
                other = declared.setdefault(hyphenated(item.name), item)
                if other is not item:
                    raise ConfigurationError(
                        f"{other.module} and {item.module} both declare the {self.kind} {item.name!r}; rename one"
                    )
        return Names(declared.values())

    def _scan(self, package: str) -> Iterator[Declaration]:
        for module, text in sources(package):
            for statement in _STATEMENT.split(text):
                if match := self.declaration.match(statement):
                    yield Declaration(module=module, **{key: value or "" for key, value in match.groupdict().items()})


_STATEMENT = re.compile(r"\n(?=[A-Za-z_@])")
"""The line break before a top-level statement."""


@functools.cache
def sources(package: str) -> tuple[tuple[str, str], ...]:
    """The modules of a package, or a single module, with their source texts, sorted by name; nothing is imported."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # A parent package does not exist.
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
