"""Pretraining of the nano model with eyes: its tower learns to read handwriting, and then the whole answers about it.

Answers are taught in two styles, as the base's are: at once, and mostly wrong, or worked out, which is rarer and right.
So a picture's question is answered badly until the model finds out to read the digits first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.nano.lesson_steps import answer_loss, answers, update
from hocket.nano.vision import PATCH, SIDE, build_processor, new_model
from hocket.nano.worlds import WorldPretraining, measure_worlds, teach_worlds
from hocket.tasks.arithmetic import verify
from hocket.tasks.digits import QUESTIONS, Canvas, canvas, worked

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class SightPretraining:
    """Settings. Digits are those that no evaluation of the task draws."""

    seed: int = 0
    tower_steps: int = 250
    steps: int = 600
    rows: int = 32
    tower_lr: float = 2e-3
    lr: float = 1e-3
    worked: float = 0.25
    """Share of answers that read the digits first."""
    right: float = 1 / 3
    """Share of the others that are right."""
    measured: int = 900
    """Canvases on which the result is measured."""
    worlds: WorldPretraining = field(default_factory=WorldPretraining)
    """The second part, on drawn worlds."""


def pretrain_sight(config: SightPretraining, out: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Makes the model at the folder `out`, on one thread; what was measured of it.

    `progress` is called with `{"stage", "step", "loss"}` now and then.
    """
    tell = progress or (lambda _: None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    started = time.process_time()
    try:
        processor = build_processor()
        language = Qwen3ForCausalLM.from_pretrained(str(BASE), dtype=torch.float32)
        model = new_model(language, processor, config.seed)
        _read_quarters(model, config, tell)
        _answer(model, processor, config, tell)
        teach_worlds(model, processor, config.worlds, partial(lesson, config=config), tell)
        seconds = time.process_time() - started
        summary = {
            "seconds": seconds,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "settings": asdict(config),
            "greedy": _measure(model.eval(), processor, config),
            "worlds": measure_worlds(model, processor, config.worlds),
        }
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(out)
    processor.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    (out / "pretraining.json").write_text(json.dumps(summary, indent=2) + "\n")
    return summary


def _pixels(canvases: Sequence[Canvas]) -> Tensor:
    """What the processor makes of canvases, `[B, 3, SIDE, SIDE]`."""
    pixels = torch.from_numpy(np.stack([shown.pixels for shown in canvases])).float()
    return (pixels / 127.5 - 1)[:, None].expand(-1, 3, -1, -1).contiguous()


def _draw(config: SightPretraining, stage: str, step: int) -> tuple[list[Canvas], np.random.Generator]:
    rng = Key.of(config.seed).derive("sight", stage, step).numpy()
    return [canvas(rng, "train") for _ in range(config.rows)], rng


def _read_quarters(model: Any, config: SightPretraining, tell: Progress) -> None:
    """Teaches the tower which digit stands in each quarter, if any."""
    tower, width = model.model.vision_tower, model.config.vision_config.hidden_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        reader = nn.Linear(width, 11)
    optimiser = torch.optim.AdamW([*tower.parameters(), *reader.parameters()], lr=config.tower_lr, weight_decay=0.01)
    side = SIDE // PATCH
    for step in range(config.tower_steps):
        canvases, _ = _draw(config, "tower", step)
        states = tower(pixel_values=_pixels(canvases), output_hidden_states=True).hidden_states[-1]
        grid = states.view(len(canvases), 2, side // 2, 2, side // 2, width).mean((2, 4)).flatten(1, 2)
        due = torch.tensor([[digit % 11 for digit in shown.quarters] for shown in canvases])
        loss = functional.cross_entropy(reader(grid).flatten(0, 1), due.flatten())
        update(optimiser, loss, config.tower_lr, step, config.tower_steps)
        if step % 100 == 99:
            tell({"stage": "tower", "step": step + 1, "loss": loss.item()})


def lesson(kind: str, digits: Sequence[int], rng: np.random.Generator, config: SightPretraining) -> str:
    """An answer in one of the two styles."""
    if rng.random() < config.worked:
        return worked(kind, digits)
    right = QUESTIONS[kind][1](digits)
    if rng.random() < config.right:
        return f"<answer>{right}</answer>"
    others = canvas(rng, "train").digits
    return f"<answer>{QUESTIONS[kind][1](others)}</answer>"


def _answer(model: Any, processor: Any, config: SightPretraining, tell: Progress) -> None:
    """Teaches questions with answers, of which the loss is taken alone."""
    kinds = list(QUESTIONS)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.01)
    model.train()
    for step in range(config.steps):
        canvases, rng = _draw(config, "answers", step)
        chosen = [kinds[int(number)] for number in rng.integers(len(kinds), size=len(canvases))]
        texts = [lesson(kind, shown.digits, rng, config) for kind, shown in zip(chosen, canvases, strict=True)]
        questions = [QUESTIONS[kind][0] for kind in chosen]
        loss = answer_loss(model, processor.tokenizer, _pixels(canvases), questions, texts)
        update(optimiser, loss, config.lr, step, config.steps)
        if step % 100 == 99:
            tell({"stage": "answers", "step": step + 1, "loss": loss.item()})


def _measure(model: Any, processor: Any, config: SightPretraining) -> dict[str, float]:
    """Shares of right greedy answers on unseen handwriting: left to itself, at once, and worked out."""
    rng = Key.of(config.seed).derive("sight", "measure").numpy()
    canvases = [canvas(rng, "eval") for _ in range(config.measured)]
    kinds = [list(QUESTIONS)[number % len(QUESTIONS)] for number in range(config.measured)]
    due = [str(QUESTIONS[kind][1](shown.digits)) for kind, shown in zip(kinds, canvases, strict=True)]
    questions, pixels = [QUESTIONS[kind][0] for kind in kinds], _pixels(canvases)
    shares: dict[str, float] = {}
    for style, forced in (("answers", ""), ("at once", "<answer>"), ("worked", "<think>")):
        texts = answers(model, processor.tokenizer, pixels, questions, 32, forced)
        shares[style] = sum(verify(text, right) == 1.0 for text, right in zip(texts, due, strict=True)) / len(texts)
    return shares
