"""`hocket recipes`, `primitives` and `catalogue`."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from hocket.apps.cli.lists import chosen
from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.names import RECIPES

if TYPE_CHECKING:
    from hocket.lab.claims.claim import Check, Verdict
    from hocket.lab.claims.mutation import MutantOutcome


def recipes(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket recipes`."""
    if options.check is not None:
        return _check(options)
    if options.mutate:
        return _mutate(options)
    if options.docs:
        from hocket.apps.report.method_docs import write_docs

        print(*write_docs(Path(options.docs)), sep="\n")
    elif options.compare:
        return _compare(*options.compare, as_json=options.json)
    else:
        _recipes(options)
    return 0


def _recipes(options: argparse.Namespace) -> None:
    """One recipe in full, and the list; a name may be that of a recipe and of a family."""
    from hocket.apps.report import lists, methods
    from hocket.apps.report.cards import card, cards

    entries = lists.recipes()
    if options.name and (options.name in RECIPES or not lists.of_family(entries, options.name)):
        recipe = card(options.name)
        if options.json:
            return emit(methods.in_full(recipe))
        written = options.name if ":" in options.name else str(recipe["name"])
        out().print(methods.page(recipe, written))
        if not lists.of_family(entries, options.name):
            return None
    listed = [cards()[entry.name] for entry in chosen(options, "recipe", "standard methods", entries)]
    if options.json:
        emit([methods.as_row(row) for row in listed])
    elif listed:
        out().print(methods.listing(listed))
    return None


def _compare(left: str, right: str, *, as_json: bool) -> int:
    """Two recipes side by side."""
    from hocket.apps.report import methods
    from hocket.apps.report.cards import card
    from hocket.recipes import find

    if not as_json:
        out().print(methods.comparison(find(left), find(right)))
        return 0
    differences = methods.differences(card(left), card(right))
    rows = [{"setting": path, left: mine, right: other} for path, mine, other in differences]
    emit({"recipes": [left, right], "differences": rows, "gradients": methods.relations(find(left), find(right))})
    return 0


def _check(options: argparse.Namespace) -> int:
    """Runs the checks of catalogue rows and prints what they found; exit 1 when a claim does not hold."""
    from hocket.apps.report.methods import verdict_table
    from hocket.lab.claims.record import fresh, keep, stale_rows
    from hocket.lab.claims.registry import checks_of, files
    from hocket.lab.claims.running import run_checks

    rows = options.check or (stale_rows() if options.stale else list(files()))
    unknown = next((row for row in rows if not checks_of(row)), None)
    if unknown is not None:
        raise ConfigurationError(f"no check is known for {unknown!r}{nearest(unknown, files())}")
    checks = {row: checks_of(row) for row in rows}
    wanted = [check for row in rows for check in checks[row] if not (options.quick and check.slow)]
    if options.stale:
        known = {(check.row, check.claim) for check in fresh(wanted)}
        wanted = [check for check in wanted if (check.row, check.claim) not in known]
    console = err()
    verdicts: list[Verdict] = []
    for verdict in run_checks(wanted, options.workers):
        verdicts.append(verdict)
        mark = "[green]holds[/]" if verdict.holds else "[red]fails[/]"
        console.print(f"[dim]{len(verdicts)}/{len(wanted)}[/] {mark} {verdict.row}: {escape(verdict.claim)}")
        if options.keep:
            keep(verdicts, checks)
    verdicts = _as_asked(verdicts, wanted)
    if options.json:
        by_row = {
            row: [verdict for verdict in verdicts if verdict.row == row]
            for row in dict.fromkeys(verdict.row for verdict in verdicts)
        }
        held = {row: "works" if all(verdict.holds for verdict in ones) else "fails" for row, ones in by_row.items()}
        emit(
            [
                {"id": row, "verdict": held[row], "checks": [verdict.to_json() for verdict in ones]}
                for row, ones in by_row.items()
            ]
        )
    else:
        out().print(verdict_table(verdicts))
        failed = sum(not verdict.holds for verdict in verdicts)
        out().print(f"{len(verdicts) - failed} of {len(verdicts)} claims hold")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def _mutate(options: argparse.Namespace) -> int:
    """Runs the claims of rows on wrong versions of their methods; exit 1 when one survives without a reason."""
    from hocket.lab.claims import survey
    from hocket.lab.claims.mutation import mutate, surveyed

    console = err()
    outcomes: dict[str, list[MutantOutcome]] = {}
    slow, reach = not options.quick, options.reach
    if options.keep and (foreign := next((row for row in options.mutate if row.endswith(".py")), None)):
        raise ConfigurationError(f"--keep saves results of the library's own rows; drop it for {foreign}")
    for row in options.mutate:
        known = survey.standing(row, reach=reach) if options.keep else None
        outcomes[row] = []
        for mutant in mutate(row, slow=slow, workers=options.workers, known=known, reach=reach):
            outcomes[row].append(mutant)
            if mutant.killed is None:
                mark = "[yellow]spared[/]" if mutant.reason else "[red]survives[/]"
                where = f"line {mutant.line}: " if mutant.line else ""
                console.print(f"{mark} {row}: {where}{escape(mutant.mutant)}{escape(_because(mutant.reason))}")
        after = surveyed(row, outcomes[row], slow=slow, known=known, reach=reach)
        if options.keep:
            survey.keep(row, after, reach=reach)
        spared = sum(mutant.reason is not None for mutant in outcomes[row])
        noticed = after.tried - len(after.unnoticed)
        console.print(f"{row}: {noticed} of {after.tried} wrong versions detected, {spared} excused with a reason")
    if options.json:
        emit(
            [{"id": row, "mutants": [dataclasses.asdict(mutant) for mutant in ones]} for row, ones in outcomes.items()]
        )
    return 0 if all(mutant.killed or mutant.reason for ones in outcomes.values() for mutant in ones) else 1


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _as_asked(verdicts: Sequence[Verdict], checks: Sequence[Check]) -> list[Verdict]:
    place = {(check.row, check.claim): number for number, check in enumerate(checks)}
    return sorted(verdicts, key=lambda verdict: place[verdict.row, verdict.claim])


def primitives(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket primitives`."""
    if options.unused:
        return _unused(as_json=options.json)
    from rich.table import Table

    from hocket.apps.report.primitives import ROOMS
    from hocket.apps.report.primitives import primitives as everything

    if options.stage is not None and options.stage not in ROOMS:
        raise ConfigurationError(f"--stage {options.stage}: there is no such stage{nearest(options.stage, ROOMS)}")
    listed = [primitive for primitive in everything() if options.stage in (None, primitive.stage)]
    if options.json:
        emit([dataclasses.asdict(primitive) for primitive in listed])
        return 0
    for room, what in ROOMS.items():
        in_room = [primitive for primitive in listed if primitive.stage == room]
        if in_room:
            table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), title_justify="left")
            for primitive in in_room:
                used = ", ".join(primitive.recipes[:4]) + (
                    f" and {len(primitive.recipes) - 4} more" if len(primitive.recipes) > 4 else ""
                )
                table.add_row(f"  [bold]{primitive.name}[/]", escape(primitive.summary), f"[dim]{used}[/]")
            out().print(f"[cyan]{room}[/] ({len(in_room)}): {what.lower()}", table, "", sep="\n")
    return 0


def _unused(*, as_json: bool) -> int:
    """Definitions that neither the engine nor two rows use, by module."""
    from rich.table import Table

    from hocket.apps.report.usage import unused

    few = unused()
    if as_json:
        emit([usage.to_json() for usage in few])
        return 0
    for module, members in itertools.groupby(few, key=lambda usage: usage.definition.module):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for usage in members:
            table.add_row(
                f"  [bold]{usage.definition.name}[/]", f"{usage.definition.lines} lines", f"[dim]{usage.users}[/]"
            )
        out().print(f"[cyan]{module}[/]", table, sep="\n")
    lines = sum(usage.definition.lines for usage in few)
    out().print(f"{len(few)} definitions with one user or none, {lines} lines")
    return 0


def catalogue(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket catalogue`."""
    from hocket.apps.report import catalogue as published

    rows = published.catalogue()
    if options.json:
        emit([row.to_json() for row in rows])
    else:
        out().print(published.rows_table(rows))
        out().print(f"in all: {published.counts(rows)}; docs/catalogue.md names the open ones")
    return 0
