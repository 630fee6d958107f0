"""`hocket traces`."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit, err, out

if TYPE_CHECKING:
    from hocket.methods.data_and_rollout.tree_opo.making import Written

_DETAILS = """A teacher's tree search for right answers to the training scenarios of a task, written as data: a column
`traces` with the different ones of each scenario, in steps, and its shortest as `demonstration`.

  hocket traces --task worked_sums --until = --out traces.jsonl   steps that end with "="
  hocket train --recipe tree-opo --task traces.jsonl              completes what they begin with
  hocket traces --model RUN --decoding.temperature 0.8            another teacher, other draws"""

NAMES = ("task", "model", "n", "searches", "candidates", "until", "seed", "runs")


def traces(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket traces`."""
    from hocket.methods.data_and_rollout.tree_opo.making import TraceSearch, TraceSettings

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


def _flags(parser: argparse.ArgumentParser) -> None:
    for flag, metavar, text in (
        ("--task", "NAME", "as in `hocket train` (sums)"),
        ("--model", "NAME", "the teacher: a model, a run, http://HOST:PORT/v1#NAME or FILE.py:FUNCTION (nano)"),
        ("--until", "TEXT", "what ends a step of an answer (a line break)"),
        ("--runs", "DIR", "where a teacher that is a run is found by its name (runs)"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    for flag, text in (
        ("--n", "training scenarios (64)"),
        ("--searches", "through the tree of each scenario (8)"),
        ("--candidates", "next steps sampled where a tree grows (4)"),
        ("--seed", "of all draws (0)"),
    ):
        parser.add_argument(flag, type=int, metavar="N", help=text)
    parser.add_argument("--out", default="traces.jsonl", metavar="FILE.jsonl", help="a new file (traces.jsonl)")
    parser.add_argument("--quiet", action="store_true", help="no progress")


TRACES = Command(
    name="traces",
    description="a teacher's tree search for right answers, as data",
    family="train and measure",
    details=_DETAILS,
    flags=_flags,
    run=traces,
)
