"""Pretraining of nano-flow: a sampler of 16 x 16 pictures of four handwritten digits, asked for in words.

It learns velocities of straight paths from noise to pictures (flow matching, arXiv:2210.02747) whose digits are those
of the generator's part. Training stops early on purpose: a finished base leaves reinforcement learning nothing to show.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from hocket.core.keys import Key
from hocket.policies.denoising.network import FlowShape, FlowTransformer
from hocket.tasks.handwriting import PLACES, canvas, digits

WORDS = (*"0123456789", "top", "bottom", "left", "right")
"""The words of prompts."""


@dataclass(frozen=True)
class FlowPretraining:
    """Settings of one pretraining.

    Attributes:
        updates, batch, lr: of AdamW, with linear warm-up. averaging: decay of the running mean of weights, which is
            what is saved. unprompted: share of pictures that are shown without a prompt.
    """

    seed: int = 0
    updates: int = 300
    batch: int = 128
    lr: float = 2e-3
    warmup: int = 50
    averaging: float = 0.98
    unprompted: float = 0.1
    width: int = 96
    heads: int = 4
    layers: int = 4


def quarters(side: int, patch: int) -> tuple[tuple[str, str], ...]:
    """The words for the place of each patch of a square picture: top or bottom, left or right."""
    count = side // patch
    return tuple(
        ("top" if row < count / 2 else "bottom", "left" if column < count / 2 else "right")
        for row in range(count)
        for column in range(count)
    )


def prompt_of(labels: list[int]) -> str:
    """How four digits are asked for."""
    return ", ".join(f"{label} {place}" for label, place in zip(labels, PLACES, strict=True))


def pretrain_flow(
    config: FlowPretraining, out: Path, progress: Callable[[dict[str, float]], None] = lambda row: None
) -> dict[str, Any]:
    """Makes the sampler and writes it to the folder `out`: `config.json`, `model.safetensors`, `pretraining.json`.

    Returns a summary: `updates`, `seconds` of processor time, `parameters`, `loss` (mean square error of velocities).
    """
    started, key = time.process_time(), Key.of(config.seed)
    shape = FlowShape(16, 4, config.width, config.heads, config.layers, WORDS, 4, 3, quarters(16, 4))
    network, average = (FlowTransformer(shape, key.derive("weights")) for _ in range(2))
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.01)
    source, rng, noise = digits("generate"), key.derive("data").numpy(), key.derive("noise").torch()
    loss = 0.0
    for update in range(1, config.updates + 1):
        chosen = rng.integers(0, len(source.label), (config.batch, len(PLACES)))
        picture = torch.from_numpy(canvas(source.pixels[chosen]))
        words = np.stack([shape.encode(prompt_of(labels)) for labels in source.label[chosen].tolist()])
        words[rng.random(config.batch) < config.unprompted] = 0
        drawn, level = torch.randn(picture.shape, generator=noise), torch.rand(config.batch, generator=noise)
        state = torch.lerp(picture, drawn, level[:, None])
        error = network(state, level, torch.from_numpy(words)) - (drawn - picture)
        mean = error.square().mean()
        optimiser.param_groups[0]["lr"] = config.lr * min(1.0, update / config.warmup)
        optimiser.zero_grad()
        torch.autograd.backward(mean)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        keep = min(config.averaging, 1 - 1 / update)
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, 1 - keep)
        loss = mean.item()
        if update % 50 == 0:
            progress({"update": update, "loss": loss, "seconds": time.process_time() - started})
    summary = {
        "updates": config.updates,
        "seconds": time.process_time() - started,
        "parameters": sum(weight.numel() for weight in network.parameters()),
        "loss": loss,
        "settings": asdict(config),
    }
    out.mkdir(parents=True, exist_ok=True)
    save_file({name: weight.contiguous() for name, weight in average.state_dict().items()}, out / "model.safetensors")
    (out / "model.safetensors").chmod(0o644)
    (out / "config.json").write_text(json.dumps({"model_type": "hocket-flow", **shape.plain()}, indent=1) + "\n")
    (out / "pretraining.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary
