"""The map of the field: what the library has in each cell of a survey's taxonomy, and what it lacks."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.agents.search.searcher import SEARCHERS
from hocket.apps.report.cards import Card, cards
from hocket.core.discovery import Registry
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.names import ANALYSES, SURVEYS
from hocket.core.surveys import Axis, Cell, Entry, FieldSurvey, Gap, Predicate
from hocket.lab.exact.solver import SOLVERS

SHOWN = 8
"""How many members of a cell the page and the terminal name."""


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Everything that can be in a cell: recipes, then searchers, solvers and analyses that are no recipe's name."""
    recipes = map(entry_of, cards().values())
    others: Mapping[str, Registry] = {"searcher": SEARCHERS, "solver": SOLVERS, "analysis": ANALYSES}
    return (
        *recipes,
        *(
            _other(declared.name, kind, declared.description)
            for kind, registry in others.items()
            for declared in registry.declared.values()
            if declared.name not in SURVEYS.declared
        ),
    )


def entry_of(card: Card) -> Entry:
    """A recipe's card as an entry."""
    return {**card, "kind": "recipe", "ancestors": _ancestors(card), "classes": _classes(card["composition"])}


def _ancestors(card: Card) -> tuple[str, ...]:
    """A recipe's name and those of its parents, in turn."""
    parent = card["parent"]
    earlier = () if parent is None else _ancestors(cards()[parent]) if parent in cards() else (parent,)
    return (card["name"], *earlier)


def _classes(plain: Any) -> frozenset[str]:
    """The names of all classes in a composition."""
    if isinstance(plain, Mapping):
        outermost = {str(plain["type"]).rpartition(".")[2]} if "type" in plain else set[str]()
        return frozenset(outermost).union(*map(_classes, plain.values()))
    return frozenset().union(*map(_classes, plain)) if isinstance(plain, (list, tuple)) else frozenset()


def _other(name: str, kind: str, description: str) -> Entry:
    names = {"name": name, "kind": kind, "title": description, "ancestors": (name,), "catalogue_ids": (name,)}
    empty = {**dict.fromkeys(("needs", "requires", "classes"), ()), **dict.fromkeys(("formula", "note", "family"), "")}
    return {**names, **empty, "composition": {}}


def members(holds: Predicate | Gap) -> tuple[str, ...]:
    """The names of the entries in a cell, those derived from fewest others first; none in a gap."""
    inside = [] if isinstance(holds, Gap) else [entry for entry in entries() if holds(entry)]
    return tuple(entry["name"] for entry in sorted(inside, key=lambda entry: len(entry["ancestors"])))


# ---------------------------------------------------------------- what must hold


def problems(survey: FieldSurvey) -> list[str]:
    """What is wrong with a map, in sentences: empty cells without a reason, filled gaps, names of nothing."""
    cells = [(f"{axis.name}={cell.name}", cell) for axis in survey.axes for cell in axis.cells]
    wrong = [(place, _problem(cell.holds)) for place, cell in cells]
    wrong += [(f"the named method {cell.name}", _problem(cell.holds)) for cell in survey.named]
    return [f"{survey.name}: {place}: {problem}" for place, problem in wrong if problem]


def _problem(holds: Predicate | Gap) -> str:
    if isinstance(holds, Gap):
        filled = members(holds.until)
        return f"the gap is filled by {filled[0]}; put that in its place" if filled else ""
    unmatched = next((trait for trait in holds.traits() if not any(map(trait, entries()))), None)
    if unmatched is not None:
        return f"nothing in the library is {unmatched}; correct it, or write Gap('why')"
    return "" if members(holds) else "nothing is there; write Gap('why')"


def _checked(surveys: Sequence[FieldSurvey]) -> None:
    wrong = [sentence for survey in surveys for sentence in problems(survey)]
    if wrong:
        raise ConfigurationError("the map does not fit the library: " + "; ".join(wrong))


# ---------------------------------------------------------------- what is asked of it


@dataclass(frozen=True)
class SurveySelection:
    """A survey, and the names of the entries that are in all of the chosen cells.

    Attributes:
        where: the chosen cells by axis. names: the entries; None where no cell is chosen.
    """

    survey: FieldSurvey
    where: Mapping[str, str]
    names: tuple[str, ...] | None

    def to_json(self) -> dict[str, Any]:
        """As in `hocket map SURVEY --json`."""
        plain: dict[str, Any] = {name: getattr(self.survey, name) for name in ("name", "title", "source", "witness")}
        if self.names is not None:
            return {**plain, "where": dict(self.where), "members": list(self.names)}
        axes = {axis.name: {cell.name: _plain(cell) for cell in axis.cells} for axis in self.survey.axes}
        return {**plain, "axes": axes, "named": {cell.name: _plain(cell) for cell in self.survey.named}}


def _plain(cell: Cell) -> dict[str, Any]:
    gap = cell.holds.why if isinstance(cell.holds, Gap) else None
    return {"words": cell.words, "members": list(members(cell.holds)), "gap": gap}


def surveys() -> list[FieldSurvey]:
    """Every survey, by name."""
    return [SURVEYS.load(name) for name in sorted(SURVEYS.declared)]


def selected(name: str, where: Sequence[str]) -> SurveySelection:
    """A survey, of which `where` chooses cells, each written AXIS=CELL.

    Raises:
        ConfigurationError: for an unknown survey, axis or cell, with the nearest.
    """
    if name not in SURVEYS:
        raise ConfigurationError(
            f"there is no survey {name!r}{nearest(name, SURVEYS.declared)}; `hocket map` lists them"
        )
    survey: FieldSurvey = SURVEYS.load(name)
    chosen: dict[str, str] = {}
    names: set[str] | None = None
    for text in where:
        axis_name, equals, cell_name = text.partition("=")
        if not equals:
            raise ConfigurationError(f"--where {text}: write AXIS=CELL, such as {_example(survey)}")
        axis = _named(survey.axes, axis_name, f"--where {text}: {name} has no axis")
        cell = _named(axis.cells, cell_name, f"--where {text}: axis {axis_name} of {name} has no cell")
        chosen[axis.name] = cell.name
        names = set(members(cell.holds)) if names is None else names & set(members(cell.holds))
    ordered = None if names is None else tuple(entry["name"] for entry in entries() if entry["name"] in names)
    return SurveySelection(survey, chosen, ordered)


def _named(among: Sequence[Any], name: str, refusal: str) -> Any:
    by_name = {item.name: item for item in among}
    if name not in by_name:
        raise ConfigurationError(f"{refusal} {name!r}{nearest(name, by_name)}; choose from {', '.join(by_name)}")
    return by_name[name]


def _example(survey: FieldSurvey) -> str:
    axis = survey.axes[0]
    return f"{axis.name}={axis.cells[0].name}"


# ---------------------------------------------------------------- how it is shown


def surveys_table() -> Table:
    """Every survey: how many of its cells and named methods the library has."""
    table = Table(box=None, header_style="dim")
    for heading in ("survey", "cells", "methods named", "gaps", "axes"):
        table.add_column(heading, no_wrap=heading == "survey", overflow="fold")
    for survey in surveys():
        cells = [cell for axis in survey.axes for cell in axis.cells]
        gaps = sum(isinstance(cell.holds, Gap) for cell in (*cells, *survey.named))
        axes = ", ".join(axis.name for axis in survey.axes)
        table.add_row(f"[bold]{survey.name}[/]", str(len(cells)), str(len(survey.named)), str(gaps), escape(axes))
    return table


def survey_table(survey: FieldSurvey) -> Table:
    """A survey cell by cell."""
    table = Table(box=None, header_style="dim")
    for heading in ("cell", "the survey's words", "in the library"):
        table.add_column(heading, no_wrap=heading == "cell", overflow="fold")
    for axis in _axes(survey):
        for cell in axis.cells:
            prefix = f"{axis.name}=" if axis.name else ""
            table.add_row(f"{escape(prefix)}[bold]{escape(cell.name)}[/]", escape(cell.words), escape(_held(cell)))
    return table


def _axes(survey: FieldSurvey) -> tuple[Axis, ...]:
    """Its axes, with the named methods as the last, nameless one."""
    return (*survey.axes, Axis("", "The methods that it names.", survey.named)) if survey.named else survey.axes


def _held(cell: Cell, mark: str = "") -> str:
    """The first members of a cell and how many more there are, or why there are none."""
    if isinstance(cell.holds, Gap):
        return f"gap: {cell.holds.why}"
    names = members(cell.holds)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"{mark}{name}{mark}" for name in names[:SHOWN]) + more


def map_page() -> str:
    """Every survey's taxonomy with what the library has in it.

    Raises:
        ConfigurationError: where a map does not fit the library (`problems`).
    """
    known = surveys()
    _checked(known)
    lines = [
        "# Map of the field",
        "",
        "The taxonomies of published surveys, with what the library has in each cell. Generated by",
        "`hocket recipes --docs docs` from `hocket/methods/surveys`, whose predicates read the recipes' cards. The",
        "page is not written while a cell is empty without a reason, a stated gap is filled, or a name is of nothing.",
        "`hocket map SURVEY` shows one in the terminal, `hocket map SURVEY --where AXIS=CELL` the recipes of a cell,",
        "of several cells those that are in all.",
    ]
    for survey in known:
        lines += ["", f"## {survey.name}", "", f"{survey.title}. {survey.source}.", ""]
        lines += [f"What runs: {survey.witness} (`hocket recipes --check {survey.name}`)."]
        for axis in _axes(survey):
            first = axis.name or "method"
            lines += ["", axis.words, "", f"| {first} | in the survey's words | in the library |", "|---|---|---|"]
            for cell in axis.cells:
                shown = (cell.name, cell.words, _held(cell, "`"))
                lines.append("| " + " | ".join(text.replace("|", "\\|") for text in shown) + " |")
    return "\n".join(lines) + "\n"
