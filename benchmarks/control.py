"""Is hocket a text model in disguise? Trains controllers with the recipes of language models and prints a table.

    python benchmarks/control.py [--seeds 5] [--only cartpole,acrobot,pendulum]

Every run is a fresh process of `hocket train`, imports, evaluations, checkpoints and report included;
`seconds` is its wall time, `cpu` the processor time it took. Exits with 1 unless every run reaches its goal, a mean
return over 100 evaluation episodes, within 60 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 60.0


@dataclass(frozen=True)
class Case:
    environment: str
    recipe: str
    goal: float


CASES = {
    "cartpole": (Case("CartPole-v1", "ppo", 475), Case("CartPole-v1", "grpo", 475)),
    "acrobot": (Case("Acrobot-v1", "ppo", -100),),
    "pendulum": (Case("Pendulum-v1", "ppo", -200),),
}


def trained(case: Case, seed: int, runs: Path) -> tuple[float, int, float, float]:
    """Mean return after training, evaluation episodes, wall seconds and processor seconds."""
    name = f"{case.environment}-{case.recipe}-{seed}"
    command = [sys.executable, "-m", "hocket", "train", "--task", f"gym:{case.environment}", "--recipe", case.recipe]
    command += ["--seed", str(seed), "--runs", str(runs), "--run", name, "--json"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    summary = json.loads((runs / name / "summary.json").read_text())["after"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return summary["return"], summary["n"], seconds, cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default=",".join(CASES))
    options = parser.parse_args()
    passed = True
    print(f"{'environment':<14}{'recipe':<8}{'seed':>4}{'return':>10}{'goal':>7}{'n':>5}{'seconds':>9}{'cpu':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for case in [case for name in options.only.split(",") for case in CASES[name]]:
            for seed in range(options.seeds):
                result, n, seconds, cpu = trained(case, seed, Path(folder))
                good = result >= case.goal and seconds <= LIMIT
                passed &= good
                row = f"{case.environment:<14}{case.recipe:<8}{seed:>4}{result:>10.1f}{case.goal:>7.0f}{n:>5}"
                print(f"{row}{seconds:>9.1f}{cpu:>7.1f}{'' if good else '  MISSED'}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
