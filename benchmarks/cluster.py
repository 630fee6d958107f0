"""What a run on several processes pays beside its work: leaves, exchanges of gradients, weights for samplers.

python benchmarks/cluster.py             about two minutes on 2 cores
python benchmarks/cluster.py --json      one JSON document

leaves          time of the learner's part of a step with four leaves over that with one, in fp32 and in bf16, the
                two taking turns in one process on one batch
weights         milliseconds until three samplers have taken and shown new weights of the shipped model
exchange        milliseconds of one exchange of its gradient (4.8 MB) between two processes
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from bench import machine

from hocket import tasks
from hocket.core.keys import Key
from hocket.distributed.cluster.connection import ThisMachine
from hocket.distributed.cluster.ranks import Rendezvous, joined
from hocket.distributed.cluster.sampler import TargetWeights
from hocket.train.aio import run_async
from hocket.train.config import configure
from hocket.train.loop import collect, learn
from hocket.train.trainer import Trainer

FLOATS = 1_200_000


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    act()
    return 1e3 * (time.perf_counter() - started)


def trainer(folder: Path, name: str, *pairs: tuple[str, Any]) -> Trainer:
    task = tasks.find("sums")
    common = [
        ("task", "sums"),
        ("runs", str(folder)),
        ("run", name),
        ("threads", 1),
        ("steps", 50),
        ("evaluation.n", 8),
    ]
    return Trainer(configure([*common, *pairs], task), task=task)


def leaves(folder: Path, precision: str, rounds: int) -> list[float]:
    """Ratios of learning from one batch with four leaves to one, as they take turns."""
    made = trainer(folder, f"leaves-{precision}", ("precision", precision))
    parts, key = made.parts, Key.of(1)
    experience, _ = run_async(collect(parts, key))
    learner = parts.lead
    found = []
    for number in range(rounds + 1):
        seconds = {}
        for count in (1, 4):
            learner.leaves = count
            seconds[count] = timed(lambda: learn(parts, experience.trajectories, key, 1))
        if number:  # The first round warms up.
            found.append(seconds[4] / seconds[1])
    made.finish("interrupted")
    return found


def weights(folder: Path, rounds: int) -> list[float]:
    """Milliseconds until three samplers hold new weights."""
    made = trainer(folder, "weights", ("cluster", "local"), ("samplers", 3))
    made.step()
    samplers, found = made.samplers, []
    assert samplers is not None

    async def published() -> None:
        goal = TargetWeights(made.parts.learners)
        await asyncio.gather(*(asyncio.to_thread(goal.load, member) for member in samplers.members))

    for _ in range(rounds):
        with torch.no_grad():
            for weight in made.parts.lead.policy.module.parameters():
                weight.add_(1e-6)
        found.append(timed(lambda: run_async(published())))
    made.finish("interrupted")
    return found


def _other(where: Rendezvous, rounds: int) -> None:
    ranks = joined(1, 2, where, device=torch.device("cpu"))
    for _ in range(rounds):
        ranks.exchanged(torch.zeros(FLOATS), 0)


def exchange(rounds: int) -> list[float]:
    """Milliseconds of one exchange between two processes."""
    with ThisMachine().rendezvous() as where:
        other = multiprocessing.get_context("spawn").Process(target=_other, args=(where, rounds))
        other.start()
        ranks = joined(0, 2, where, device=torch.device("cpu"))
        given = torch.zeros(FLOATS)
        found = [timed(lambda: ranks.exchanged(given, 1)) for _ in range(rounds)]
        other.join()
        ranks.leave()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "leaves, fp32": leaves(folder, "fp32", options.rounds),
            "leaves, bf16": leaves(folder, "bf16", options.rounds),
            "weights, ms": weights(folder, options.rounds),
            "exchange, ms": exchange(options.rounds)[1:],
        }
    if options.json:
        print(json.dumps({"machine": machine(), "found": found}))
        return
    for name, values in found.items():
        print(f"{name:14} {statistics.median(values):8.2f}   {min(values):.2f} to {max(values):.2f}")


if __name__ == "__main__":
    main()
