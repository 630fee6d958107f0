"""How the shipped generators of picture tokens are made: maximum likelihood on real digits, stopped early."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch.nn import functional

from hocket.core.keys import Key
from hocket.methods.generative.ar_grpo.codes import Order, books_of
from hocket.methods.generative.ar_grpo.policy import TokenPainter
from hocket.methods.generative.ar_grpo.task import usual_ink
from hocket.tasks.handwriting import digits

UPDATES: Mapping[Order, int] = {"raster": 130, "scales": 105}
"""Of the shipped generators."""

_BATCH, _LR, _WARMUP, _AVERAGING, _UNPROMPTED = 96, 4e-3, 30, 0.97, 0.1


def pairs(draws: np.random.Generator, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pictures `[B, 8, 16]` in [0, 1] of two digits of the generator's part, and their labels `[B, 2]`."""
    data = digits("generate")
    chosen = draws.integers(0, len(data.label), (count, 2))
    pixels, label = data.pixels[chosen], data.label[chosen]
    bold = pixels.sum(-1) > usual_ink("generate")[label]
    pictures = pixels.reshape(count, 2, 8, 8).transpose(0, 2, 1, 3).reshape(count, 8, 16) / 16.0
    return pictures.astype(np.float32), 1 + 2 * label + bold


def pretrain(
    order: Order,
    out: Path,
    updates: int | None = None,
    progress: Callable[[int, float, float], None] = lambda *row: None,
) -> TokenPainter:
    """Makes a generator and writes its weights to the file `out`; one in ten pictures is shown without labels.

    `updates` None are those of the shipped one; `progress` gets update, loss and seconds.
    """
    started, key = time.process_time(), Key.of(0).derive("picture tokens", order)
    policy, slow = (TokenPainter("policy", order, key.derive("weights")) for _ in range(2))
    draws, module = key.derive("data").numpy(), policy.module
    books = books_of(order, torch.from_numpy(pairs(draws, 600)[0]), key.derive("books"))
    module.books.copy_(books)
    slow.module.books.copy_(books)
    optimiser = torch.optim.AdamW(module.parameters(), lr=_LR, betas=(0.9, 0.95), weight_decay=0.01)
    for update in range(1, (UPDATES[order] if updates is None else updates) + 1):
        pictures, label = pairs(draws, _BATCH)
        label[draws.random(_BATCH) < _UNPROMPTED] = 0
        tokens = module.layout.encode(torch.from_numpy(pictures), module.books)
        logits = module(tokens, torch.from_numpy(label))
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimiser.param_groups[0]["lr"] = _LR * min(1.0, update / _WARMUP)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        with torch.no_grad():
            for average, weight in zip(slow.module.parameters(), module.parameters(), strict=True):
                average.lerp_(weight, 1 - min(_AVERAGING, 1 - 1 / update))
        if update % 50 == 0:
            progress(update, loss.item(), time.process_time() - started)
    save_file({name: weight.contiguous() for name, weight in slow.module.state_dict().items()}, out)
    out.chmod(0o644)
    return slow
