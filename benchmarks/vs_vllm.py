"""Sampling by hocket's `LocalEngine` beside vLLM offline, on this machine's processor.

    python benchmarks/vs_vllm.py --setup         an environment of vLLM's own, build/vllm (or name the python of another
                                                 in HOCKET_VLLM_PYTHON)
    python benchmarks/vs_vllm.py                 cases nano-short and nano-long-prompt
    python benchmarks/vs_vllm.py small --json    others, one JSON object

Both sides sample 16 prompts 8 times from the same random weights, all responses equally long, and tell the log-prob of
every token. vLLM gets its prompts without samples (`n = 8`), so that it too reads each prompt once; its prefix cache is
emptied before each step, as new weights would empty it. It is compiled, in bf16 and in fp32; ours is as `hocket train`
would run it, and in fp32. Sides take turns as in `vs_trl.py`; ratios are vLLM's time over ours, within rounds.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import side_hocket
import side_vllm
from bench import busy_share, machine
from cases import CASES, Case
from sides import QUIET, Settings, Side, beside, clock_of, ratio

DEFAULT = ("nano-short", "nano-long-prompt")


def compare(case: Case, rounds: int, threads: int | None) -> dict[str, Any]:
    """All figures of a case."""
    threads = threads or (1 if busy_share() > QUIET else 2)
    wait = "ACTIVE" if threads > 1 else "PASSIVE"
    ours = side_hocket.Settings(threads=threads, wait=wait, sampling_only=True)
    vllm = side_vllm.Settings(threads=threads, wait=wait)
    wanted: dict[str, Settings] = {
        "ours": ours,
        "ours fp32": replace(ours, precision="fp32"),
        "vllm": vllm,
        "vllm fp32": replace(vllm, dtype="float32"),
    }
    patience = 20.0 if threads > 1 else 0.0
    return figures(case, beside(case, wanted, rounds=rounds, seconds=600.0, patience=patience))


def figures(case: Case, sides: Mapping[str, Side]) -> dict[str, Any]:
    """The case's figures from what its sides measured."""
    clock = clock_of(*sides.values())
    return {
        "name": case.name,
        "clock": clock,
        "rounds": len(sides["ours"].steps),
        "threads": sides["ours"].about["threads"],
        "precision": sides["ours"].about["precision"],
        "sampling_ratio": ratio(sides["vllm"], sides["ours"], "sampling", clock),
        "sampling_ratio_fp32": ratio(sides["vllm fp32"], sides["ours fp32"], "sampling", clock),
        "memory_ratio": sides["ours"].end["memory"] / sides["vllm"].end["memory"],
        "seconds": {name: side.median("sampling", clock) for name, side in sides.items()},
        "tokens_per_second": {
            name: side.steps[0]["tokens"] / side.median("sampling", clock) for name, side in sides.items()
        },
        "warm_up": {name: side.warm_up("sampling") for name, side in sides.items()},
        "memory_mib": {name: side.end["memory"] for name, side in sides.items()},
        "others": {name: side.disturbance for name, side in sides.items()},
    }


def show(found: Mapping[str, Any]) -> None:
    """A case for people."""
    print(
        f"\n{found['name']}: {found['rounds']} rounds, {found['threads']} threads, {found['clock']} seconds, ours in "
        f"{found['precision']}"
    )
    for name, kind in (("sampling_ratio", "vLLM bf16 / ours"), ("sampling_ratio_fp32", "vLLM fp32 / ours fp32")):
        seen = found[name]
        print(f"  {kind:22s} {seen['median']:.2f} ({seen['least']:.2f} to {seen['most']:.2f})")
    for name, rate in found["tokens_per_second"].items():
        print(
            f"  {name:12s} {rate:8.0f} tokens/s, {found['memory_mib'][name]:.0f} MiB, first step slower by "
            f"{found['warm_up'][name]:.1f} s"
        )
    disturbed = {name: round(value, 2) for name, value in found["others"].items() if value > QUIET}
    if disturbed:
        print(f"  disturbed by other programs, processors: {disturbed}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {case.name: case for case in CASES if case.turns == 1}
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(known)}; {' and '.join(DEFAULT)}")
    parser.add_argument("--setup", action="store_true", help="make vLLM's environment and stop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of both sides; 2, or 1 on busy processors")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that workers, frozen or not, are ended.
    if options.setup:
        side_vllm.set_up()
        return
    unknown = [name for name in options.cases if name not in known]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; choose from {', '.join(known)}")
    if not side_vllm.PYTHON.exists():
        parser.error("vLLM is not installed; run python benchmarks/vs_vllm.py --setup, or set HOCKET_VLLM_PYTHON")
    about = machine(**side_vllm.versions())
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()))
    found = []
    for name in options.cases or DEFAULT:
        found.append(compare(known[name], options.rounds, options.threads))
        if not options.json:
            show(found[-1])
    if options.json:
        json.dump({"machine": about, "cases": found}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
