"""A tool that must be called: accuracy and calls of `examples/tool_user.yaml`, by seed and step.

    python benchmarks/agents_tool.py [SEED ...]      0 1 2 unless told

Runs go on where they were left; the curve of each is appended to docs/evidence/tool.csv when it is done.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from hocket.apps.cli.parser import main as hocket

OUT = Path("docs/evidence/tool.csv")
RUNS = Path("runs/tool")
COLUMNS = {"accuracy": "eval/accuracy", "reward": "reward/mean", "calls": "tools/calls"}


def run(seed: int) -> list[list[object]]:
    """What each row of the run's metrics says, empty where it says nothing."""
    folder = RUNS / f"seed-{seed}"
    ways = ["--runs", str(RUNS), "--run", folder.name, "--seed", str(seed), "--threads", "1", "--quiet"]
    code = hocket(
        ["train", "--resume", str(folder)] if folder.is_dir() else ["train", "examples/tool_user.yaml", *ways]
    )
    if code:
        raise SystemExit(code)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [[seed, row["step"], *(row.get(name, "") for name in COLUMNS.values())] for row in rows]


def main() -> None:
    """The command line."""
    done = set()
    if OUT.is_file():
        with OUT.open() as file:
            done = {int(row["seed"]) for row in csv.DictReader(file)}
    for seed in [int(text) for text in sys.argv[1:]] or [0, 1, 2]:
        if seed in done:
            continue
        rows = run(seed)
        new = not OUT.is_file()
        with OUT.open("a", newline="") as file:
            csv.writer(file).writerows([["seed", "step", *COLUMNS], *rows] if new else rows)


if __name__ == "__main__":
    main()
