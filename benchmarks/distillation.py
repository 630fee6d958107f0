"""What a step of distillation takes beside a step of GRPO of the same tokens.

    python benchmarks/distillation.py                        the shipped model, about a minute on one core
    python benchmarks/distillation.py --model PATH --json    another model
    python benchmarks/distillation.py gkd minillm            chosen recipes

Every recipe answers the same prompts with the same key, and the learning rate is next to nothing, so all steps have the
same tokens. GRPO gets rewards that differ within every group, so that it learns from all of them. The teacher is a
frozen copy of the student. One thread, processor seconds; recipes take turns, and a ratio is taken within a round, of
which the first does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import zlib
from typing import Any

import torch
from bench import machine

from hocket import tasks
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step

BASE = "grpo"
RECIPES: dict[str, dict[str, Any]] = {
    "on-policy-distillation": {},
    "on-policy-distillation-exact": {},
    "gkd": {"rollout.student": 1},
    "minillm": {},
    "iw-opd": {},
}
BOUND = 1.6


def noise(completions: list[str], **_: Any) -> list[float]:
    """A reward that every text has of its own."""
    return [zlib.crc32(text.encode()) / 2**32 for text in completions]


def parts_of(recipe: str, model: str, prompts: int, samples: int) -> Any:
    task = tasks.find("sums")
    settings = {
        "recipe": recipe,
        "model": model,
        "curriculum.prompts": prompts,
        "rollout.samples": samples,
        "decoding.max_tokens": 48,
        "update.lr": 1e-12,
        **RECIPES.get(recipe, {}),
        **({"reward": f"{__file__}:noise"} if recipe == BASE else {}),
    }
    return build_parts(configure(list(settings.items()), task), task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help=f"from {', '.join(RECIPES)}; all without any")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = [BASE, *(given.recipes or RECIPES)]
    runs = {name: parts_of(name, given.model, given.prompts, given.samples) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    tokens: dict[str, float] = {}
    for step in range(1, given.rounds + 2):
        for name, parts in runs.items():
            started = time.process_time()
            metrics = asyncio.run(train_step(parts, step)).metrics
            seconds[name].append(time.process_time() - started)
            tokens[name] = metrics["tokens/generated"]
        if len(set(tokens.values())) > 1:
            sys.exit(f"the recipes had different tokens: {tokens}")
    rows = {}
    for name in names[1:]:
        ratios = [mine / base for mine, base in zip(seconds[name][1:], seconds[BASE][1:], strict=True)]
        rows[name] = {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    if given.json:
        print(json.dumps({"machine": machine(), "model": given.model, "seconds": seconds, "ratios": rows}))
        return
    print(f"{given.model}: a step of {BASE} takes {statistics.median(seconds[BASE][1:]):.2f} processor seconds")
    for name, row in rows.items():
        verdict = "" if row["ratio"] <= BOUND else f"  above {BOUND}"
        print(f"{name:30} {row['ratio']:.2f}  ({row['low']:.2f} to {row['high']:.2f}){verdict}")


if __name__ == "__main__":
    main()
