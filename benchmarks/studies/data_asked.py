"""Of the committed study of data: how soon a target was reached, who was asked, and what the clip took of replays.

    python benchmarks/studies/data_asked.py [runs/studies/data] [SEEDS]

How soon is read from the finished runs of that folder, in sampled answers and tokens until half of the problems
measured on the way were right. The study does not keep the other two, so runs of the mixture and of `repo-replay` are
made once more, with the same settings and seeds (5 unless told).
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hocket import tasks
from hocket.apps.studies.planning import Planner
from hocket.apps.studies.statistics import difference
from hocket.apps.studies.study import entries, read, rival, tasks_of
from hocket.core.keys import Key
from hocket.train.config import configure
from hocket.train.trainer import Trainer

FILE = Path(__file__).with_name("data.yaml")
TARGET = 0.5
DRAWS = 5000


def reached(rows: Sequence[Mapping[str, Any]], unit: str) -> float:
    """How much had been sampled when a measurement first reached the target; NaN if none did."""
    return next((float(row[unit]) for row in rows if row["value"] is not None and row["value"] >= TARGET), math.nan)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of means with a 95 % percentile interval; both are resampled."""
    rng, mine, other = np.random.default_rng(0), np.array(ours), np.array(theirs)
    drawn = [rng.choice(mine, len(mine)).mean() / rng.choice(other, len(other)).mean() for _ in range(DRAWS)]
    low, high = np.percentile(drawn, (2.5, 97.5)).tolist()
    return float(mine.mean() / other.mean()), low, high


def soon(folder: Path) -> None:
    """Prints how soon every method of the second and third task came to the target, beside its rival."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for file in sorted((folder / "runs").glob("*.json")):
        run = json.loads(file.read_text())
        found[run["run"]["label"]].append(run)
    study = read(FILE, [])
    for entry in entries(study):
        if tasks_of(entry, study)[0] == study.tasks[0]:
            continue
        told = []
        for unit in ("answers", "tokens"):
            ours, theirs = (
                [reached(run["rows"], unit) for run in found[name]] for name in (entry.label, rival(entry, study))
            )
            share = "{:.2f} ({:.2f} to {:.2f})".format(*ratio(ours, theirs))
            told.append(f"{statistics.fmean(ours):7.0f} {unit}, ratio {share}")
        print(f"{entry.label:24s} {'; '.join(told)}", flush=True)


def compared(folder: Path, ours: str, theirs: str) -> None:
    """Prints the difference in final success of two methods that the study compares with a third."""
    runs = [json.loads(file.read_text()) for file in (folder / "runs").glob("*.json")]
    values = [np.array([[run["final"]] for run in runs if run["run"]["label"] == name]) for name in (ours, theirs)]
    apart = difference(values[0], values[1], Key.of(0).derive(ours, theirs))
    print(f"{ours} against {theirs}: {100 * apart.value:+.1f} ({100 * apart.low:+.1f} to {100 * apart.high:+.1f})")


def again(label: str, seed: int) -> tuple[float, float, dict[str, float]]:
    """The share of dead problems among answers, without the first pass and of the last half, and what rows told."""
    study = read(FILE, [])
    entry = next(one for one in entries(study) if one.label == label)
    task = tasks_of(entry, study)[0]
    pairs = {**dict(Planner(study).run(entry, task, seed).pairs), "steps": study.steps, "evaluation.n": 1}
    pairs |= {"evaluation.between": 1, "evaluation.every": 0}
    asked: list[tuple[int, int]] = []
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = tasks.find(task)
        trainer = Trainer(configure([*pairs.items(), ("runs", folder)], source), task=source)
        before = (0, 0)
        size = source.size("train") or 0
        names = [source.scenario("train", number).id for number in range(size)]
        while not trainer.done:
            rows.append(trainer.step())
            tried = [(name, trainer.parts.ledger.outcomes(name).samples) for name in names]
            now = sum(count for name, count in tried if "/dead/" in name), sum(count for _, count in tried)
            asked.append((now[0] - before[0], now[1] - before[1]))
            before = now
        trainer.folder.release()
    first = math.ceil(size / study.prompts) + 1  # The first row is the measurement before training.
    shares = [
        sum(one[0] for one in part) / sum(one[1] for one in part)
        for part in (asked[first:], asked[-study.steps // 2 :])
    ]
    clips = ("replay/clipped", "replay/clipped/old", "replay/age", "replay/oldest")
    kept = {name: [float(row[name]) for row in rows if name in row and math.isfinite(row[name])] for name in clips}
    return shares[0], shares[1], {name: statistics.fmean(values) for name, values in kept.items() if values}


def main() -> None:
    """The command line."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/studies/data")
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    soon(folder)
    compared(folder, "gcpo-gold", "scaf-grpo")
    compared(folder, "rl-plus", "scaf-grpo")
    for label in ("grpo on dead", "mmr1-vas on dead", "variance alone on dead", "knapsack-rl on dead", "cures on dead"):
        found = [again(label, seed)[:2] for seed in range(seeds)]
        told = [
            f"{100 * statistics.fmean(part):.0f} % ({100 * min(part):.0f} to {100 * max(part):.0f})"
            for part in zip(*found, strict=True)
        ]
        print(
            f"{label:24s} of answers to dead problems after the first pass {told[0]}, in the last half {told[1]}",
            flush=True,
        )
    for seed in range(seeds):
        print(
            "repo-replay",
            seed,
            {name: round(value, 4) for name, value in again("repo-replay", seed)[2].items()},
            flush=True,
        )


if __name__ == "__main__":
    main()
