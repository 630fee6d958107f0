"""How fast matrix products of a model's shapes are here, by precision and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.family import Precision
from hocket.policies.shapes import model_size

FEWEST_ROWS, DECODE_ROWS, TRAIN_ROWS = 32, 128, 4096
"""Rows of decoding-shaped products (the default job's 16 prompts x 8 samples) and of training-shaped ones."""

OPERATIONS = 3e9
"""There are fewer rows, though not below the fewest, where these operations would be exceeded."""

REPEATS = 5
SECONDS = 0.1
"""A product that takes long is timed once or twice, a short one `REPEATS` times; the least counts."""


@dataclass(frozen=True)
class LayerShapes:
    """The matrices of the widest decoder layer, `(inputs, outputs)` each."""

    matrices: tuple[tuple[int, int], ...]

    @staticmethod
    def of(config: Any) -> LayerShapes:
        """From a `transformers` configuration; what it does not say is taken as is usual."""
        layer = model_size(config).widest
        hidden, mixed = layer.hidden, layer.heads * layer.value
        attention = layer.heads * layer.key + layer.shared * (layer.key + layer.value)
        return LayerShapes(((hidden, attention), (mixed, hidden), (hidden, 2 * layer.inner), (layer.inner, hidden)))

    @property
    def weights(self) -> int:
        return sum(inputs * outputs for inputs, outputs in self.matrices)

    @property
    def decode_rows(self) -> int:
        return int(max(FEWEST_ROWS, min(DECODE_ROWS, OPERATIONS / (2 * self.weights))))

    @property
    def train_rows(self) -> int:
        return int(max(self.decode_rows, min(TRAIN_ROWS, OPERATIONS / (6 * self.weights))))


@dataclass(frozen=True)
class ProductRate:
    """Seconds of one layer's products.

    Attributes:
        decode: forward with few rows. train: forward and backward with many.
        decode_operations, train_operations: multiplications and additions in each.
    """

    decode: float
    train: float
    decode_operations: float
    train_operations: float

    def against(self, other: ProductRate) -> float:
        """The share of `other`'s time that this takes, decoding and training counted alike."""
        return 0.5 * (self.decode / other.decode + self.train / other.train)

    def to_json(self) -> dict[str, float]:
        """GFLOP/s of both kinds."""
        return {
            "decode": round(self.decode_operations / self.decode * 1e-9, 1),
            "train": round(self.train_operations / self.train * 1e-9, 1),
        }


def measure(shapes: LayerShapes, precision: Precision, threads: int, device: torch.device) -> ProductRate:
    """Times the products of one layer on `threads` threads; afterwards the number of threads is what it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        generator = torch.Generator().manual_seed(0)
        weights = [torch.randn(out, into, generator=generator) for into, out in shapes.matrices]
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        held = [weight.to(device, dtype) for weight in weights]
        less, rows = shapes.decode_rows, shapes.train_rows
        few = [torch.randn(less, into, generator=generator).to(device, dtype) for into, _ in shapes.matrices]
        many = [part.repeat(-(-rows // less), 1)[:rows] for part in few]
        backward = [torch.ones(rows, out, dtype=dtype, device=device) for _, out in shapes.matrices]
        with torch.no_grad():
            decode = _least(lambda: [F.linear(x, weight) for x, weight in zip(few, held, strict=True)], device)
            train = _least(lambda: [_both(*parts) for parts in zip(many, held, backward, strict=True)], device)
    finally:
        torch.set_num_threads(before)
    return ProductRate(decode, train, 2.0 * shapes.weights * less, 6.0 * shapes.weights * rows)


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 products have instructions of their own here; without them they are many times slower than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return False
    return not words.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


def _both(x: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return F.linear(x, weight), gradient @ weight, gradient.t() @ x


def _least(work: Callable[[], object], device: torch.device) -> float:
    """Seconds, the least of several times."""
    taken: list[float] = []
    _timed(work, device)  # The first call sets up threads and kernels.
    while len(taken) < REPEATS and (not taken or sum(taken) < SECONDS):
        taken.append(_timed(work, device))
    return min(taken)


def _timed(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
