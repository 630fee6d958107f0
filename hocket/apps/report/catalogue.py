"""The catalogue: every published row that hocket sets out to hold, and how far it has come with each.

`methods/rows.yaml` names them, by field. A row is a recipe's, or that of an analysis.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from rich.markup import escape
from rich.table import Table

from hocket.agents.search.searcher import SEARCHERS
from hocket.apps.cli.command import ROW_COMMANDS, Command
from hocket.apps.report.cards import cards
from hocket.apps.report.methods import MARKS, weaker
from hocket.core.discovery import Registry
from hocket.core.names import ANALYSES
from hocket.lab.claims.claim import Verdict
from hocket.lab.claims.digests import METHODS
from hocket.lab.claims.grades import GRADES, Grade, graded
from hocket.lab.claims.record import Status, status_of, verdicts_of
from hocket.lab.exact.solver import SOLVERS

COMMANDS = ((SEARCHERS, "hocket optimise --searcher"), (SOLVERS, "hocket solve --method"))
"""Where methods are found that are no recipe, and how a user runs them; commands that rows bring have others."""


@dataclass(frozen=True)
class CatalogueRow:
    """A row of the catalogue.

    Attributes:
        id, title: as published. field: what it belongs to. state: how far it has come by its claims. grade: also by
            what its recipes learnt. note: what is weaker, why, or what was seen.
        where: its recipes, or the page of an analysis. verdicts: what was found of its claims.
    """

    id: str
    title: str
    field: str
    state: Status
    grade: Grade
    note: str
    where: tuple[str, ...]
    verdicts: Sequence[Verdict] = ()

    @property
    def held(self) -> int:
        """How many of its claims held."""
        return sum(verdict.holds for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """As in `hocket catalogue --json`."""
        plain = {name: getattr(self, name) for name in ("id", "title", "field", "note")}
        return {
            **plain,
            "status": self.state,
            "grade": self.grade,
            "where": list(self.where),
            "checks": [verdict.to_json() for verdict in self.verdicts],
        }


def catalogue() -> list[CatalogueRow]:
    """Every row, field by field; those that recipes name beside them at the end of the list."""
    known, recipes = _names(), _recipes()
    rows = [_row(name, title, field) for field, titles in known.items() for name, title in titles.items()]
    listed = {row.id for row in rows}
    others = (name for name in (*recipes, *ANALYSES.declared) if name not in listed)
    return [
        *rows,
        *(_row(name, cards()[recipes[name][0]]["title"] if name in recipes else name, "") for name in others),
    ]


def _row(name: str, title: str, field: str) -> CatalogueRow:
    recipes, verdicts = tuple(_recipes().get(name, ())), verdicts_of(name)
    if name in ANALYSES.declared:
        state, where = status_of((name,), "", ships=False), (*recipes, ANALYSES.load(name).where)
        exact = not any(verdict.learns for verdict in verdicts)
        result = graded((name,), recipes, "", exact=exact, ships=False)
        return CatalogueRow(
            name, title, field, state, result.grade, weaker(state, verdicts) or result.why, where, verdicts
        )
    for registry, command in _commands():
        if name not in registry.declared:
            continue
        method = registry.load(name)
        state = status_of((name,), method.note)
        where = (*recipes, f"{command} {name}")
        result = graded((name,), recipes, method.note, exact=registry is SOLVERS)
        note = method.note or weaker(state, verdicts) or result.why
        return CatalogueRow(name, title, field, state, result.grade, note, where, verdicts)
    if not recipes:
        return CatalogueRow(name, title, field, "open", "open", "", ())
    note = " ".join(dict.fromkeys(cards()[recipe]["note"] for recipe in recipes if cards()[recipe]["note"]))
    state, result = status_of((name,), note), graded((name,), recipes, note)
    shown = (note if result.grade == state else "") or weaker(state, verdicts) * (result.grade == state) or result.why
    return CatalogueRow(name, title, field, state, result.grade, shown, recipes, verdicts)


@functools.cache
def _commands() -> Sequence[tuple[Registry, str]]:
    """Those of `COMMANDS`, and those that rows bring."""
    brought: list[Command] = [ROW_COMMANDS.load(name) for name in ROW_COMMANDS.declared]
    return (*COMMANDS, *((command.methods, command.usage) for command in brought if command.methods is not None))


@functools.cache
def _names() -> Mapping[str, Mapping[str, str]]:
    """The titles of all rows by id, by field."""
    titles: Mapping[str, Mapping[str, str]] = yaml.safe_load((METHODS / "rows.yaml").read_text(encoding="utf-8"))
    return titles


@functools.cache
def _recipes() -> Mapping[str, Sequence[str]]:
    """The recipes of every row that has some."""
    where: dict[str, list[str]] = {}
    for recipe in cards().values():
        for row in recipe["catalogue_ids"]:
            where.setdefault(row, []).append(recipe["name"])
    return where


def rows_table(rows: Sequence[CatalogueRow]) -> Table:
    """Every row that is not open: its state, how many of its claims held, and where it stands."""
    table = Table(box=None, header_style="dim")
    for heading in ("row", "grade", "claims that held", "where"):
        table.add_column(heading, no_wrap=heading == "row", overflow="fold")
    for row in sorted((entry for entry in rows if entry.state != "open"), key=lambda entry: entry.id):
        held = f"{row.held} of {len(row.verdicts)}"
        table.add_row(f"[bold]{row.id}[/]", MARKS[row.grade], held, escape(", ".join(row.where)))
    return table


def counts(rows: Sequence[CatalogueRow]) -> str:
    """How many rows have which grade, in a line."""
    by_grade = {grade: sum(row.grade == grade for row in rows) for grade in GRADES}
    return ", ".join(f"{count} {grade}" for grade, count in by_grade.items() if count)


def catalogue_page() -> str:
    """Every row by field: its state, why it is not whole, and where it stands."""
    rows = catalogue()
    lines = [
        "# Catalogue",
        "",
        "Every published method that hocket sets out to hold. Generated by `hocket recipes --docs docs`;",
        "`hocket catalogue` lists what there is in the terminal. In every row that works all claims hold, nothing is",
        "noted as weaker, and its own part acts in the recipe as a user runs it. What it learns is read from claims",
        "and from [the atlas](atlas/index.md).",
        "",
        f"In all: {counts(rows)}.",
        "",
        "| grade | rows | meaning |",
        "|---|---|---|",
        *(f"| {grade} | {sum(row.grade == grade for row in rows)} | {text} |" for grade, text in GRADES.items()),
    ]
    for field in dict.fromkeys(row.field for row in rows):
        in_field = [row for row in rows if row.field == field]
        lines += [
            "",
            f"## {field.replace('-', ' ').capitalize() or 'Besides'}",
            "",
            f"{counts(in_field).capitalize()}.",
            "",
        ]
        done = [row for row in in_field if row.state != "open"]
        if done:
            lines += ["| row | grade | claims that held | recipes |", "|---|---|---|---|"]
            lines += [_line(row) for row in done]
        left = ", ".join(f"{row.id} ({row.title})" for row in in_field if row.state == "open")
        lines += ["", f"Open: {left}."] if left else []
    return "\n".join(lines) + "\n"


def _line(row: CatalogueRow) -> str:
    note = f": {row.note}" if row.note else ""
    where = ", ".join(f"`{recipe}`" for recipe in row.where)
    cells = (f"{row.id}: {row.title}", f"{row.grade}{note}", f"{row.held} of {len(row.verdicts)}", where)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
