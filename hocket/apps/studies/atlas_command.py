"""`hocket atlas`: what is kept shown, what is lacking made, pages written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from hocket.apps.studies.atlas import STEPS, AtlasPlan, fill, library_plan, named, own_plan
from hocket.apps.studies.atlas_page import (
    AtlasRow,
    as_json,
    collected,
    counts,
    markdown,
    own_markdown,
    page,
    summaries,
    terminal,
)
from hocket.apps.studies.command import workers_at
from hocket.apps.studies.planning import Planner
from hocket.core.errors import ConfigurationError
from hocket.train.disk import write_atomic

Pairs = list[tuple[str, Any]]

OF_TASKS = ("reward", "model", "steps", "seconds", "out")
"""Flags that go with a task of the user's."""


def main(options: argparse.Namespace, pairs: Pairs, emit: Callable[[Any], None]) -> int:
    """Shows, fills or writes an atlas; returns the exit code, 1 when a run failed."""
    _check(options, pairs)
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    names = named(options.recipes)
    place: Path | None = None
    if options.task:
        settings = {**dict(pairs), **{name: getattr(options, name) for name in ("reward", "model")}}
        settings = {name: value for name, value in settings.items() if value is not None}
        words = "".join(letter if letter.isalnum() else "-" for letter in options.task).strip("-")
        folder = Path(options.out) if options.out else Path("runs") / "atlas" / words
        plan, place = own_plan(names, options.task, options.steps or STEPS, options.seeds, settings, folder), folder
        plan = replace(plan, limit=options.seconds or 0.0, timed=options.seconds is not None)
    else:
        plan = library_plan(names, options.seeds)
    if options.dry_run:
        return _estimate(plan, out, emit if options.json else None)
    failed = 0
    if options.fill or options.task:

        def say(message: str) -> None:
            if not options.quiet:
                err.print(message, markup=False)

        failed = fill(plan, workers_at(options.cluster, options.workers), say, again=options.again)
        for (name, task), why in plan.left_out.items():
            say(f"without a run: {name} on {task}: {why.removeprefix(f'{name} on {task}: ')}")
    rows = collected(names, None if place is None else place / "atlas.jsonl")
    if place is not None:
        rows = [row for row in rows if row.task == options.task]
        write_atomic(place / "report.html", page(rows, f"Atlas of {options.task}"))
    if options.docs:
        _write_pages(Path(options.docs) / "atlas", rows, place)
    if options.json:
        emit(as_json(rows))
        return int(failed > 0)
    table = terminal(rows)
    out.width = max(out.width, min(200, out.measure(table, options=out.options.update(max_width=200)).maximum))
    out.print(table)
    for summary in summaries(rows):
        out.print(summary.heading, markup=False)
        for line in summary.lines:
            out.print(f"  {line}", markup=False)
    out.print(counts(rows), markup=False)
    if place is not None:
        out.print(f"{place / 'report.html'}", markup=False)
    return int(failed > 0)


def _check(options: argparse.Namespace, pairs: Pairs) -> None:
    """Refuses flags that do not go together."""
    if not options.task:
        stray = next((name for name in OF_TASKS if getattr(options, name) is not None), None)
        stray = stray or (pairs[0][0] if pairs else None)
        if stray is not None:
            raise ConfigurationError(f"--{stray}: the library's recipes run as shipped; name a --task of your own")
    if options.seeds < 1:
        raise ConfigurationError(f"--seeds {options.seeds}: at least one is needed")
    if options.steps is not None and options.steps < 1:
        raise ConfigurationError(f"--steps {options.steps}: at least one is needed")
    if options.seconds is not None and not options.seconds > 0:
        raise ConfigurationError(f"--seconds {options.seconds:g}: it must be above 0")


def _write_pages(folder: Path, rows: Sequence[AtlasRow], place: Path | None) -> None:
    """The pages of the library's atlas, or of one in `place` with its runs, by the name of that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if place is None:
        others = sorted(file.stem for file in folder.glob("*.jsonl"))
        write_atomic(folder / "index.md", markdown(rows, others))
        write_atomic(folder / "atlas.html", page(rows))
        return
    write_atomic(folder / f"{place.name}.md", own_markdown(rows, place.name))
    write_atomic(folder / f"{place.name}.html", page(rows, f"Atlas: {place.name}"))
    write_atomic(folder / f"{place.name}.jsonl", (place / "atlas.jsonl").read_text(encoding="utf-8"))


def _estimate(plan: AtlasPlan, out: Console, emit: Callable[[Any], None] | None) -> int:
    """How many runs are there and lacking, and the processor hours by the mean of those that are there."""
    runs = list(plan.runs(Planner(plan.study)))
    lines = [line for _, line in runs if line is not None]
    seconds = [line.seconds for line in lines if not line.failure]
    left = len(runs) - len(lines)
    hours = left * fmean(seconds) / 3600 if seconds else None
    if emit is not None:
        emit({"runs": len(runs), "done": len(lines), "cpu_hours": hours})
        return 0
    about = "" if hours is None else f", about {hours:.1f} hours of processor time"
    out.print(f"{len(runs)} runs, {len(lines)} are kept; {left} are lacking{about}")
    return 0
