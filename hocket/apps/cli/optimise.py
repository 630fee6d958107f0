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
    flags = {name: value for name in NAMES if (value := getattr(options, name)) is not None}
    if options.resume is None:
        settings = SearchSettings(**flags, pairs=tuple(pairs))
        folder = Path(options.out) if options.out else None
        if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(
                f"{folder} is not empty; continue it with --resume {folder}, or choose another --out"
            )
    else:
        if flags or pairs or options.out:
            raise ConfigurationError("--resume continues with the settings of the search; drop the other flags")
        folder = Path(options.resume)
        settings = resumed(folder, trust=options.trust)
    new, console = folder is None, err()
    folder = folder or RunFolder.create(Path("runs"), stem="optimise").path

    def told(trial: Trial) -> None:
        if not options.quiet:
            at = f"{trial.score:.3f} on development after {trial.spent} calls"
            console.print(f"{trial.number}: {at}, {escape(trial.how)}")

    def remarked(sentence: str) -> None:
        if not options.quiet:
            console.print(sentence)

    try:
        outcome = SearchRun(settings, folder, told, remarked, trust=options.trust).run()
    except ConfigurationError:
        if new:
            RunFolder(folder).abandon(new=True)
        raise
    if options.json:
        emit(outcome)
    else:
        _show(outcome)
    return 0


def _listed(*, json: bool) -> int:
    rows = [(name, searcher.description) for name, searcher in SEARCHERS.declared.items()]
    if json:
        emit([{"name": name, "description": text} for name, text in rows])
        return 0
    table = Table(box=None, show_header=False)
    for row in rows:
        table.add_row(*row)
    out().print(table)
    return 0


def _show(outcome: dict[str, Any]) -> None:
    table, console = Table(box=None, header_style="dim"), out()
    for heading in ("", "n", "start", "best", "95 % of the best"):
        table.add_column(heading, justify="left" if not heading else "right")
    for split in ("development", "evaluation"):
        row = outcome[split]
        low, high = row["interval"]
        figures = f"{row['start']:.3f}", f"{row['best']:.3f}", f"{low:.3f} to {high:.3f}"
        table.add_row(split, str(row["n"]), *figures)
    console.print(table)
    tried = f"{outcome['tried']} versions in {outcome['calls']} calls of {outcome['tokens']} tokens"
    console.print(
        f"{tried}, {outcome['reflections']} reflections; the development interval is corrected for the number tried"
    )
    for change in outcome["changes"] or ["the start is the best"]:
        console.print(f"  {escape(change)}")
    console.print(f"everything is in {escape(outcome['path'])}; best.json is what --start takes")
