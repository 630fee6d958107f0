"""`hocket solve`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError
from hocket.lab.exact.solver import SOLVERS
from hocket.lab.exact.worlds import WORLDS
from hocket.train.runfolder import RunFolder

NAMES = ("method", "world", "steps", "seed")


def solve(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket solve`."""
    from hocket.train.solve import SolveRun, SolveSettings, resumed

    if options.list:
        return _listed(json=options.json)
    flags = {name: value for name in NAMES if (value := getattr(options, name)) is not None}
    if options.resume is None:
        if wrong := [name for name, _ in pairs if not name.startswith("method.")]:
            raise ConfigurationError(f"--{wrong[0]} is no setting; those of a method are written --method.NAME VALUE")
        settings_of_method = tuple((name.removeprefix("method."), value) for name, value in pairs)
        settings = SolveSettings(**flags, pairs=settings_of_method)
        folder = Path(options.out) if options.out else None
        if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(
                f"{folder} is not empty; continue it with --resume {folder}, or choose another --out"
            )
    else:
        if set(flags) - {"steps"} or pairs or options.out:
            raise ConfigurationError(
                "--resume continues with the settings of the run; of the flags only --steps may change"
            )
        folder = Path(options.resume)
        before = resumed(folder, trust=options.trust)
        settings = SolveSettings(**{**{name: getattr(before, name) for name in NAMES}, **flags}, pairs=before.pairs)
    new = options.resume is None
    folder = folder or RunFolder.create(Path("runs"), stem="solve").path
    try:
        run = SolveRun(settings, folder)
    except ConfigurationError:
        if new:
            RunFolder(folder).abandon(new=True)
        raise
    outcome = run.run(lambda row: None) if options.quiet else _watched(run.run, run.steps)
    if options.json:
        emit(outcome)
    else:
        _show(outcome)
    return 0


def _watched(run: Callable[..., dict[str, Any]], steps: int) -> dict[str, Any]:
    """Runs with one line of progress, or where nobody looks at a terminal ten."""
    console = err()

    def line(row: Mapping[str, float]) -> str:
        return f"step {row['step']:.0f}/{steps}: value {row['value']:.4f}, regret {row['regret']:.3f}"

    if not console.is_terminal:
        often = max(1, steps // 10)
        return run(lambda row: console.print(line(row)) if row["step"] % often == 0 else None)
    with console.status("") as status:
        return run(lambda row: status.update(line(row)))


def _listed(*, json: bool) -> int:
    rows = [("method", name, declared.description) for name, declared in SOLVERS.declared.items()]
    rows += [("world", name, declared.description) for name, declared in WORLDS.declared.items()]
    if json:
        emit([dict(zip(("kind", "name", "description"), row, strict=True)) for row in rows])
        return 0
    table = Table(box=None, show_header=False)
    for row in rows:
        table.add_row(*row)
    out().print(table)
    return 0


def _show(outcome: Mapping[str, Any]) -> None:
    table, console = Table(box=None, header_style="dim"), out()
    names = ("method", "world", "steps", "value", "optimum", "gap", "regret", "switches")
    for name in names:
        table.add_column(name, justify="left" if name in names[:2] else "right", overflow="fold")
    shown = (
        f"{value:.6g}" if isinstance(value, float) else escape(str(value))
        for value in (outcome[name] for name in names)
    )
    table.add_row(*shown)
    console.print(table)
    console.print(f"everything is in {escape(outcome['path'])}")
