"""`hocket init`."""

from __future__ import annotations

import argparse
from pathlib import Path

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit, out
from hocket.core.errors import ConfigurationError


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="NAME", help="a new folder")
    parser.add_argument("--kind", default="text", metavar="KIND", help="text, tools, team or control (text)")


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from hocket.apps.init.project import KINDS, make_project

    if pairs:
        raise ConfigurationError(f"--{pairs[0][0]}: hocket init takes no settings; put it into NAME/config.yaml")
    folder = Path(options.folder)
    files = make_project(folder, options.kind)
    steps = [f"cd {folder}", "pytest", "hocket train config.yaml"]
    if options.json:
        emit({"path": str(folder), "kind": options.kind, "files": [file.name for file in files], "next": steps})
        return 0
    console = out()
    console.print(f"{folder}: {KINDS[options.kind]}", highlight=False)
    console.print("  " + ", ".join(file.name for file in files), highlight=False)
    console.print("next: " + " && ".join(steps), highlight=False)
    return 0


INIT = Command(
    name="init",
    description="write a small project: task, reward, recipe, test, config",
    details="""Writes a small project into a new folder; it trains within a minute or two and its tests pass.

kinds:
  text       a language model on data and a reward of your own
  tools      a language model that calls a function of your own
  team       two agents in a workflow of your own
  control    a controller in a Gymnasium environment of your own

examples:
  hocket init sums --kind text
  cd sums && hocket train config.yaml""",
    flags=_flags,
    run=_run,
)
