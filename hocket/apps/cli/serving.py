"""`hocket serve` and `play`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.markup import escape

from hocket.apps.cli.output import Pairs, err, out
from hocket.train.runfolder import find_source


def serve(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket serve`."""
    from hocket.apps.serve import command

    console = err()

    def ready(told: dict[str, Any]) -> None:
        console.print(f"serving [bold]{escape(', '.join(told['models']))}[/] ({told['weights']}) at {told['url']}")
        console.print("[dim]Ctrl-C ends it[/]" if told["keys"] else "[dim]for this machine alone; Ctrl-C ends it[/]")
        if options.json:
            # One line, since it comes while the program goes on: whoever waits for it reads a line.
            print(json.dumps(told, ensure_ascii=False), flush=True)

    source = find_source(options.run, options.runs)
    command.serve(source, options, pairs, ready=ready, say=lambda words: console.print(escape(words)))
    return 0


def play(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket play`."""
    from hocket.apps.play import command
    from hocket.apps.play.screen import TerminalScreen

    command.play(find_source(options.run, options.runs), options, pairs, TerminalScreen(out()))
    return 0
