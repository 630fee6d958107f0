"""`hocket watch`."""

from __future__ import annotations

import argparse

from rich.console import Console

from hocket.apps.cli.command import Command
from hocket.apps.cli.list_flags import a_run
from hocket.apps.cli.output import Pairs, emit

DETAILS = """Shows a run while another process trains it: progress, curves, warnings and the latest sampled answers
with their rewards. It only reads the run's folder, so any number may watch. It ends with the run.

  hocket watch RUN                  in a terminal; Ctrl-C ends the view, and the run goes on
  hocket watch RUN --once           as it stands now; so does a pipe: hocket watch RUN | head
  hocket report RUN --live          the same as a page in a browser"""


def _flags(parser: argparse.ArgumentParser) -> None:
    a_run(parser)
    parser.add_argument("--once", action="store_true", help="show it as it stands, and end")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between two looks at it (1)")


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from hocket.apps.live.following import FollowedRun
    from hocket.apps.live.terminal import run_page, watch
    from hocket.core.errors import ConfigurationError

    if pairs:
        raise ConfigurationError(f"--{pairs[0][0]}: a run that is watched keeps its settings; drop it")
    run = FollowedRun(options.run, options.runs)
    console = Console(highlight=False)
    if options.json:
        from hocket.apps.report.status import status_of

        emit(status_of(run.record.path) | {"state": run.state})
        return 0
    if console.is_terminal and not options.once:
        watch(run, console, options.every)
    else:
        console.print(run_page(run, console.width))
    return 0


WATCH = Command(
    name="watch",
    description="show a run in the terminal while it goes on",
    details=DETAILS,
    flags=_flags,
    run=_run,
)
