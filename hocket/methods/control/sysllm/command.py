"""`hocket summarise`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError
from hocket.methods.control.sysllm.summaries import SUMMARISERS
from hocket.train.runfolder import find_run

_DETAILS = """Tells in words what the policy of a control run is like: what it does, and when. A
sentence that can be counted is checked against the recorded episodes, and struck out where they
refute it. A language model writes, or without one a rule that counts. docs/control.md says more.

  hocket summarise RUN                          by counting, from 50 unseen episodes
  hocket summarise RUN --model smollm2          a language model reads the episodes
  hocket summarise RUN RUN2 RUN3                and a reader of other episodes says which is whose
  hocket summarise RUN --method.most 8          settings of the method: --method.NAME VALUE"""

STYLES = {"true": "", "unbacked": "dim", "false": "red strike"}


def summarise(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket summarise`."""
    from hocket.methods.control.sysllm.captions import transcript
    from hocket.methods.control.sysllm.report import SummarySettings, summarised

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


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="+", help="a control run, by its folder or name; or several")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    for flag, metavar, text in (
        ("--method", "NAME", "of summarising (sysllm)"),
        ("--model", "NAME", "who writes: a model, a run, http://HOST:PORT/v1 or FILE.py:FUNCTION (rule, which counts)"),
        ("--agent", "NAME", "whose policy, of several agents (the first)"),
        ("--transcript", "FILE", "also write what was read, a line per decision"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    for flag, text in (
        ("--episodes", "that are read (50)"),
        ("--budget", "the most decisions of an episode (any number)"),
        ("--longest", "tokens of an answer (256)"),
    ):
        parser.add_argument(flag, type=int, metavar="N", help=text)
    parser.add_argument("--temperature", type=float, metavar="T", help="of the policy (0, its likeliest actions)")


SUMMARISE = Command(
    name="summarise",
    description="what control policies are like, in checked sentences",
    details=_DETAILS,
    flags=_flags,
    run=summarise,
    trust=True,
    methods=SUMMARISERS,
    usage="hocket summarise RUN --method",
)
