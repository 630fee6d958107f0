"""`hocket traces`."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from hocket.apps.cli.output import Pairs, emit, err, out

if TYPE_CHECKING:
    from hocket.train.traces import Written

NAMES = ("task", "model", "n", "searches", "candidates", "until", "seed", "runs")


def traces(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket traces`."""
    from hocket.train.traces import TraceSearch, TraceSettings

    given = {name: found for name in NAMES if (found := getattr(options, name)) is not None}
    if "until" in given:
        given["until"] = given["until"].replace("\\n", "\n")
    search, console = TraceSearch(TraceSettings(**given, pairs=tuple(pairs)), Path(options.out)), err()

    def told(asked: int, rows: int) -> None:
        if not options.quiet:
            console.print(f"{asked} of {search.count} scenarios searched, a right answer to {rows}")

    found = search.run(told)
    if options.json:
        emit(dataclasses.asdict(found))
    else:
        _show(found)
    return 0


def _show(found: Written) -> None:
    console = out()
    console.print(
        f"{found.path}: {found.rows} of {found.scenarios} scenarios with {found.traces} right answers of "
        f"{found.steps:.1f} steps; {found.sampled} steps sampled, {found.right:.0%} of the answers right"
    )
    if found.task is None:
        console.print(
            "comparison with the column answer does not find all of them right: train on it with --reward "
            "FILE.py:FUNCTION"
        )
    task = escape(shlex.quote(found.task or found.path))
    console.print(f"hocket train --recipe tree-opo --task {task} completes what they begin with")
