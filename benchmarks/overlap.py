"""Sampling beside learning in two processes (`--overlap 1`): what it gains in time, and what its older samples cost.

    python benchmarks/overlap.py                              the default job, 3 seeds, about 12 minutes on 2 cores
    python benchmarks/overlap.py --seeds 1 --steps 30 --json  a glance, one JSON document

Variants, a fresh process each, taking turns within a seed, so that what disturbs one disturbs all:

    1 thread      sampling, then learning, on one thread
    2 threads     the same on two: what the second core gives without overlap
    overlap       both at once, one thread each, samples one update old
    overlap, tis  the same with truncated importance weights (recipe grpo-tis, which evaluates every batch once more)
    sampler, lag 1  whole episodes in a process of their own (--cluster local --samplers 1 --lag 1): the same samples

Seconds per step are wall-clock seconds of `metrics.jsonl`, evaluations aside; the first steps of a run, in which the
second process starts, are left out of them. A ratio is taken within a seed. The curve is greedy accuracy on unseen
problems at the same steps; its cost is the difference to `1 thread` within a seed. Wall-clock seconds mean little while
other programs run: how many processors those took before each run is told.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import busy_share, machine, spread

PLAIN = "1 thread"
VARIANTS: dict[str, list[str]] = {
    PLAIN: ["--threads", "1"],
    "2 threads": ["--threads", "2"],
    "overlap": ["--threads", "1", "--overlap", "1"],
    "overlap, tis": ["--threads", "1", "--overlap", "1", "--recipe", "grpo-tis"],
    "sampler, lag 1": ["--threads", "1", "--cluster", "local", "--samplers", "1", "--lag", "1"],
}
PARTS = ("time/step", "time/rollout", "time/update", "time/wait")
SETTLED = 3
"""Steps at a run's start that say nothing about the others."""


def one(variant: str, seed: int, flags: list[str], runs: Path) -> dict[str, Any]:
    """Trains once; seconds of each step by part, accuracy by step, and who else used the processors before."""
    busy = busy_share()
    name = f"{variant.replace(' ', '-').replace(',', '')}-{seed}"
    command = [sys.executable, "-m", "hocket", "train", "--seed", str(seed), "--quiet", "--json"]
    command += ["--runs", str(runs), "--run", name, *flags, *VARIANTS[variant]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    rows = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_text().splitlines()]
    steps = rows[1 + SETTLED :]
    return {
        "variant": variant,
        "seed": seed,
        "others_busy": busy,
        "seconds": {part: statistics.median(row[part] for row in steps) for part in PARTS if part in steps[0]},
        "accuracy": {row["step"]: row["eval/accuracy"] for row in rows if row.get("eval/accuracy") is not None},
        "stale_kl": statistics.mean(row["kl/behaviour"] or 0.0 for row in steps),
    }


def summed_up(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Over seeds: seconds, ratios to one thread, final accuracy and its difference to one thread."""
    plain = {run["seed"]: run for run in found if run["variant"] == PLAIN}
    result = {}
    for variant in VARIANTS:
        runs = [run for run in found if run["variant"] == variant]
        last = max(runs[0]["accuracy"])
        result[variant] = {
            "seconds": {part: spread([run["seconds"][part] for run in runs]) for part in runs[0]["seconds"]},
            "times_as_fast": spread(
                [plain[run["seed"]]["seconds"]["time/step"] / run["seconds"]["time/step"] for run in runs]
            ),
            "accuracy": spread([run["accuracy"][last] for run in runs]),
            "points_to_plain": spread(
                [100 * (run["accuracy"][last] - plain[run["seed"]]["accuracy"][last]) for run in runs]
            ),
            "curve": {
                step: statistics.mean(run["accuracy"][step] for run in runs) for step in sorted(runs[0]["accuracy"])
            },
            "stale_kl": statistics.mean(run["stale_kl"] for run in runs),
        }
    return result


def show(result: dict[str, Any]) -> None:
    print("\nseconds per step: median over seeds (least to most)")
    for variant, row in result.items():
        parts = "  ".join(f"{part.partition('/')[2]} {row['seconds'][part]['median']:.3f}" for part in row["seconds"])
        print(f"  {variant:14s} {between(row['times_as_fast'], '.2f')} times as fast   {parts}")
    print("\ngreedy accuracy: mean over seeds by step, and the last one's difference to one thread in points")
    for variant, row in result.items():
        curve = "  ".join(f"{step}: {value:.3f}" for step, value in row["curve"].items())
        cost = between(row["points_to_plain"], "+.1f")
        print(f"  {variant:14s} {curve}   {cost}   KL of samples to learner {row['stale_kl']:.1e}")


def between(value: dict[str, float], form: str) -> str:
    return f"{value['median']:{form}} ({value['least']:{form}} to {value['most']:{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options, flags = parser.parse_known_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.seeds):
            order = list(VARIANTS) if seed % 2 else list(VARIANTS)[::-1]
            for variant in order:
                found.append(one(variant, seed, flags, Path(folder)))
                last = max(found[-1]["accuracy"])
                print(
                    f"seed {seed}, {variant:14s} {found[-1]['seconds']['time/step']:.3f} s a step, accuracy "
                    f"{found[-1]['accuracy'][last]:.3f}; {found[-1]['others_busy']:.1f} processors busy before",
                    file=sys.stderr,
                    flush=True,
                )
    result = summed_up(found)
    if options.json:
        json.dump({"machine": machine(), "runs": found, "summary": result}, sys.stdout, indent=1)
        print()
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    show(result)


if __name__ == "__main__":
    main()
