"""A pair with split information against a single agent, and one set of weights against two, at equal episodes.

    python benchmarks/agents_pairs.py [SEEDS]

Runs are resumable; the curve of each is appended to docs/evidence/pairs.csv when it is done.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import hocket
from hocket import tasks
from hocket.train.config import configure

OUT = Path("docs/evidence/pairs.csv")
FILE = "examples/split_sum.py"
VARIANTS: dict[str, list[tuple[str, object]]] = {
    "single": [],
    "pair": [("workflow", f"{FILE}:ScoutSolver")],
    "pair, two policies": [("workflow", f"{FILE}:ScoutSolver"), ("cast", {"type": "hocket.core.Separate"})],
}
STEPS = 60


def run(variant: str, seed: int) -> list[dict[str, object]]:
    task = tasks.find(f"{FILE}:SplitSums")
    settings: list[tuple[str, object]] = [
        *(("steps", STEPS), ("seed", seed), ("threads", 1), ("evaluation.n", 400)),
        *(("evaluation.every", 15), ("evaluation.between", 400), ("runs", "runs/pairs")),
        *VARIANTS[variant],
    ]
    trainer = hocket.Trainer(configure(settings, task), task=task)
    rows, tokens = [], 0.0
    while not trainer.done:
        row = trainer.step()
        tokens += row.get("tokens/generated") or 0.0
        if "eval/accuracy" in row:
            found = {"variant": variant, "seed": seed, "step": row["step"], "tokens": int(tokens)}
            rows.append({**found, "accuracy": row["eval/accuracy"]})
    trainer.finish("finished")
    return rows


def done() -> set[tuple[str, int]]:
    if not OUT.is_file():
        return set()
    with OUT.open() as file:
        return {(row["variant"], int(row["seed"])) for row in csv.DictReader(file)}


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for seed in range(seeds):
        for variant in VARIANTS:
            if (variant, seed) in done():
                continue
            rows, new = run(variant, seed), not OUT.is_file()
            OUT.parent.mkdir(parents=True, exist_ok=True)
            with OUT.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                if new:
                    writer.writeheader()
                writer.writerows(rows)
            print(variant, seed, [row["accuracy"] for row in rows], flush=True)


if __name__ == "__main__":
    main()
