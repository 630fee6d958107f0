"""`hocket atlas`."""

from __future__ import annotations

import argparse

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipes", metavar="A,B", help="recipes and families, by name (all that train a policy)")
    parser.add_argument("--task", metavar="NAME", help="an atlas of your own, on this task, as in `hocket train`")
    parser.add_argument("--reward", metavar="FILE.py:NAME", action="append", help="with --task: its reward")
    parser.add_argument(
        "--model", metavar="PATH", help="with --task: nano, nano-vlm, nano-audio, smollm2, a folder or a hub name"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="with --task: steps of a run (40)")
    parser.add_argument("--seconds", type=float, metavar="S", help="with --task: processor seconds that end a run")
    parser.add_argument("--fill", action="store_true", help="make the runs of the library's atlas that are lacking")
    parser.add_argument("--again", action="store_true", help="also repeat those that failed or ended early")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds of every recipe and task, from 0 (1)")
    parser.add_argument("--workers", type=int, metavar="N", help="runs in parallel (one per core)")
    parser.add_argument("--cluster", metavar="WHERE", help="run them on a Ray cluster: auto or ray://HOST:PORT")
    parser.add_argument("--out", metavar="DIR", help="with --task: the folder of the atlas (runs/atlas/TASK)")
    parser.add_argument(
        "--docs", metavar="DIR", help="write its pages into DIR/atlas; those of --task by the name of --out"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print how many runs and hours are lacking")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from hocket.apps.studies import atlas_command

    return atlas_command.main(options, list(pairs), emit)


ATLAS = Command(
    name="atlas",
    description="what recipes learn as shipped, beside their parents",
    family="methods",
    details="""What recipes learn as shipped, each beside its parent (docs/atlas/index.md).

  hocket atlas                                 the kept runs of the library's recipes
  hocket atlas --recipes gspo,preference       of some recipes and families
  hocket atlas --fill --seeds 3                make those that are lacking; the same command again goes on
  hocket atlas --task mine.jsonl --reward my.py:fn --recipes group-relative
                                               the same on a task of your own, in runs/atlas""",
    flags=_flags,
    run=_run,
)
