"""PPO and IPPO of hocket beside Stable-Baselines3 and BenchMARL, taking turns, on one thread each.

    python benchmarks/vs_control.py --setup                  # both in build/control, torch as pinned here
    python benchmarks/vs_control.py cartpole --rounds 10     # processor time to a mean return of 475, a seed a round
    python benchmarks/vs_control.py cheetah spread native    # environment steps a second: collection, learning

Both sides run by the Python of that environment, or of HOCKET_CONTROL_PYTHON. All times are processor seconds without
imports. On `cartpole` each side has settings of its own, Stable-Baselines3 the zoo's; both are judged after every
update by the same 50 greedy episodes, off the clock, and a round is one seed. On the others both make updates of the
same size: as many steps, networks, mini-batches and epochs. `spread` is mpe2's own environment on both sides, `native`
ours against mpe2's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench import BUILD, ROOT, machine
from control_cases import PEERS, PYTHON, TORCH, WORKS
from sides import Side, ratio, take_turns

HERE = Path(__file__).resolve().parent
THEIRS = {"cartpole": "sb3", "cheetah": "sb3", "spread": "benchmarl", "native": "benchmarl"}


def set_up() -> None:
    """Makes the environment; torch first, so that no other build of it comes, MuJoCo in parts of one version."""
    folder = BUILD / "control"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if line.startswith("mujoco")]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for wanted in ([TORCH], [TORCH, *PEERS, *pinned, "-e", f"{ROOT}[control]"]):
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *wanted], check=True)


def beside(case: str, settings: str, rounds: int, seconds: float) -> tuple[Side, Side]:
    """Ours and theirs on a case, after so many rounds in turns."""
    logs, theirs = BUILD / "control-logs", THEIRS[case]
    orders = {"hocket": ("side_control.py", case, settings), theirs: (f"side_{theirs}.py", case)}
    sides = []
    try:
        for name, (script, *given) in orders.items():
            command = [PYTHON, HERE / script, *given]
            sides.append(Side.start(name, command, log=logs / f"{case}-{name}.log", threads=1))
        for side in sides:
            side.ready()
        take_turns(sides, rounds=rounds, seconds=seconds, patience=0.0, brief=False)
        for side in sides:
            side.finish()
    finally:
        for side in sides:
            side.kill()
    return sides[0], sides[1]


def described(values: list[float], form: str = ",.2f") -> str:
    """Median, least and most."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def tell_runs(sides: tuple[Side, Side]) -> None:
    """Processor time and samples to the goal, of each side over its seeds."""
    medians = []
    for side in sides:
        taken = [float(step["processor"]["step"]) for step in side.steps]
        samples = [float(step["samples"]) for step in side.steps]
        lost = [step["seed"] for step in side.steps if not step["reached"]]
        said = f"{described(taken)} s, {described(samples, ',.0f')} samples"
        print(f"  {side.name:<10}{said}{f', goal not reached by seeds {lost}' if lost else ''}")
        medians.append(statistics.median(taken))
    found = ratio(sides[0], sides[1], "step", "processor")
    print(
        f"  ours over theirs: {medians[0] / medians[1]:.2f} of medians; by seed {tuple(map(rounded, found.values()))}"
    )


def tell_rates(case: str, sides: tuple[Side, Side]) -> None:
    """Environment steps a second of each side, and how many times theirs ours are, within rounds."""
    work = WORKS["spread" if case == "native" else case]
    for part in ("collect", "learn", "step"):
        rates = [[work.steps / float(step["processor"][part]) for step in side.steps] for side in sides]
        said = "; ".join(f"{side.name} {described(rate, ',.0f')}" for side, rate in zip(sides, rates, strict=True))
        found = tuple(map(rounded, ratio(sides[1], sides[0], part, "processor").values()))
        print(f"  {part:<8}{said}; times theirs (median, least, most): {found}")


def rounded(value: float) -> float:
    """Two decimals."""
    return round(value, 2)


def main() -> None:
    """Runs the cases that are asked for and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(THEIRS))
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1500.0, help="no round is begun that would end after these")
    parser.add_argument("--settings", default="{}", help="JSON, of ours, by dotted path")
    options = parser.parse_args()
    if options.setup:
        set_up()
        return
    for unknown in set(options.cases) - set(THEIRS):
        parser.error(f"no case {unknown!r}; there are {', '.join(THEIRS)}")
    print(json.dumps(machine()))
    for case in options.cases or THEIRS:
        sides = beside(case, options.settings, options.rounds, options.seconds)
        print(f"{case}, {len(sides[0].steps)} rounds", flush=True)
        if case == "cartpole":
            tell_runs(sides)
        else:
            tell_rates(case, sides)


if __name__ == "__main__":
    main()
