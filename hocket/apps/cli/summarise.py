"""`hocket summarise`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape

from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_run

STYLES = {"true": "", "unbacked": "dim", "false": "red strike"}


def summarise(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket summarise`."""
    from hocket.agents.environments.captions import transcript
    from hocket.apps.report.summary import SummarySettings, summarised

    if wrong := [name for name, _ in pairs if not name.startswith("method.")]:
        raise ConfigurationError(f"--{wrong[0]} is no setting; those of a method are written --method.NAME VALUE")
    given = {name: getattr(options, name) for name in SummarySettings.__dataclass_fields__ if name != "pairs"}
    own = tuple((name.removeprefix("method."), value) for name, value in pairs)
    settings = SummarySettings(**{name: one for name, one in given.items() if one is not None}, pairs=own)
    runs = [find_run(run, options.runs) for run in options.run]
    logs, found, reads = summarised(runs, settings, trust=options.trust)
    if options.transcript:
        lines = [
            f"{run}\n{log.about}\n{transcript(log.episodes)}\n" for run, log in zip(options.run, logs, strict=True)
        ]
        Path(options.transcript).write_text("\n".join(lines), encoding="utf-8")
    taken = [options.run[one] for one in reads]
    if options.json:
        told = [{"run": run, **one.to_json()} for run, one in zip(options.run, found, strict=True)]
        emit({"summaries": told, "taken_for": taken if len(runs) > 1 else None})
        return 0
    console = out()
    for run, one in zip(options.run, found, strict=True):
        console.print(f"[bold]{escape(run)}[/]")
        for said in sorted(one.said, key=lambda said: list(STYLES).index(said.verdict)):
            console.print(f"  {said.text}", style=STYLES[said.verdict] or None, markup=False)
        counts = one.counts()
        words = "{true} sentences are true in the record, {false} false and struck out, {unbacked} it says nothing of"
        err().print(f"  {words.format(**counts)}", style="dim")
    if len(runs) > 1:
        right = sum(one == run for one, run in zip(taken, options.run, strict=True))
        err().print(f"by other episodes alone a blind reader gives {right} of {len(runs)} summaries to their own run")
    return 0
