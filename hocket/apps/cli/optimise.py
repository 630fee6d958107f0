"""`hocket optimise`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.agents.search.searcher import SEARCHERS, Trial
from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import RunFolder

NAMES = (
    "task",
    "workflow",
    "model",
    "reflector",
    "searcher",
    "budget",
    "tokens",
    "practice",
    "development",
    "evaluation",
    "start",
    "longest",
    "lessons",
    "seed",
)


def optimise(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket optimise`."""
    from hocket.train.optimise.run import SearchRun, SearchSettings, resumed

    if options.list:
        return _listed(json=options.json)
    given = {name: found for name in NAMES if (found := getattr(options, name)) is not None}
    if options.resume is None:
        settings = SearchSettings(**given, pairs=tuple(pairs))
        folder = Path(options.out) if options.out else None
        if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(
                f"{folder} is not empty; continue it with --resume {folder}, or choose another --out"
            )
    else:
        if given or pairs or options.out:
            raise ConfigurationError("--resume continues with the settings of the search; drop the other flags")
        folder = Path(options.resume)
        settings = resumed(folder, trust=options.trust)
    new, console = folder is None, err()
    folder = folder or RunFolder.create(Path("runs"), stem="optimise").path

    def told(trial: Trial) -> None:
        if not options.quiet:
            at = f"{trial.score:.3f} on development after {trial.spent} calls"
            console.print(f"{trial.number}: {at}, {escape(trial.how)}")

    def remarked(said: str) -> None:
        if not options.quiet:
            console.print(said)

    try:
        found = SearchRun(settings, folder, told, remarked, trust=options.trust).run()
    except ConfigurationError:
        if new:
            RunFolder(folder).abandon(new=True)
        raise
    if options.json:
        emit(found)
    else:
        _show(found)
    return 0


def _listed(*, json: bool) -> int:
    rows = [(name, one.description) for name, one in SEARCHERS.declared.items()]
    if json:
        emit([{"name": name, "description": text} for name, text in rows])
        return 0
    table = Table(box=None, show_header=False)
    for row in rows:
        table.add_row(*row)
    out().print(table)
    return 0


def _show(found: dict[str, Any]) -> None:
    table, console = Table(box=None, header_style="dim"), out()
    for heading in ("", "n", "start", "best", "95 % of the best"):
        table.add_column(heading, justify="left" if not heading else "right")
    for split in ("development", "evaluation"):
        row = found[split]
        low, high = row["interval"]
        figures = f"{row['start']:.3f}", f"{row['best']:.3f}", f"{low:.3f} to {high:.3f}"
        table.add_row(split, str(row["n"]), *figures)
    console.print(table)
    tried = f"{found['tried']} versions in {found['calls']} calls of {found['tokens']} tokens"
    console.print(
        f"{tried}, {found['reflections']} reflections; the development interval is corrected for the number tried"
    )
    for change in found["changes"] or ["the start is the best"]:
        console.print(f"  {escape(change)}")
    console.print(f"everything is in {escape(found['path'])}; best.json is what --start takes")
