"""Recipes for people and programs: lists, one in full, two compared, and the verdicts of checks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from hocket.apps.report.cards import Card, card_of, cards
from hocket.apps.report.chart import sparkline
from hocket.core.names import RECIPES
from hocket.lab.claims.atlas import Standing, standings
from hocket.lab.claims.claim import Verdict
from hocket.lab.claims.grades import UNRECORDED, RowGrade, evidence, graded
from hocket.lab.claims.learns_check import in_words
from hocket.lab.claims.record import status_of, verdicts_of

if TYPE_CHECKING:
    from hocket.recipe import Recipe

MARKS = {
    "works": "[green]works[/]",
    **{f"works ({what})": f"[green]works[/] [dim]({what})[/]" for what in ("exact", "stand-in", "formula")},
    "partial": "[yellow]partial[/]",
    "stale": "[yellow]stale[/]",
    "open": "[red]open[/]",
}
ATLAS_PAGE = "docs/atlas"
STALE = "the code has changed since its claims were last run"
UNSHIPPED = "its formulas hold, but no claim shows the recipe as shipped at work"

# ---------------------------------------------------------------- as data


def status(card: Card) -> str:
    """Of its catalogue rows; a standard method of the library that is no row works by the library's tests."""
    if card["catalogue_ids"]:
        return status_of(card["catalogue_ids"], card["note"])
    if not _ours(card["name"]):
        return "open"
    return "partial" if card["note"] else "works"


def grade(card: Card) -> RowGrade:
    """Of its catalogue rows, by what this recipe learnt; of a standard method without one by that alone."""
    if card["catalogue_ids"]:
        return graded(card["catalogue_ids"], (card["name"],), card["note"])
    state = status(card)
    if state != "works":
        return RowGrade("partial" if state == "partial" else "open", card["note"])
    learnt, figures, _ = evidence((), (card["name"],))
    return RowGrade("works" if learnt else "works (formula)", figures or UNRECORDED)


def _ours(name: str) -> bool:
    """Whether the library declares a recipe of this name; packages and files of users declare the others."""
    declared = RECIPES.declared.get(name)
    return declared is not None and declared.module.startswith("hocket.")


def as_row(card: Card) -> dict[str, Any]:
    """As in `hocket recipes --json`."""
    state = status(card)
    head = ("name", "title", "source", "catalogue_ids", "family", "axes", "parent", "needs", "task", "requires")
    checks = [verdict for row in card["catalogue_ids"] for verdict in verdicts_of(row)]
    return {
        **{name: card[name] for name in head},
        "checks": [verdict.to_json() for verdict in checks],
        "status": state,
        "grade": grade(card).grade,
        "atlas": {task: in_words(result) for task, result in standings(card["name"]).items()},
        "note": card["note"] or weaker(state, checks),
    }


def weaker(state: str, checks: Sequence[Verdict]) -> str:
    """Why a row that notes nothing does not work."""
    if state == "works" or state == "stale":
        return STALE if state == "stale" else ""
    if all(verdict.holds for verdict in checks) and not any(verdict.shipped for verdict in checks):
        return UNSHIPPED
    return "not all checks of its row have been run and held"


def in_full(card: Card) -> dict[str, Any]:
    """As in `hocket recipes NAME --json`."""
    parent = cards().get(card["parent"] or "")
    return {
        **as_row(card),
        "formula": card["formula"],
        "conventions": card["conventions"],
        "composition": card["composition"],
        "differs": [] if parent is None else [list(difference) for difference in differences(parent, card)],
    }


def differences(left: Card, right: Card) -> list[tuple[str, Any, Any]]:
    """The settings in which two recipes differ: dotted path, the one's value, the other's. A stage of another kind is
    one difference."""
    return list(_differing(left["composition"], right["composition"], ""))


def _differing(left: Any, right: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if left == right:
        return
    mappings = isinstance(left, Mapping) and isinstance(right, Mapping)
    if mappings and left.get("type") == right.get("type"):
        for name in {**left, **right}:
            yield from _differing(left.get(name), right.get(name), f"{where}.{name}" if where else name)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for place, (mine, other) in enumerate(zip(left, right, strict=True)):
            yield from _differing(mine, other, f"{where}.{place}")
    else:
        yield where, left, right


BATCHES = 20
"""Random batches on which two recipes are compared: half with rewards 0 and 1, half with graded ones."""


def relations(left: Recipe, right: Recipe) -> dict[str, str]:
    """How their gradients lie on random batches: on the policy's own samples, and after it has moved."""
    named = {}
    for name, gap in (("on-policy", 0.0), ("off-policy", 0.2)):
        kinds_by_batch = {_relation(left, right, number, gap) for number in range(BATCHES)}
        kinds = {kind.split(" ")[0] for kind in kinds_by_batch}
        if len(kinds_by_batch) == 1:
            named[name] = kinds_by_batch.pop()
        elif kinds <= {"equal", "proportional"}:
            named[name] = "proportional, by a factor that depends on the batch"
        else:
            named[name] = "different" if "different" in kinds else "; ".join(sorted(kinds_by_batch))
    return named


def _relation(left: Recipe, right: Recipe, number: int, gap: float) -> str:
    # Torch is loaded only here: lists and pages are read without.
    from hocket.core.errors import HocketError
    from hocket.core.keys import Key
    from hocket.lab.documents import random_document
    from hocket.lab.microscope import inspect, relation

    document = random_document(Key.of(number).derive("compare"), gap=gap, graded=number % 2 == 1)
    try:
        return relation(inspect(left, document), inspect(right, document))
    except (HocketError, ValueError) as error:
        return f"not computable from numbers alone: {error}"


# ---------------------------------------------------------------- for people


def listing(recipes: Iterable[Card]) -> Group:
    """By family, one line each."""
    families: dict[str, list[Card]] = {}
    for recipe in recipes:
        families.setdefault(recipe["family"], []).append(recipe)
    parts: list[Any] = []
    for family, members in sorted(families.items()):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for recipe in sorted(members, key=lambda member: str(member["name"])):
            mark = MARKS[grade(recipe).grade] if recipe["catalogue_ids"] else "[dim]standard[/]"
            parent = recipe["parent"] or ""
            table.add_row(f"  [bold]{recipe['name']}[/]", mark, escape(recipe["title"]), f"[dim]{parent}[/]")
        parts += [f"[cyan]{family}[/] ({len(members)})", table, ""]
    return Group(*parts, "[dim]the last column names the method it is derived from; hocket recipes NAME shows one[/]")


def page(recipe: Card, written: str) -> Group:
    """One recipe in full; `written` is what a command writes for it, a name or `FILE.py:NAME`."""
    parent = cards().get(recipe["parent"] or "")
    derived = parent is not None and parent["title"] == recipe["title"]
    title, source = ("", f"a variant of {recipe['parent']}") if derived else (recipe["title"], recipe["source"])
    lines: list[Any] = [
        f"[bold]{recipe['name']}[/]{escape(title and f'  {title}')}",
        f"[dim]{escape(source)}[/]\n",
        escape(_wrapped(f"  {recipe['formula']}") + "\n"),
    ]
    if recipe["note"]:
        lines.append(f"[yellow]note[/] {escape(_wrapped(recipe['note']))}\n")
    if parent is not None:
        lines += [f"[dim]differs from[/] [bold]{parent['name']}[/]", difference_table(parent, recipe), ""]
    if recipe["requires"]:
        lines.append(f"[dim]requires[/] {escape(' and '.join(recipe['requires']))}")
    task = f" [dim](on the task {escape(recipe['task'])})[/]" if recipe["task"] else ""
    lines.append(f"[dim]runs as[/] hocket train --recipe {escape(written)}{task}\n")
    lines.append("[dim]conventions[/]")
    lines += [escape(_wrapped(f"  {name}: {choice}")) for name, choice in recipe["conventions"].items()]
    shown = yaml.safe_dump(recipe["composition"], sort_keys=False, width=100)
    lines += ["\n[dim]composition (every line is a flag, e.g. --objective.low 0.1)[/]", escape(shown)]
    result = grade(recipe)
    lines.append(f"[dim]grade[/] {MARKS[result.grade]} {escape(_wrapped(result.why))}")
    if by_task := standings(recipe["name"]):
        lines += [f"[dim]learnt as shipped ({ATLAS_PAGE})[/]", *standing_lines(by_task), ""]
    checks = [verdict for row in recipe["catalogue_ids"] for verdict in verdicts_of(row)]
    if checks:
        changed = f"; {STALE}" if status(recipe) == "stale" else ""
        lines += [f"[dim]checks, as last run{changed}[/]", verdict_table(checks)]
    return Group(*lines)


def difference_table(left: Card, right: Card) -> Table:
    """A row per setting."""
    table = Table(box=None, header_style="dim")
    for heading in ("setting", left["name"], right["name"]):
        table.add_column(heading, overflow="fold")
    for path, mine, other in differences(left, right):
        table.add_row(path, escape(_brief(mine)), escape(_brief(other)))
    return table


def comparison(left: Recipe, right: Recipe) -> Group:
    """Two recipes side by side: settings, conventions, and how their gradients lie on random batches."""
    table = Table(box=None, header_style="dim")
    for heading in ("convention", left.name, right.name):
        table.add_column(heading, overflow="fold")
    for name in {**left.conventions, **right.conventions}:
        mine, other = left.conventions.get(name, "–"), right.conventions.get(name, "–")
        if mine != other:
            table.add_row(name, escape(mine), escape(other))
    lies = [f"gradients {name}: [bold]{escape(relation)}[/]" for name, relation in relations(left, right).items()]
    formulas = [escape(f"{recipe.name:>16}  {recipe.formula}") for recipe in (left, right)]
    return Group(*formulas, "", difference_table(card_of(left), card_of(right)), "", table, "", *lies)


def standing_lines(by_task: Mapping[str, Standing]) -> list[str]:
    """By task the curve of unseen success, its ends, and the difference from what the recipe is compared with."""
    lines = []
    for task, result in by_task.items():
        curve = sparkline([point.value for point in result.runs[0].curve])
        lines.append(f"  {curve}  {escape(_wrapped(f'{task}: {in_words(result)}'))}")
    return lines


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """A row per check."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 1))
    for verdict in verdicts:
        mark = "[green]holds[/]" if verdict.holds else "[red]fails[/]"
        table.add_row(
            mark, f"{escape(verdict.claim)}\n[dim]{escape(verdict.saw)}[/]", f"[dim]{verdict.seconds:.1f} s[/]"
        )
    return table


def _wrapped(text: str) -> str:
    """Long texts in lines of a width that a terminal has."""
    return textwrap.fill(text, 110, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False)


def _brief(value: Any) -> str:
    """A plain value in a line: stages as `Name(changed settings)`."""
    if isinstance(value, Mapping) and "type" in value:
        inner = ", ".join(f"{name}={_brief(item)}" for name, item in value.items() if name != "type")
        return f"{str(value['type']).replace(':', '.').rsplit('.', 1)[-1]}({inner})"
    if isinstance(value, list):
        return "[" + ", ".join(_brief(item) for item in value) + "]"
    return "null" if value is None else str(value)
