"""`hocket recipes`, `primitives` and `catalogue`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape

from hocket.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError, nearest


def recipes(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket recipes`."""
    from hocket.recipes import all_recipes, find
    from hocket.report import methods

    if options.check is not None:
        return _check(options)
    if options.docs:
        from hocket.report.method_docs import write_docs

        print(*write_docs(Path(options.docs)), sep="\n")
    elif options.compare:
        left, right = (find(name) for name in options.compare)
        rows = [
            {"setting": path, left.name: one, right.name: other}
            for path, one, other in methods.differences(left, right)
        ]
        if options.json:
            emit({"recipes": options.compare, "differences": rows, "gradients": methods.relations(left, right)})
        else:
            out().print(methods.comparison(left, right))
    elif options.name:
        emit(methods.in_full(find(options.name))) if options.json else out().print(methods.page(find(options.name)))
    elif options.json:
        emit([methods.as_row(recipe) for recipe in all_recipes().values()])
    else:
        out().print(methods.listing(all_recipes().values()))
    return 0


def _check(options: argparse.Namespace) -> int:
    """Runs the checks of catalogue rows and prints what they found; exit 1 when a claim does not hold."""
    from hocket.lab.claims.record import keep
    from hocket.lab.claims.registry import all_checks, checks_of
    from hocket.lab.claims.running import run_checks
    from hocket.report.methods import verdict_table

    rows = options.check or sorted({check.row for check in all_checks()})
    unknown = next((row for row in rows if not checks_of(row)), None)
    if unknown is not None:
        raise ConfigurationError(f"no check is known for {unknown!r}{nearest(unknown, {c.row for c in all_checks()})}")
    asked = [check for row in rows for check in checks_of(row) if not (options.quick and check.slow)]
    console, found = err(), []
    for verdict in run_checks(asked, options.workers):
        found.append(verdict)
        mark = "[green]holds[/]" if verdict.holds else "[red]fails[/]"
        console.print(f"[dim]{len(found)}/{len(asked)}[/] {mark} {verdict.row}: {escape(verdict.claim)}")
        if options.keep:
            keep(found)
    place = {(check.row, check.claim): number for number, check in enumerate(asked)}
    found.sort(key=lambda one: place[one.row, one.claim])
    if options.json:
        by_row = {row: [one for one in found if one.row == row] for row in rows}
        held = {row: "works" if all(one.holds for one in ones) else "fails" for row, ones in by_row.items()}
        emit([{"id": row, "verdict": held[row], "checks": [one.to_json() for one in by_row[row]]} for row in rows])
    else:
        out().print(verdict_table(found))
        failed = sum(not one.holds for one in found)
        out().print(f"{len(found) - failed} of {len(found)} claims hold")
    return 0 if all(one.holds for one in found) else 1


def catalogue(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket catalogue`."""
    from hocket.lab.claims.analyses import ANALYSES
    from hocket.report.methods import rows_table

    if options.json:
        emit([row.to_json() for row in ANALYSES])
    else:
        out().print(rows_table())
    return 0
