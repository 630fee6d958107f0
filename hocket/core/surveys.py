"""Surveys as maps: axes of cells, and what of the library is in each, by predicates over recipes' cards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hocket.core.analyses import Analysis

Entry = Mapping[str, Any]
"""A recipe's card, or the little that is known of a searcher, a solver or an analysis without importing it.

Its `kind` says which of the four it is; `ancestors` are its own name and those of its parents in turn, `classes` the
names of the classes that it is composed of.
"""


class Predicate(ABC):
    """A property of an entry; `&`, `|` and `~` combine them."""

    @abstractmethod
    def __call__(self, entry: Entry) -> bool:
        """Whether the entry has it."""

    @abstractmethod
    def traits(self) -> Iterator[Trait]:
        """The single properties that it is made of."""

    def __and__(self, other: Predicate) -> Predicate:
        return _Combined(all, (self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return _Combined(any, (self, other))

    def __invert__(self) -> Predicate:
        return _Without(self)


@dataclass(frozen=True)
class Trait(Predicate):
    """One property: of the entry's `what`, the `value`; see `TRAITS`."""

    what: str
    value: str

    def __call__(self, entry: Entry) -> bool:
        return TRAITS[self.what](entry, self.value)

    def traits(self) -> Iterator[Trait]:
        yield self

    def __str__(self) -> str:
        return f"{self.what}({self.value!r})"


@dataclass(frozen=True)
class _Combined(Predicate):
    how: Callable[..., bool]
    parts: tuple[Predicate, ...]

    def __call__(self, entry: Entry) -> bool:
        return self.how(part(entry) for part in self.parts)

    def traits(self) -> Iterator[Trait]:
        for part in self.parts:
            yield from part.traits()


@dataclass(frozen=True)
class _Without(Predicate):
    part: Predicate

    def __call__(self, entry: Entry) -> bool:
        return not self.part(entry)

    def traits(self) -> Iterator[Trait]:
        yield from self.part.traits()


TRAITS: Mapping[str, Callable[[Entry, str], bool]] = {
    "is_a": lambda entry, value: value in entry["ancestors"],
    "row": lambda entry, value: value in entry["catalogue_ids"],
    "family": lambda entry, value: value == entry["family"],
    "kind": lambda entry, value: value == entry["kind"],
    "reads": lambda entry, value: value in entry["needs"],
    "requires": lambda entry, value: value in entry["requires"],
    "survives": lambda entry, value: value in entry.get("survives", ()),
    "uses": lambda entry, value: value in entry["classes"],
    "fills": lambda entry, value: bool(entry["composition"].get(value)),
    "mentions": lambda entry, value: value in f"{entry['title']} {entry['formula']} {entry['note']}".lower(),
}
"""Every property, by the name of the function that makes its predicate."""


def is_a(recipe: str) -> Predicate:
    """This recipe (or searcher, solver, analysis) and all derived from it."""
    return Trait("is_a", recipe)


def row(name: str) -> Predicate:
    """The recipes of a row of the catalogue."""
    return Trait("row", name)


def family(name: str) -> Predicate:
    """Recipes of a family."""
    return Trait("family", name)


def kind(name: str) -> Predicate:
    """All entries that are a `recipe`, `searcher`, `solver` or `analysis`."""
    return Trait("kind", name)


def reads(quantity: str) -> Predicate:
    """Recipes whose stages need a quantity or a column: `value`, `action_value`, `reference`, `score`, ..."""
    return Trait("reads", quantity)


def requires(experience: str) -> Predicate:
    """Recipes that require this of the experience, in the words of `hocket.core.requirements`."""
    return Trait("requires", experience)


def survives(shift: str) -> Predicate:
    """Recipes that state that their policies stand a change of `agent count`, `goals`, `dynamics` or `partners`."""
    return Trait("survives", shift)


def uses(name: str) -> Predicate:
    """Recipes composed of a class, by its name without the module."""
    return Trait("uses", name)


def fills(slot: str) -> Predicate:
    """Recipes that put something of their own into an optional slot: `workflow`, `rewards`, `hooks`, `store`, ..."""
    return Trait("fills", slot)


def mentions(words: str) -> Predicate:
    """Entries with these words, in lower case, in title, formula or note."""
    return Trait("mentions", words)


def any_of(*predicates: Predicate) -> Predicate:
    """Entries with one of these properties."""
    return _Combined(any, predicates)


def rows(*names: str) -> Predicate:
    """The recipes of any of these rows."""
    return any_of(*map(row, names))


@dataclass(frozen=True)
class Gap:
    """Nothing of the library is here, and why.

    Attributes:
        why: a sentence. until: what would fill it; once an entry has this property, the gap must be replaced.
    """

    why: str
    until: Predicate


@dataclass(frozen=True)
class Cell:
    """A place of an axis, or a method that the survey names.

    Attributes:
        name: as typed in `--where AXIS=NAME`. words: what the survey puts there. holds: which entries are there.
    """

    name: str
    words: str
    holds: Predicate | Gap


@dataclass(frozen=True)
class Axis:
    """A question that a survey sorts methods by. A method may be in several of its cells."""

    name: str
    words: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class FieldSurvey(Analysis):
    """A survey as a row of the catalogue.

    Attributes:
        source: the paper. axes: its taxonomy. named: the methods that it names, each with where it is in the library.
        witness: what of its statements the row's claims show, in a sentence.
    """

    source: str = ""
    axes: tuple[Axis, ...] = ()
    named: tuple[Cell, ...] = ()
    witness: str = ""
    where: str = "docs/map.md"
    kind: str = "survey"
