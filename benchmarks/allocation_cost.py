"""What choosing scenarios and sharing out samples costs at 10,000 scenarios, beside a training step.

    python benchmarks/allocation_cost.py [--scenarios 10000] [--steps 6]

Processor seconds of one thread. A step is GRPO's on `sums` with the shipped model, 16 prompts of 8 samples, updates
included. Every scenario has a past of eight groups of eight. `choosing` draws 16 of all scenarios (`Weighted`), 16
of which have changed since the last time, as in a run; of `grpo` they are the next ones (`Shuffled`), so what it takes
is to make 16. `sharing` gives all scenarios at once their samples (`Allocated`), and is set against as many steps as it
takes to ask them all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.recipes import find
from hocket.rollout.allocation import Allocated
from hocket.stages import Curriculum, Rollout
from hocket.train.config import configure
from hocket.train.ledger import Ledger
from hocket.train.trainer import Trainer
from hocket.zoo.tasks.worked_sums import WorkedSums

PROMPTS, SAMPLES, GROUPS = 16, 8, 8
CHOOSE, SHARE = ("grpo", "repo-replay", "mmr1-vas", "cures", "kimi-k1-5", "srpo"), ("knapsack-rl", "cures")


def step_seconds(steps: int) -> float:
    """The median of a step's."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = [("recipe", "grpo"), ("threads", 1), ("steps", steps + 1), ("curriculum.prompts", PROMPTS)]
        pairs += [("evaluation.n", 1), ("evaluation.every", 0), ("runs", folder)]
        source = tasks.find("sums")
        trainer = Trainer(configure(pairs, source), task=source)
        trainer.step()  # Measures before training.
        return statistics.median(timed(trainer.step) for _ in range(steps))


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def noted(ledger: Ledger, names: list[str], step: int, rng: np.random.Generator) -> None:
    """A group of every one of these scenarios."""
    for name in names:
        right = rng.random(SAMPLES) < rng.random()
        for one in right.tolist():
            ledger.record(name, step, float(one), {"norms": 1.0 + one, "unlikeness": 0.5})


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--scenarios", type=int, default=10_000)
    options.add_argument("--steps", type=int, default=6)
    given = options.parse_args()
    torch.set_num_threads(1)
    size, step = given.scenarios, step_seconds(given.steps)
    print(f"a step: {step:.3f} s")
    task, ledger, rng = WorkedSums(size=size), Ledger(), np.random.default_rng(0)
    names = [task.scenario("train", number).id for number in range(size)]
    for group in range(1, GROUPS + 1):
        noted(ledger, names, group, rng)
    for name in CHOOSE:
        pool = {} if name == "grpo" else {"curriculum.pool": size}
        stage: Curriculum = find(name).but({"curriculum.prompts": PROMPTS, **pool}).curriculum
        asked, key = size, Key.of(0)
        took = []
        for turn in range(given.steps):
            began = time.process_time()
            chosen = stage(task, asked, PROMPTS, ledger, key)
            took.append(time.process_time() - began)
            noted(ledger, [one.id for one in chosen], GROUPS + 1 + turn, rng)
            asked += PROMPTS
        first, later = took[0], statistics.median(took[1:])
        print(f"choosing, {name}: {later:.4f} s, {100 * later / step:.2f} % of a step (the first time {first:.2f} s)")
    for name in SHARE:
        rollout: Rollout = find(name).rollout
        assert isinstance(rollout, Allocated)
        few = timed(partial(rollout.counts, names[:PROMPTS], ledger))
        print(f"sharing among {PROMPTS}, {name}: {few:.4f} s, {100 * few / step:.2f} % of a step")
        whole, steps = timed(partial(rollout.counts, names, ledger)), size / PROMPTS
        print(f"sharing among {size}, {name}: {whole:.2f} s, {100 * whole / step / steps:.2f} % of {steps:.0f} steps")


if __name__ == "__main__":
    main()
