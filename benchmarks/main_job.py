"""The main job over seeds: how many points it gains, and how soon.

    python benchmarks/main_job.py                                      five seeds of `hocket train`
    python benchmarks/main_job.py --task reasoning-gym:chain_sum       another task

Each seed is a fresh process, timed from its start, imports and evaluations included. The gain is that of the final
greedy accuracy on 1,000 unseen problems over the one before training.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def one(seed: int, flags: list[str], runs: Path) -> dict[str, Any]:
    started = time.perf_counter()
    command = [sys.executable, "-m", "hocket", "train", "--seed", str(seed), "--quiet", "--json", "--runs", str(runs)]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout), "wall": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    known, flags = parser.parse_known_args()
    print("seed  before  after   gain   working          wall s  steps")
    gains = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(known.first, known.first + known.seeds):
            found = one(seed, flags, Path(folder))
            before, after = found["before"], found["after"]
            gains.append(100 * found["gain"])
            print(
                f"{seed:4d}  {before['accuracy']:.3f}   {after['accuracy']:.3f}  {gains[-1]:+5.1f}   "
                f"{before.get('working', 0):.2f} -> {after.get('working', 0):.2f}  {found['wall']:8.1f}  "
                f"{found['steps']:5d}   95 % interval after {after['low']:.3f} to {after['high']:.3f}",
                flush=True,
            )
    print(f"gain: least {min(gains):+.1f}, mean {sum(gains) / len(gains):+.1f} points")


if __name__ == "__main__":
    main()
