"""Steps from recorded answers beside TRL: preferences (DPO), demonstrations (SFT) and reward models, time and memory.

python benchmarks/recorded_vs_trl.py [CASE ..] [--rounds 7] [--json]     # nano-dpo nano-sft nano-reward smollm2-dpo ..

`vs_trl.py --setup` makes TRL's environment. Both sides load the same weights and read the same texts through the same
chat template, in fp32 on one thread each, as processes that take turns step by step, frozen in between. Texts are
equally long, so that nothing is padded, but in `nano-uneven`: there from a fifth of the usual length to nearly twice of
it. A step of ours is everything from asking to changed weights; one of TRL's what its trainer does between
`on_step_begin` and `on_step_end`, in which the batch lies ready. Times are processor seconds, ratios are taken within
rounds.

`ours` sees every pair for the first time, `ours again` sees pairs whose reference log-probs it has met before, as from
the second epoch on: it stands beside TRL with `precompute_ref_log_probs`. TRL has no gradient checkpointing there.
`--defaults` puts both sides beside each other as they come instead: ours in the precision that `hocket train` chooses
on this machine, TRL with checkpointing and bf16 autocast (`trl bf16`: without checkpointing).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import side_trl
from bench import BUILD, machine
from recorded_sides import Data, Settings
from sides import Side, WorkerFailed, ratio, take_turns


def cases() -> dict[str, Data]:
    """What is measured, by name."""
    from hocket.train.models import model_path

    nano = Data("dpo", model_path("nano"), 16, 128, 64, spelled=True)
    shapes = {
        "nano": nano,
        "nano-uneven": replace(nano, uneven=0.8),
        "nano-long": replace(nano, prompts=8, prompt=400),
        "smollm2": Data("dpo", model_path("smollm2"), 2, 128, 64, spelled=False),
    }
    return {
        f"{name}-{kind}": replace(data, kind=kind) for name, data in shapes.items() for kind in ("dpo", "sft", "reward")
    }


def wanted(data: Data, *, defaults: bool) -> dict[str, tuple[Settings, Data]]:
    """The sides of a case; with `defaults` both as they are when nothing is set."""
    ours = Settings(ours=True, compute="auto" if defaults else "fp32")
    theirs = Settings(ours=False, compute="bf16" if defaults else "fp32", checkpointing=defaults)
    found = {"ours": (ours, data), "trl": (theirs, data)}
    if data.kind == "dpo":
        found["ours again"] = (ours, replace(data, batches=1))
        found["trl precomputed"] = (replace(theirs, precompute=True), replace(data, batches=2))
    if defaults:
        found["trl bf16"] = (replace(theirs, checkpointing=False), data)
    return found


def compare(data: Data, *, rounds: int, defaults: bool) -> dict[str, Any]:
    """All figures of a case."""
    sides: dict[str, Side] = {}
    try:
        for name, (settings, given) in wanted(data, defaults=defaults).items():
            sides[name] = settings.start(name, given)
            sides[name].ready()
        every = list(sides.values())
        take_turns(every, rounds=rounds, seconds=1e9, patience=0.0, brief=False)
        for side in every:
            side.finish()
    finally:
        for side in sides.values():
            side.kill()
    return figures(sides)


def figures(sides: Mapping[str, Side]) -> dict[str, Any]:
    """Ratios of the sides of TRL to ours, within rounds; the loss of the first step shows that it is the same one."""
    beside = {name: "ours again" if name == "trl precomputed" else "ours" for name in sides if name.startswith("trl")}
    tokens = {name: side.first["tokens"] for name, side in sides.items()}
    if max(tokens.values()) > 1.1 * tokens["ours"]:
        raise WorkerFailed(f"the sides learn from different numbers of tokens: {tokens}")
    return {
        "step_ratio": {name: ratio(sides[name], sides[ours], "step", "processor") for name, ours in beside.items()},
        "step_ratio_wall": {name: ratio(sides[name], sides[ours], "step", "seconds") for name, ours in beside.items()},
        "memory_ratio": {name: sides[ours].end["memory"] / sides[name].end["memory"] for name, ours in beside.items()},
        "seconds": {name: side.median("step", "processor") for name, side in sides.items()},
        "memory_mib": {name: side.end["memory"] for name, side in sides.items()},
        "tokens": tokens,
        "loss": {name: side.first["loss"] for name, side in sides.items()},
        "rounds": len(sides["ours"].steps),
        "others": {name: side.disturbance for name, side in sides.items()},
    }


def show(name: str, found: Mapping[str, Any]) -> None:
    """A case for people."""
    print(f"\n{name}: {found['rounds']} rounds, tokens of answers {found['tokens']}, first loss {found['loss']}")
    for side, seen in found["step_ratio"].items():
        wall = found["step_ratio_wall"][side]["median"]
        print(
            f"  {side:18s} {found['seconds'][side]:7.3f} s: {seen['median']:.2f} times ours ({seen['least']:.2f} to "
            f"{seen['most']:.2f}), wall {wall:.2f}; memory: ours {found['memory_ratio'][side]:.2f} of it"
        )
    ours = {side: round(taken, 3) for side, taken in found["seconds"].items() if side.startswith("ours")}
    sizes = ", ".join(f"{side} {size:.0f}" for side, size in found["memory_mib"].items())
    print(f"  seconds of ours {ours}; MiB: {sizes}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = cases()
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(known)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--defaults", action="store_true", help="both sides as they come, not in fp32")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that workers, frozen or not, are ended.
    unknown = [name for name in options.cases if name not in known]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; choose from {', '.join(known)}")
    if not side_trl.PYTHON.exists():
        parser.error("TRL is not installed; run python benchmarks/vs_trl.py --setup first")
    (BUILD / "recorded").mkdir(parents=True, exist_ok=True)
    about, found = machine(**side_trl.versions()), {}
    for name in options.cases or known:
        found[name] = compare(known[name], rounds=options.rounds, defaults=options.defaults)
        if not options.json:
            show(name, found[name])
    if options.json:
        json.dump({"machine": about, "cases": found}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
