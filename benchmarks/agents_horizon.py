"""Credit by turns against credit by trajectories in mazes: GRPO, GiGPO and its unbiased form, at equal episodes.

    python benchmarks/agents_horizon.py [SEED ...]      0 to 9 unless told; prints the differences

All methods of a seed begin from the same cold start and meet the same mazes. `arrive` is the exact chance of arriving
in time, the mean over mazes of the evaluation split, with moves that are not legal left out (`illegal` is their share);
`walked` is the share of training walks that arrived since the row before. Runs that are in docs/evidence/horizon.csv
are not made again; `benchmarks/agents_curves.py` draws them.
"""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import hocket
from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.core.intervals import mean_interval
from hocket.lab.exploitability import InformationState, language_model
from hocket.stages import Policy
from hocket.train.config import configure
from hocket.zoo.maze import DIRECTIONS, Layout, Maze, values
from hocket.zoo.tasks.maze import MazeTask

OUT = Path("docs/evidence/horizon.csv")
RUNS = Path("runs/horizon")
FILE = "examples/maze_walker.py"
METHODS = ("grpo", "gigpo", "gigpo-unbiased")
LESSONS, STEPS, EVERY, MAZES = 80, 30, 10, 40
SAME = {"update.lr": 3e-4, "curriculum.prompts": 8, "rollout.samples": 8}
Row = dict[str, str | float]


def trainer(seed: int, settings: Sequence[tuple[str, object]]) -> hocket.Trainer:
    task = tasks.find(f"{FILE}:Walker")
    shared: list[tuple[str, object]] = [
        *(("seed", seed), ("threads", 1), ("decoding.max_tokens", 4), ("runs", str(RUNS))),
        *(("evaluation.n", 1), ("evaluation.every", 0), ("checkpoint.seconds", 1e9), ("checkpoint.steps", 10**6)),
    ]
    return hocket.Trainer(configure([*shared, *settings], task), task=task)


def cold_start(seed: int) -> Path:
    """The folder of a policy that has had the lessons."""
    found = RUNS / f"cold-{seed}"
    if not found.is_dir():
        lessons = trainer(seed, [("recipe", f"{FILE}:LESSONS"), ("steps", LESSONS)])
        while not lessons.done:
            lessons.step()
        lessons.finish("finished")
        part = found.with_suffix(".part")
        lessons.parts.lead.policy.save(part)
        os.replace(part, found)
    return found


def run(method: str, seed: int) -> list[Row]:
    settings: list[tuple[str, object]] = [("recipe", method), ("model", str(cold_start(seed))), ("steps", STEPS)]
    walks = trainer(seed, [*settings, *SAME.items()])
    rows: list[Row] = []
    recent: list[float] = []
    while not walks.done:
        row = walks.step()
        if row["step"]:
            recent.append(row["reward/mean"])
        if row["step"] % EVERY == 0:
            arrive, illegal = arrives(walks.parts.lead.policy, walks.task)
            walked = math.fsum(recent) / len(recent) if recent else math.nan
            place: Row = {"method": method, "seed": seed, "step": row["step"]}
            rows.append({**place, "arrive": arrive, "illegal": illegal, "walked": walked})
            recent.clear()
    walks.finish("finished")
    return rows


# ---------------------------------------------------------------- exact evaluation


def arrives(policy: Policy, task: MazeTask) -> tuple[float, float]:
    """The chance of arriving in time and the share of illegal moves, each the mean over mazes."""
    world = task.workflow.world
    mazes = [world.make(task.scenario("eval", number)) for number in range(MAZES)]
    asked = [(number, cell, one) for number, maze in enumerate(mazes) for cell, one in standing(task, maze)]
    said = language_model(policy, Chat(policy.tokenizer))([one for _, _, one in asked])
    chances = np.zeros((MAZES, mazes[0].layout.cells, len(DIRECTIONS)))
    legal = []
    for (number, cell, one), logp in zip(asked, said, strict=True):
        chances[number, cell, one.codes] = np.exp(logp) / np.exp(logp).sum()
        legal.append(np.exp(logp).sum())
    found = [arrival(maze.layout, chance, world.steps) for maze, chance in zip(mazes, chances, strict=True)]
    return float(np.mean(found)), float(1 - np.mean(legal))


def arrival(layout: Layout, chances: np.ndarray, steps: int) -> float:
    return float(values(layout, chances, steps).state[steps][layout.start])


def standing(task: MazeTask, maze: Maze) -> list[tuple[int, InformationState]]:
    """What is asked in each cell but the goal."""
    found = []
    for cell in range(maze.layout.cells):
        if cell == maze.layout.goal:
            continue
        maze.cell = cell
        codes = maze.layout.open(cell)
        moves = tuple(DIRECTIONS[code][0] for code in codes)
        question = {"role": "user", "content": task.workflow.question(maze.observe("player"), first=True)}
        found.append((cell, InformationState("player", "policy", str(cell), (question,), moves, moves, codes)))
    return found


# ---------------------------------------------------------------- the file


def recorded() -> list[Row]:
    if not OUT.is_file():
        return []
    with OUT.open() as file:
        rows = list(csv.DictReader(file))
    return [{key: text if key == "method" else float(text) for key, text in row.items()} for row in rows]


def append(rows: Sequence[Row]) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    new = not OUT.is_file()
    with OUT.open("a", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([list(rows[0])] if new else [])
        writer.writerows([[_short(value) for value in row.values()] for row in rows])


def _short(value: str | float) -> str | float:
    return f"{value:.4f}" if isinstance(value, float) else value


def differences(rows: Sequence[Row]) -> None:
    """Prints each method's figures by seed, and its mean difference from GRPO with Student's 95 % interval."""
    for name in ("arrive", "walked"):
        found = {method: _by_seed(rows, method, name) for method in METHODS}
        for method, mine in found.items():
            both = sorted(mine.keys() & found["grpo"].keys())
            gaps = [mine[seed] - found["grpo"][seed] for seed in both]
            low, high = mean_interval(gaps)
            figures = " ".join(f"{mine[seed]:.3f}" for seed in both)
            less = f"{np.mean(gaps or [math.nan]):+.3f} ({low:+.3f} to {high:+.3f})"
            print(f"{name} {method}: {figures}; less GRPO {less}")


def _by_seed(rows: Sequence[Row], method: str, name: str) -> dict[int, float]:
    """`arrive` at the end, `walked` over all of training."""
    mine = [row for row in rows if row["method"] == method and float(row["step"]) > 0]
    seeds = {int(row["seed"]) for row in mine}
    curves = {seed: [float(row[name]) for row in mine if row["seed"] == seed] for seed in seeds}
    return {seed: curve[-1] if name == "arrive" else math.fsum(curve) / len(curve) for seed, curve in curves.items()}


def main(seeds: Sequence[int]) -> None:
    for seed in seeds:
        for method in METHODS:
            if not any((row["method"], row["seed"]) == (method, seed) for row in recorded()):
                append(run(method, seed))
                print(method, seed, recorded()[-1], flush=True)
    differences(recorded())


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(range(10)))
