"""`hocket doctor --model NAME`: what a model takes and what fits, before a run and without its weights."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.cli.output import Pairs, out
from hocket.core.errors import ConfigurationError

UNITS = {
    "": 2**30,
    "g": 2**30,
    "gib": 2**30,
    "gb": 10**9,
    "m": 2**20,
    "mib": 2**20,
    "mb": 10**6,
    "t": 2**40,
    "tib": 2**40,
}

CONTEXT, PROMPT = 2048, 0.25
"""Tokens of a sequence where none are named, and the share of them that is the prompt."""

RANK = 16
"""Of the adapter that is shown where none is named."""


@dataclass(frozen=True)
class TrainingWay:
    """One way to train the model.

    Attributes:
        name: in words. flags: what to type for it. plan: see `hocket.train.footprint`.
        parts: GiB by part. total: GiB. fits: whether it fits. context: the longest that fits, tokens.
    """

    name: str
    flags: str
    parts: dict[str, float]
    total: float
    fits: bool
    context: int


@dataclass(frozen=True)
class ModelReport:
    """What `hocket doctor --model` finds.

    Attributes:
        weights: of the model. reach: of the adapter, in a sentence. memory: GiB there are. context: tokens a sequence.
        limit: of the model's own context. ways: smallest last. advice: what to type, or that nothing fits.
    """

    model: str
    kind: str
    weights: int
    fast: bool
    limit: int | None
    reach: str
    warning: str
    memory: float
    device: str
    context: int
    prompts: int
    samples: int
    ways: tuple[TrainingWay, ...]
    advice: str


def size_of(text: str) -> float:
    """Bytes of `24GiB`, `24GB`, `16384MiB`, or of a number of GiB.

    Raises:
        ConfigurationError: when it is no size.
    """
    size = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower())
    if size is None or size[2] not in UNITS or float(size[1]) <= 0:
        raise ConfigurationError(f"--memory {text}: write a size, as 24GiB, 24GB or 16384MiB")
    return float(size[1]) * UNITS[size[2]]


def examine_model(model: str, pairs: Pairs, *, context: int | None = None, memory: str | None = None) -> ModelReport:
    """Counts the ways to train a model as a run with `pairs` would.

    Raises:
        ConfigurationError: when there is no such model, it is no language model, or a setting is wrong.
    """
    from hocket import tasks
    from hocket.policies.loading import read_config
    from hocket.policies.settings import LoraSettings
    from hocket.train.config import configure, task_of
    from hocket.train.footprint import (
        GIB,
        TrainingPlan,
        adapted_plan,
        footprint,
        least_plan,
        longest_context,
        outlined,
    )
    from hocket.train.machine import device_of
    from hocket.train.models import model_path

    named = task_of(pairs)
    config = configure(
        [("task", named), *(pair for pair in pairs if pair[0] != "task"), ("model", model)], tasks.find(named)
    )
    settings = read_config(model_path(model))
    lora = config.lora or LoraSettings(rank=RANK)
    full, adapted = outlined(settings), outlined(settings, lora)
    # A size that is named is a card's, unless the device is named too.
    device = "cuda" if memory is not None and config.device == "auto" else device_of(config).type
    room = _room(device) if memory is None else size_of(memory)
    limit = full.size.context
    tokens = min(context or CONTEXT, limit or context or CONTEXT)
    if context is not None and context < 2:
        raise ConfigurationError(f"--context {context}: a sequence has at least 2 tokens, one of the answer")
    if context is not None and limit is not None and context > limit:
        raise ConfigurationError(f"--context {context}: the model reads {limit} tokens at most; give that, or less")
    recipe = config.phases[0][0]
    base = TrainingPlan(
        prompts=int(getattr(recipe.curriculum, "prompts", None) or 1),
        samples=int(getattr(recipe.rollout, "samples", None) or 1),
        context=tokens,
        prompt=int(tokens * PROMPT),
        reference=recipe.wants_reference,
        rows=config.engine.max_rows,
        host=config.optimiser.host,
        device=device,
    )
    ways = []
    for name, flags, adapter, changes in _WAYS:
        plan = dataclasses.replace(base, lora=lora if adapter else None, **changes)
        outline = adapted if adapter else full
        chosen = adapted_plan(outline, plan, room)
        held = footprint(outline, chosen or least_plan(plan, tokens))
        parts = {part: value / GIB for part, value in dataclasses.asdict(held).items()}
        fewer = chosen is not None and chosen.rows < min(plan.rows, plan.prompts * plan.samples)
        rows = f"--engine.max_rows {chosen.rows}" if chosen is not None and fewer else ""
        typed = " ".join(filter(None, (f"--lora.rank {lora.rank}" if adapter else "", flags, rows)))
        longest = longest_context(outline, plan, room)
        ways.append(TrainingWay(name, typed, parts, held.total / GIB, chosen is not None, longest))
    reach = adapted.coverage
    assert reach is not None
    return ModelReport(
        model,
        settings.model_type,
        full.inside + full.outside,
        full.fast,
        limit,
        reach.sentence(),
        reach.advice() if reach.small else "",
        room / GIB,
        device,
        tokens,
        base.prompts,
        base.samples,
        tuple(ways),
        _advice(model, ways, tokens, room / GIB),
    )


_WAYS: tuple[tuple[str, str, bool, dict[str, Any]], ...] = (
    ("full, fp32", "--precision fp32", False, {"precision": "fp32"}),
    ("full, bf16 products", "--precision bf16", False, {"precision": "bf16"}),
    ("full, bf16", "--weights bf16", False, {"precision": "bf16", "weights": "bf16"}),
    (
        "full, bf16, 8-bit Adam",
        "--weights bf16 --optimiser.kind adamw8bit",
        False,
        {"precision": "bf16", "weights": "bf16", "optimiser": "adamw8bit"},
    ),
    ("LoRA, fp32", "--precision fp32", True, {"precision": "fp32"}),
    ("LoRA, bf16 products", "--precision bf16", True, {"precision": "bf16"}),
    ("LoRA, bf16 base", "--weights bf16", True, {"precision": "bf16", "weights": "bf16"}),
    ("LoRA, int8 base", "--weights int8", True, {"precision": "bf16", "weights": "int8"}),
    ("LoRA, nf4 base", "--weights nf4", True, {"precision": "bf16", "weights": "nf4"}),
)
"""Ways to train, the ones that change the most weights first: name, flags, whether by an adapter, and the plan."""


def _room(device: str) -> float:
    import torch

    from hocket.train.memory import available_memory

    free = available_memory(torch.device(device))
    if free is None:
        raise ConfigurationError("the system does not say how much memory is free; name it with --memory 24GiB")
    return float(free)


def _advice(model: str, ways: list[TrainingWay], context: int, room: float) -> str:
    """The first way that fits, as a command; all weights go before an adapter."""
    fitting = next((way for way in ways if way.fits), None)
    if fitting is not None:
        return f"hocket train --model {model} {fitting.flags}"
    best = max(ways, key=lambda way: way.context)
    if best.context:
        return (
            f"sequences of {context} tokens fit in none of these ways; the longest that do have {best.context} tokens: "
            f"{best.flags}"
        )
    least = min(ways, key=lambda way: way.total)
    return f"nothing fits into {room:.1f} GiB; the smallest way ({least.flags}) takes {least.total:.1f} GiB"


def show_model(report: ModelReport) -> None:
    """Prints a report as a table."""
    console = out()
    path = "the fast path" if report.fast else "the forward pass of transformers, which is slower"
    limit = "no limit" if report.limit is None else f"{report.limit:,} tokens"
    console.print(
        f"[bold]{escape(report.model)}[/]: {report.kind}, {report.weights / 1e6:,.1f} M weights, context {limit}, "
        f"takes {path}"
    )
    console.print(f"LoRA: {escape(report.reach)}", style="dim")
    if report.warning:
        console.print(f"[yellow]![/] {escape(report.warning)}")
    console.print(
        f"GiB on {report.device}, where {report.memory:.1f} are free: {report.prompts} prompts x {report.samples} "
        f"samples, sequences of {report.context:,} tokens"
    )
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("", "way", "weights", "grads", "state", "sample", "learn", "total", "context"):
        table.add_column(column, justify="left" if column in ("", "way") else "right", no_wrap=True)
    for way in report.ways:
        parts = way.parts
        numbers = (
            parts["weights"] + parts["copies"] + parts["reference"],
            *(parts[name] for name in ("gradients", "optimiser", "sampling", "activations")),
            way.total,
        )
        mark = "[green]ok[/]" if way.fits else "[red]--[/]"
        longest = f"{way.context:,}" if way.context else "none"
        table.add_row(mark, way.name, *(f"{number:.2f}" for number in numbers), longest)
    console.print(table)
    console.print(
        "weights: with copies and reference; state: of the optimiser; sample: keys and values; learn: activations; "
        "total: with the program; context: the longest sequences that fit, one at a time with checkpointing",
        style="dim",
    )
    console.print(escape(report.advice))
