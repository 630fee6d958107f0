"""`hocket eval`: greedy and sampled success of a run or of a model, with intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.train import config as configuration
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.checkpoint import checkpoint_of, weights_in
from hocket.train.evaluate import evaluate, evaluate_samples
from hocket.train.held_out import measure_held_out
from hocket.train.kinds import kind_of, measure_of
from hocket.train.machine import Machine


def evaluate_run(
    source: Path, pairs: Sequence[tuple[str, Any]], *, n: int, samples: int, task: str | None, which: str
) -> dict[str, Any]:
    """Success on `n` unseen scenarios, greedy, and pass@k of `samples` sampled answers when above 0.

    `source` is a run folder (its `last` or `best` checkpoint, its task unless `task` says otherwise) or a model's.
    """
    is_run = (source / "config.yaml").is_file()
    settings = configuration.read_pairs(source / "config.yaml") if is_run else [("model", str(source))]
    name = task or configuration.task_of(settings)
    settings = [pair for pair in settings if pair[0] != "task"] + [("task", name), *pairs]
    found_task = tasks.find(name)
    kind = kind_of(found_task)
    config = configuration.configure(settings, found_task)
    checkpoint = checkpoint_of(source, which) if is_run else None
    recorded = source / "machine.json"
    if is_run and recorded.is_file():
        machine = Machine.recorded(recorded)  # What a run learnt in is part of what it learnt.
    else:
        machine = Machine.chosen(config, kind.models(config))
    machine.apply()
    parts = build_parts(config, found_task, weights=weights_in(checkpoint), precision=machine.precision)
    rewards = parts.rewards_by_phase[-1]
    key = parts.key.derive("evaluation")
    common: dict[str, Any] = {"n": n, "decoding": config.decoding, "key": key}
    measure = measure_of(parts.lead.recipe, kind)
    if measure.answers:
        greedy = run_async(evaluate(found_task, parts.player, rewards, **common))
    else:
        greedy = run_async(measure_held_out(parts, n=n, key=key))
    title = f"greedy {measure.name}" if measure.answers else measure.name.replace("_", " ")
    rows: list[tuple[str, float, float, float]] = [(title, greedy.success, greedy.low, greedy.high)]
    if samples:
        if not measure.answers:
            raise ConfigurationError(f"--samples is for policies that answer, and {source} is a scorer; drop it")
        if not measure.share:
            raise ConfigurationError(
                f"--samples is for tasks with right and wrong answers; drop it for {kind.name} tasks"
            )
        tries = run_async(evaluate_samples(found_task, parts.player, rewards, samples=samples, **common))
        rows += [(f"pass@{k}", *values) for k, values in tries.items()]
    return {
        "source": str(source if checkpoint is None else checkpoint),
        "task": name,
        "n": greedy.n,
        "rows": rows,
        "traits": {
            "mean length": greedy.length,
            **{f"share with {t}" if measure.answers else t: v for t, v in greedy.traits.items()},
        },
        "decoding": dataclasses.asdict(config.decoding),
    }
