"""`hocket record`."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from hocket.apps.cli.command import TRAIN, Command
from hocket.apps.cli.output import Pairs, emit, out
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_source

DETAILS = """Plays episodes with a trained controller and writes every decision into one .npz file, from which offline
recipes learn. See docs/control.md.

  hocket record RUN --n 100 --out d.npz
  hocket train --task TASK --recipe bc --store.data d.npz"""


def flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `hocket record`."""
    parser.add_argument("run", metavar="RUN", help="a run folder or its name")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    parser.add_argument("--n", type=int, default=100, metavar="N", help="episodes (100)")
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="the file to write")
    parser.add_argument("--greedy", action="store_true", help="take the likeliest actions instead of drawing them")
    parser.add_argument("--checkpoint", choices=("last", "best"), default="last")


def record(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket record`."""
    from hocket.apps.report.evaluation import load
    from hocket.rollout.recorded_rows import write_rows
    from hocket.rollout.vector import VectorPlayer
    from hocket.train.aio import run_async
    from hocket.types import Assignment

    if options.n < 1:
        raise ConfigurationError(f"--n {options.n}: record at least 1 episode")
    source = find_source(options.run, options.runs)
    subject = load(source, pairs, task=None, which=options.checkpoint, trust=options.trust)
    player = subject.parts.player
    if not isinstance(player, VectorPlayer):
        raise ConfigurationError(f"task {subject.name}: only the decisions of one controller are recorded")
    decoding = subject.config.decoding
    decoding = dataclasses.replace(decoding, temperature=0.0) if options.greedy else decoding
    scenarios = [subject.task.scenario("train", number) for number in range(options.n)]
    assignments = [Assignment(scenario, decoding=decoding) for scenario in scenarios]
    try:
        played = run_async(player.play(assignments, key=subject.parts.key.derive("record")))
    finally:
        player.close()
    file = Path(options.out)
    rows = write_rows(file, played)
    mean = sum(subject.task.success(episode) for episode in played) / len(played)
    if options.json:
        emit({"file": str(file), "episodes": options.n, "rows": rows, "return": mean})
    else:
        out().print(f"{options.n} episodes, {rows} decisions, mean return {mean:.4g} → {file}", highlight=False)
    return 0


RECORD = Command(
    name="record",
    description="play a controller and write its decisions as data",
    family=TRAIN,
    details=DETAILS,
    flags=flags,
    run=record,
    trust=True,
)
