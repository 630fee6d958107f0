"""`hocket deepen`."""

from __future__ import annotations

import argparse
from pathlib import Path

from hocket.apps.cli.command import TRAIN, Command
from hocket.apps.cli.output import Pairs, emit
from hocket.methods.surveys.apriel_1_5_15b_thinker.method import write_deepened


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="nano, a folder with a model, or a run")
    parser.add_argument("folder", metavar="FOLDER", help="where the deeper model is written")
    parser.add_argument("--layers", type=int, metavar="N", required=True, help="layers of the deeper model")
    parser.add_argument("--runs", default="runs", metavar="FOLDER", help="folder of runs (default: runs)")


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from hocket.train.models import model_folder

    before, after = write_deepened(
        Path(model_folder(options.model, options.runs)), Path(options.folder), options.layers
    )
    if options.json:
        emit({"path": options.folder, "layers": options.layers, "weights": after, "weights_before": before})
    else:
        print(f"{options.folder}: {options.layers} layers, {after:,} weights (before: {before:,}); the same function")
    return 0


DEEPEN = Command(
    name="deepen",
    description="write a model with more layers that computes the same",
    family=TRAIN,
    details="""Write a model with copies of some of its layers, which add nothing until they are trained.

  hocket deepen nano deep --layers 8
  hocket train --model deep --task worked-sums --recipe sft""",
    flags=_flags,
    run=_run,
    settings=False,
)
