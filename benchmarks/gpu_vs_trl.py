"""A training step of hocket beside one of TRL's `GRPOTrainer` on a CUDA device, at the size of a 1.5 B model.

    python benchmarks/gpu_vs_trl.py              random Qwen2.5-1.5B-shaped weights, 512-token prompts, 512 new tokens
    python benchmarks/gpu_vs_trl.py --no-trl     ours alone, where TRL is not installed
    python benchmarks/gpu_vs_trl.py --profile    what a learner's step of ours spends its time on
    python benchmarks/gpu_vs_trl.py --tiny       a small model, on the processor where there is no device: checks that
                                                 everything runs, its figures mean nothing

TRL runs in build/trl, or in the environment whose python HOCKET_TRL_PYTHON names. Ours is as `hocket train` would run
it; TRL has fp32 weights and bf16 autocast (`trl`), or pure bf16 weights (`trl bf16 weights`), fused attention, no
checkpointing. One has the device after the other: what the allocators of several keep is what the others need. What is
compared and how is said in `vs_trl.py`. Of each side: tokens/s of sampling, tokens/s of the
learner (sampled tokens over the rest of the step), the share of the measured bf16 matrix rate that the least arithmetic
(`cases.Work`, attention included) amounts to in each, and the peak of memory that tensors had.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import side_hocket
import side_trl
from bench import machine
from cases import Case, build_model
from sides import Settings, Side, beside, ratio

LARGE = Case(
    "gpu-1.5b",
    width=1536,
    layers=28,
    heads=12,
    shared=2,
    inner=8960,
    kind="qwen2",
    prompts=8,
    samples=8,
    prompt=512,
    new=512,
    words=151_838,
)
TINY = Case("gpu-tiny", 128, 2, 4, shared=2, kind="qwen2", prompts=2, samples=4, prompt=64, new=16)
MIB = 1024.0


def compare(case: Case, options: argparse.Namespace, device: str) -> dict[str, Any]:
    """All figures."""
    ours = side_hocket.Settings(threads=options.threads, device=device)
    trl = side_trl.Settings(options.threads, wait="", attention="sdpa", micro=options.micro, device=device)
    wanted: dict[str, Settings] = {"ours": ours}
    if options.trl:
        wanted |= {"trl": trl, "trl bf16 weights": replace(trl, weights="bfloat16")}
    sides: dict[str, Side] = {}
    for name, settings in wanted.items():
        sides |= beside(case, {name: settings}, rounds=options.rounds, seconds=3600.0, patience=0.0)
    return {
        "name": case.name,
        "parameters": sides["ours"].about["parameters"],
        "precision": sides["ours"].about["precision"],
        "tflops": {
            kind: statistics.median(step["rates"][kind] for step in sides["ours"].steps) / 1e12
            for kind in sides["ours"].steps[0]["rates"]
        },
        "sides": {name: figures(side, sides["ours"]) for name, side in sides.items()},
        "ratios": {
            name: {
                **{part: ratio(side, sides["ours"], part, "seconds") for part in ("sampling", "step")},
                "memory": sides["ours"].end["memory"] / side.end["memory"],
            }
            for name, side in sides.items()
            if name != "ours"
        },
    }


def profile(case: Case, options: argparse.Namespace, device: str) -> None:
    """Prints the operators of the second step's learner, by the device's time and by the processor's."""
    from torch import profiler

    build_model(case)
    steps = side_hocket.Steps(case, side_hocket.Settings(threads=options.threads, device=device))
    steps.step()
    trajectories = steps.sample()
    with profiler.profile() as seen:
        steps.learn(trajectories)
    found, seconds = seen.key_averages(), steps.watch.take()["seconds"]["learner"]
    print(f"learner {seconds:.2f} s, profiled")
    for clock in ("self_cpu_time_total", *(["self_device_time_total"] if device == "cuda" else [])):
        print(found.table(sort_by=clock, row_limit=30, max_name_column_width=60))


def figures(side: Side, ours: Side) -> dict[str, float]:
    """Rates of one side. The least arithmetic and the matrix rate are those that `ours` counted and measured."""
    first = ours.steps[0]
    rate = statistics.median(max(step["rates"].values()) for step in ours.steps)
    sampling, step = side.median("sampling", "seconds"), side.median("step", "seconds")
    learner = step - sampling
    least = {part: first["work"][part] + first["work"][f"attention_{part}"] for part in ("sampling", "learner")}
    return {
        "sampling_seconds": sampling,
        "step_seconds": step,
        "sampling_tokens_per_second": first["tokens"] / sampling,
        "learner_tokens_per_second": first["tokens"] / learner,
        "rate_fraction_sampling": least["sampling"] / rate / sampling,
        "rate_fraction_learner": least["learner"] / rate / learner,
        "warm_up": side.warm_up("step"),
        "memory_gib": side.end["memory"] / MIB,
    }


def show(found: Mapping[str, Any]) -> None:
    """For people."""
    rates = ", ".join(f"{kind} {rate:.1f}" for kind, rate in found["tflops"].items())
    print(
        f"{found['name']}: {found['parameters'] / 1e6:.1f} M parameters, ours in {found['precision']}; TFLOP/s {rates}"
    )
    for name, side in found["sides"].items():
        print(
            f"  {name:18s} step {side['step_seconds']:.2f} s; sampling "
            f"{side['sampling_tokens_per_second']:.0f} tokens/s "
            f"({100 * side['rate_fraction_sampling']:.1f} % of the rate), learner "
            f"{side['learner_tokens_per_second']:.0f} tokens/s ({100 * side['rate_fraction_learner']:.1f} %), peak "
            f"{side['memory_gib']:.1f} GiB, first step slower by {side['warm_up']:.1f} s"
        )
    for name, seen in found["ratios"].items():
        times = ", ".join(
            f"{part} {seen[part]['median']:.1f} ({seen[part]['least']:.1f} to {seen[part]['most']:.1f})"
            for part in ("sampling", "step")
        )
        print(f"  {name} over ours: {times}; memory of ours {seen['memory']:.2f} of it")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small model, on the processor if need be")
    parser.add_argument("--profile", action="store_true", help="what ours spends its learner's time on")
    parser.add_argument("--no-trl", dest="trl", action="store_false", help="ours alone")
    parser.add_argument("--prompts", type=int, help="prompts in a step; 8")
    parser.add_argument("--micro", type=int, default=8, help="samples in a micro-batch of TRL; 0 for all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=4, help="of torch on the processor")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that workers, frozen or not, are ended.
    import torch

    cuda = torch.cuda.is_available()
    if not cuda and not options.tiny:
        parser.error("there is no CUDA device here; --tiny tries everything on the processor, vs_trl.py measures there")
    case = TINY if options.tiny else LARGE
    case = replace(case, prompts=options.prompts or case.prompts)
    if options.profile:
        profile(case, options, "cuda" if cuda else "cpu")
        return
    if options.trl and not side_trl.PYTHON.exists():
        parser.error(
            "TRL is not installed: set HOCKET_TRL_PYTHON to the python of an environment that has it and torch for the "
            "device, or use --no-trl"
        )
    about = machine(device=torch.cuda.get_device_name() if cuda else "processor", torch=torch.__version__)
    found = compare(case, options, "cuda" if cuda else "cpu")
    if options.json:
        json.dump({"machine": about, **found}, sys.stdout, indent=1)
        print()
        return
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    show(found)


if __name__ == "__main__":
    main()
