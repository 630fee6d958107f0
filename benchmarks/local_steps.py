"""What is lost by training alone for ten steps at a time, and what it spares: two workers with data of their own.

Each worker has the polls of one group of people (`opinions`), and both are measured on both groups. Beside each other,
with equal steps, batches and starts: a worker alone; two that bring their weights together at every step, in 32 bits;
and two that do so every ten steps, in 8 bits. Shares of ordered pairs of options,
in points; bytes are those a worker sends.

    python benchmarks/local_steps.py [--seeds 5] [--steps 100]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import fmean, stdev

from rich.console import Console
from rich.table import Table

from hocket import tasks
from hocket.core.compression import Blocks
from hocket.core.keys import Key
from hocket.distributed.swarm.averaging import EIGHT_BITS, FEDERATED, Averaging
from hocket.lab.claims.lesson_data import Pupil, begin
from hocket.train.aio import run_async
from hocket.train.unseen_scenarios import recorded_metrics
from hocket.update.outer import OuterStep

GROUPS = (1, 4)
OWN, EVERY = 8, 10
SETTINGS = {"update.lr": 0.002}


def task(group: int) -> str:
    """A worker's data."""
    return f"opinions?group={group}&shown=0&size=400"


def score(pupil: Pupil) -> float:
    """The mean over both groups of the share of ordered pairs, in points."""
    found = []
    for group in GROUPS:
        parts = replace(pupil.parts, task=tasks.find(task(group)))
        told = run_async(recorded_metrics(parts, "lists/accuracy", n=200, key=Key.of(0)))[1]
        found.append(100 * told["lists/accuracy"])
    return fmean(found)


def worker(group: int, seed: int) -> Pupil:
    """One of them, yet to make a step."""
    return begin("plural-llm", task(group), {**SETTINGS, "curriculum.prompts": OWN, "seed": 10 * seed + group})


def both(seed: int, steps: int, every: int, blocks: Blocks, outer: OuterStep = FEDERATED) -> tuple[float, int]:
    """Two that bring their weights together every so many steps; the score, and the bytes that one has sent."""
    pupils = [worker(group, seed) for group in GROUPS]
    nodes = {f"w{n}": {"policy": one.parts.lead.policy} for n, one in enumerate(pupils)}
    averaging = Averaging(nodes, outer=outer, blocks=blocks)
    for _ in range(steps // every):
        for one in pupils:
            one.run(every)
        averaging.exchange({"w0": 1, "w1": 1})
    return score(pupils[0]), averaging.counts["bytes"] // 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    rows: dict[str, list[tuple[float, int]]] = {}
    for seed in range(given.seeds):
        for name, found in (
            ("one alone", (score(worker(GROUPS[seed % 2], seed).run(given.steps)), 0)),
            ("both, at every step, 32 bits", both(seed, given.steps, 1, Blocks(None))),
            ("both, every 10 steps, 8 bits", both(seed, given.steps, EVERY, EIGHT_BITS)),
            ("the same, outer lr 0.7, momentum 0.9", both(seed, given.steps, EVERY, EIGHT_BITS, OuterStep(0.7, 0.9))),
        ):
            rows.setdefault(name, []).append(found)
    table = Table(box=None, header_style="dim")
    for heading in ("", "points", "± sd", "MB sent"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, found in rows.items():
        points = [one for one, _ in found]
        spread = f"{stdev(points):.1f}" if len(points) > 1 else ""
        table.add_row(name, f"{fmean(points):.1f}", spread, f"{fmean(sent for _, sent in found) / 1e6:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
