"""Somebody else's agent trained through the protocol of chat completions: examples/outside_agent.py as it is.

    python benchmarks/outside_agent.py [SEEDS]

Runs are resumable. The curves go to docs/evidence/outside-agent.csv and are drawn beside it.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

from plots import STYLE

from hocket.apps.report.chart import ticks, tidy
from hocket.train.tracking import read_metrics

OUT = Path("docs/evidence/outside-agent.csv")
RUNS = Path("runs/outside-agent")
STEPS = 100
SETTINGS = ("--evaluation.n", "200", "--evaluation.every", "20", "--evaluation.between", "100", "--threads", "1")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520.0, 250.0, 44.0, 14.0, 30.0, 38.0

Point = tuple[float, float]


def train(seed: int) -> Path:
    """A run of 100 steps; one that was begun goes on."""
    run = RUNS / f"seed-{seed}"
    command = [sys.executable, "-m", "hocket", "train", "--runs", str(RUNS), "--quiet"]
    if run.is_dir():
        command += ["--resume", run.name]
    else:
        flow = "outside:examples/outside_agent.py:agent"
        command += ["--run", run.name, "--workflow", flow, "--seed", str(seed), "--steps", str(STEPS), *SETTINGS]
    subprocess.run(command, check=True)
    return run


def collected(run: Path, seed: int) -> list[dict[str, Any]]:
    """What is kept of a run."""
    names = {"reward": "reward/mean", "accuracy": "eval/accuracy", "failed": "episodes/failed"}
    return [
        {"seed": seed, "step": row["step"], **{name: row.get(key) for name, key in names.items()}}
        for row in read_metrics(run / "metrics.jsonl")
    ]


def smoothed(points: list[Point], reach: int = 5) -> list[Point]:
    """Each value averaged with its neighbours; fewer of them at the ends."""
    found = []
    for place, (x, _) in enumerate(points):
        half = min(reach, place, len(points) - 1 - place)
        near = [y for _, y in points[place - half : place + half + 1]]
        found.append((x, sum(near) / len(near)))
    return found


def drawn(rows: list[dict[str, Any]]) -> str:
    """Mean rewards while sampling as lines, greedy accuracy on unseen problems as marks, by seed."""
    last = max(int(row["step"]) for row in rows)

    def across(step: float) -> float:
        return LEFT + step / last * (WIDTH - LEFT - RIGHT)

    def down(share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img">']
    parts.append(f"<style>{STYLE}</style>")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = down(share)
        parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6:g}" y="{y + 3.5:.1f}" text-anchor="end">{share:.0%}</text>')
    for step in ticks(0.0, float(last), 5):
        parts.append(f'<text x="{across(step):.1f}" y="{HEIGHT - 22:g}" text-anchor="middle">{tidy(step)}</text>')
    parts.append(f'<text class="name" x="{WIDTH / 2:g}" y="{HEIGHT - 6:g}" text-anchor="middle">training step</text>')
    for place, seed in enumerate(sorted({int(row["seed"]) for row in rows})):
        mine = [row for row in rows if int(row["seed"]) == seed]
        rewards = [(float(row["step"]), float(row["reward"])) for row in mine if row["reward"] not in (None, "")]
        line = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in smoothed(rewards))
        parts.append(f'<polyline class="line c{place}" points="{line}"/>')
        for row in mine:
            if row["accuracy"] not in (None, ""):
                x, y = across(float(row["step"])), down(float(row["accuracy"]))
                parts.append(f'<circle class="c{place}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>')
        x = LEFT + 62 * place
        parts.append(f'<line class="line c{place}" x1="{x:g}" x2="{x + 14:g}" y1="14" y2="14"/>')
        parts.append(f'<text x="{x + 18:g}" y="17.5">seed {seed}</text>')
    words = "lines: right while sampling, smoothed; circles: greedy, unseen"
    parts.append(f'<text x="{WIDTH - RIGHT:g}" y="17.5" text-anchor="end">{words}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def write(rows: list[dict[str, Any]]) -> None:
    """The curves as numbers and as a figure."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    OUT.with_suffix(".svg").write_text(drawn(rows))


def main() -> None:
    """Trains what is missing and draws."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    write([row for seed in range(seeds) for row in collected(train(seed), seed)])


if __name__ == "__main__":
    main()
