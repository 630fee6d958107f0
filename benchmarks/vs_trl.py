"""A training step of hocket beside one of TRL's `GRPOTrainer`, on this machine's processor.

    python benchmarks/vs_trl.py --setup             an environment of TRL's own, build/trl
    python benchmarks/vs_trl.py --tune nano-short   looks for TRL's fastest settings, keeps them in trl_best.json
    python benchmarks/vs_trl.py --quick --json      all cases, few rounds, one JSON object, under ten minutes
    python benchmarks/vs_trl.py nano-short medium   chosen cases, more rounds, and more variants of both sides

Both sides load the same random weights (`cases.py`), read the same 16 prompts 8 times, and are given the same threads.
Half of each group is rewarded, so that every decision has an advantage. Responses are equally long because the weights
make ends of text improbable; in `uneven-lengths` they end at random instead, and only the expected number of tokens is
equal. In `multi-turn` TRL generates from the full history at each turn and learns from the whole conversation at once.

Ours is the library's own loop as `hocket train` would run it, precision chosen by itself; `ours fp32` computes in fp32.
TRL is what `--tune` found fastest among settings that learn (fp32 weights, bf16 autocast allowed), without gradient
checkpointing. Unless `--quick`, ours also runs with the threads it chooses by itself, and TRL with pure bf16 weights.

Each side is a fresh process. They take turns step by step, frozen while another runs, so that spinning threads disturb
nobody. Sampling is everything from asking to scored trajectories against `model.generate`; a step of ours is
everything from asking to changed weights, one of TRL's what its trainer does between `on_step_begin` and `on_step_end`.
Ratios are taken within rounds: the median, and the least and the most as the spread. The first step of a side does not
count; by how much it was slower is `warm_up`. `kernels_seconds` is what compiling our kernels takes, once per machine.
Memory is the peak resident size less that after the imports.

The floor is the least arithmetic (`cases.Work`: 2 operations per weight and token forward and 4 backward, for tokens
computed once) at the rate of a large product in ours's precision, measured after each step. Attention's own products
are not in it; `floor_fraction_with_attention` has them.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import side_hocket
import side_trl
from bench import busy_share, machine
from cases import CASES, Case
from sides import QUIET, Settings, Side, WorkerFailed, beside, clock_of, floor_fraction, floor_seconds, ratio

BEST = Path(__file__).with_name("trl_best.json")

MINUTES = 9.0
"""What all cases of a quick run may take together, at most."""

CANDIDATES: tuple[dict[str, Any], ...] = (
    {"attention": "sdpa"},
    {"attention": "eager"},
    {"compute": "fp32"},
    {"micro": 32},
    {"micro": 16},
    {"wait": "PASSIVE"},
    {"threads": 1},
    {"compiled": True},
)
"""Changes that `--tune` tries one after the other."""


# ---------------------------------------------------------------- comparing


def compare(case: Case, *, quick: bool, fp32: bool, threads: int | None, seconds: float) -> dict[str, Any]:
    """All figures of a case, in about `seconds`: one round at least. On busy processors both sides have one thread."""
    trl = replace(best_settings(case), compute="fp32") if fp32 else best_settings(case)
    trl = replace(trl, threads=threads or (1 if busy_share() > QUIET else trl.threads))
    ours = side_hocket.Settings(threads=trl.threads, wait=trl.wait)
    if fp32:
        wanted: dict[str, Settings] = {"ours": replace(ours, precision="fp32"), "trl": trl}
    else:
        wanted = {"ours": ours, "ours fp32": replace(ours, precision="fp32"), "trl": trl}
    if not quick:
        wanted["ours alone"] = side_hocket.Settings()
        wanted["trl bf16 weights"] = replace(trl, weights="bfloat16", compute="bf16")
    patience = 0.0 if trl.threads == 1 else 10.0 if quick else 60.0
    sides = beside(case, wanted, rounds=3 if quick else 7, seconds=seconds, patience=patience, brief=quick)
    return figures(case, sides, quick=quick) | {"trl_settings": asdict(trl)}


def figures(case: Case, sides: Mapping[str, Side], *, quick: bool) -> dict[str, Any]:
    """The case's figures from what its sides measured."""
    ours, trl = sides["ours"], sides["trl"]
    memory = {name: side.end["memory"] for name, side in sides.items()}
    found: dict[str, Any] = {
        "name": case.name,
        "sampling_ratio": ratio(trl, ours, "sampling")["median"],
        "step_ratio": ratio(trl, ours, "step")["median"],
        "memory_ratio": memory["ours"] / memory["trl"],
        **{f"floor_fraction_{part}": floor_fraction(ours, part) for part in ("sampling", "learner")},
        "rounds": len(ours.steps),
        "parameters": ours.about["parameters"],
        "threads": ours.about["threads"],
        "precision": ours.about["precision"],
        "clock": clock_of(ours, trl),
    }
    for part in ("sampling", "step"):
        found[f"{part}_spread"] = ratio(trl, ours, part)
        found[f"{part}_ratio_processor"] = ratio(trl, ours, part, "processor")["median"]
        found[f"{part}_ratio_wall"] = ratio(trl, ours, part, "seconds")["median"]
        # The other variants of one side against the plain one of the other.
        found[f"{part}_ratio_of"] = {
            name: (ratio(side, ours, part) if name.startswith("trl") else ratio(trl, side, part))["median"]
            for name, side in sides.items()
            if side not in (ours, trl)
        }
    return found | {
        "floor_fraction_with_attention": {
            part: floor_fraction(ours, part, attention=True) for part in ("sampling", "learner")
        },
        "floor_fraction_of": {
            name: {part: floor_fraction(side, part) for part in ("sampling", "learner")}
            for name, side in sides.items()
            if name.startswith("ours") and side is not ours
        },
        "floor_seconds": {part: floor_seconds(ours, part) for part in ("sampling", "learner")},
        "gflops": {
            kind: statistics.median(step["rates"][kind] for step in ours.steps) / 1e9 for kind in ours.steps[0]["rates"]
        },
        "seconds": {name: side.medians() for name, side in sides.items()},
        "warm_up": {name: side.warm_up("step") for name, side in sides.items() if not quick or name.startswith("ours")},
        "memory_mib": memory,
        "tokens": {name: statistics.median(step["tokens"] for step in side.steps) for name, side in sides.items()},
        "others": {name: side.disturbance for name, side in sides.items()},
    }


# ---------------------------------------------------------------- TRL's best settings


def best_settings(case: Case) -> side_trl.Settings:
    """What `--tune` found for this case, else what is fastest for most."""
    stored: Mapping[str, Any] = json.loads(BEST.read_text()) if BEST.exists() else {}
    if case.name in stored:
        return side_trl.Settings(**stored[case.name]["settings"])
    return side_trl.Settings(attention=case.attention, micro=case.micro)


def tune(case: Case, rounds: int, threads: int | None) -> dict[str, Any]:
    """Tries one change of TRL's settings after the other beside the best so far; stores what remains.

    A change must win every round. With `threads`, threads and waiting are not tried and stored as they are
    for most; on one thread processor seconds decide, so that other programs do not count.
    """
    usual = side_trl.Settings(attention=case.attention, micro=case.micro)
    forced: dict[str, Any] = (
        {} if threads is None else {"threads": threads, "wait": "ACTIVE" if threads > 1 else "PASSIVE"}
    )
    best = replace(usual, **forced)
    tried: list[dict[str, Any]] = []
    for change in CANDIDATES:
        other = replace(best, **change)
        # A smaller micro-batch stands in for one of all samples; where memory asks for it, none larger is tried.
        larger = case.micro and other.micro > case.micro
        fixed = change.keys() & forced.keys()
        uneven = case.stops and other.compiled  # It would compile anew for the lengths of each step.
        if other == best or larger or fixed or uneven:
            continue
        try:
            sides = beside(case, {"best": best, "other": other}, rounds=rounds, seconds=300.0, patience=20.0)
        except WorkerFailed as error:
            tried.append({"settings": other.label, "failed": str(error)[-300:]})
            continue
        clock = clock_of(*sides.values())
        found = ratio(sides["best"], sides["other"], "step", clock)
        tried.append(
            {
                "settings": other.label,
                "faster_than_best_so_far": found,
                "seconds_a_step": {name: side.median("step", clock) for name, side in sides.items()},
                "clock": clock,
                "others": max(side.disturbance for side in sides.values()),
            }
        )
        print(f"{case.name}: {other.label}: {found['median']:.2f} times as fast", file=sys.stderr)
        if found["least"] > 1:
            best = other
    if forced:
        best = replace(best, threads=usual.threads, wait=usual.wait)
    stored = json.loads(BEST.read_text()) if BEST.exists() else {}
    stored[case.name] = {"settings": asdict(best), "tried": tried}
    BEST.write_text(json.dumps(stored, indent=1) + "\n")
    return {"settings": asdict(best), "tried": tried}


# ---------------------------------------------------------------- the command


def show(found: Mapping[str, Any]) -> None:
    """A case for people."""
    print(
        f"\n{found['name']}: {found['parameters'] / 1e6:.1f} M parameters, {found['rounds']} rounds, "
        f"{found['threads']} threads, {found['clock']} seconds, ours in {found['precision']}"
    )
    for part in ("sampling", "step"):
        seen = found[f"{part}_spread"]
        others = "".join(f"; {name} {value:.1f}" for name, value in found[f"{part}_ratio_of"].items())
        print(
            f"  {part:9s} TRL {found['seconds']['trl'][part]:.2f} s, ours {found['seconds']['ours'][part]:.2f} s: "
            f"{seen['median']:.1f} times ({seen['least']:.1f} to {seen['most']:.1f}), processor time "
            f"{found[f'{part}_ratio_processor']:.1f}, wall {found[f'{part}_ratio_wall']:.1f}{others}"
        )
    memory = ", ".join(f"{name} {size:.0f}" for name, size in found["memory_mib"].items())
    print(f"  memory    {found['memory_ratio']:.2f} of TRL's (MiB: {memory})")
    rate = found["gflops"][found["precision"]]
    whole = found["floor_fraction_with_attention"]
    print(
        f"  floor     sampling {100 * found['floor_fraction_sampling']:.0f} %, learner "
        f"{100 * found['floor_fraction_learner']:.0f} % of {rate:.0f} GFLOP/s {found['precision']}; with attention's "
        f"products {100 * whole['sampling']:.0f} % and {100 * whole['learner']:.0f} %"
    )
    warm = ", ".join(f"{name} {value:.1f} s" for name, value in found["warm_up"].items())
    print(f"  first step slower by: {warm}")
    disturbed = {name: round(value, 2) for name, value in found["others"].items() if value > QUIET}
    if disturbed:
        print(f"  disturbed by other programs, processors: {disturbed}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {case.name: case for case in CASES}
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(known)}; all when none is named")
    parser.add_argument("--setup", action="store_true", help="make TRL's environment and stop")
    parser.add_argument("--tune", action="store_true", help="look for TRL's fastest settings for the cases and stop")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and variants")
    parser.add_argument("--fp32", action="store_true", help="both sides in fp32, for processors without bf16")
    parser.add_argument("--threads", type=int, help="of both sides; TRL's best, or 1 on busy processors")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that workers, frozen or not, are ended.
    unknown = [name for name in options.cases if name not in known]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; choose from {', '.join(known)}")
    if options.setup:
        side_trl.set_up()
        return
    if not side_trl.PYTHON.exists():
        parser.error("TRL is not installed; run python benchmarks/vs_trl.py --setup first")
    chosen = [known[name] for name in options.cases] or list(CASES)
    if options.tune:
        print(json.dumps({case.name: tune(case, 2, options.threads) for case in chosen}, indent=1))
        return
    heads = sorted({case.width // case.heads for case in chosen})
    about = machine(**side_trl.versions(), kernels_seconds={head: side_hocket.compilation(head) for head in heads})
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()))
    found = []
    end = time.perf_counter() + 60 * MINUTES
    for number, case in enumerate(chosen):
        share = (end - time.perf_counter()) / (len(chosen) - number) if options.quick else 600.0
        found.append(compare(case, quick=options.quick, fp32=options.fp32, threads=options.threads, seconds=share))
        if not options.json:
            show(found[-1])
    if options.json:
        json.dump({"machine": about, "cases": found}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
