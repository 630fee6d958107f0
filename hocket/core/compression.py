"""Numbers in fewer bits, on their way over slow lines: what is lost by it is known, and can be sent the next time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hocket.core.errors import HocketError

Bits = Literal[8, 4]


class Unreadable(HocketError):
    """Bytes are not what `Blocks` writes."""


@dataclass(frozen=True)
class Blocks:
    """Whole numbers of `bits` bits and a scale for every block of values; without bits the values as they are.

    In a block with the largest magnitude m a value x is written as round(x L / m), L = 127 or 7, ties to even, so that
    it is read with an error of at most m / 2L. The scale m / L is a float32.

    Attributes:
        bits: of a value, 8 or 4; None keeps all that there are. block: values that share a scale, an even number.

    Raises:
        ValueError: for other bits or an odd block.
    """

    bits: Bits | None = 8
    block: int = 1024

    def __post_init__(self) -> None:
        if self.bits not in (None, 4, 8):
            raise ValueError(f"bits must be 8, 4 or None, not {self.bits}")
        if self.block < 2 or self.block % 2:
            raise ValueError(f"block must be an even number from 2 on, not {self.block}")

    def size(self, values: int, kind: torch.dtype = torch.float32) -> int:
        """Bytes of so many values of a type."""
        if self.bits is None:
            return values * kind.itemsize
        blocks = -(-values // self.block)
        return 4 * blocks + blocks * self.block * self.bits // 8

    def encoded(self, values: Tensor) -> bytes:
        """Values `[n]` as bytes.

        Raises:
            Unreadable: when one is not finite, or the largest of a block is beyond float32.
        """
        if not bool(values.isfinite().all()):
            raise Unreadable("a value is no finite number")
        if self.bits is None:
            return values.contiguous().view(torch.uint8).numpy().tobytes()
        top = 127 if self.bits == 8 else 7
        rows = torch.nn.functional.pad(values, (0, -len(values) % self.block)).reshape(-1, self.block)
        scale = (rows.abs().amax(1) / top).float()
        if not bool(scale.isfinite().all()):
            raise Unreadable("a value is beyond the numbers that a float32 holds")
        # A scale that float32 rounds down would push the largest value beyond the last whole number.
        steps = (rows / scale.where(scale > 0, 1.0)[:, None]).round().clamp(-top, top).to(torch.int8)
        return scale.numpy().tobytes() + self._packed(steps).numpy().tobytes()

    def decoded(self, data: bytes, values: int, kind: torch.dtype = torch.float32) -> Tensor:
        """`values` numbers of a type from bytes, `[values]`.

        Raises:
            Unreadable: when there are more or fewer bytes, or a number is not finite.
        """
        if len(data) != self.size(values, kind):
            raise Unreadable(f"{len(data)} bytes where {values} values are {self.size(values, kind)}")
        if not data:
            return torch.zeros(0, dtype=kind)
        raw = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        if self.bits is None:
            numbers = raw.view(kind)
        else:
            blocks = -(-values // self.block)
            scale, steps = raw[: 4 * blocks].view(torch.float32), self._unpacked(raw[4 * blocks :])
            numbers = (steps.reshape(blocks, self.block).to(kind) * scale.to(kind)[:, None]).reshape(-1)[:values]
        if not bool(numbers.isfinite().all()):
            raise Unreadable("a value is no finite number")
        return numbers

    def _packed(self, steps: Tensor) -> Tensor:
        if self.bits == 8:
            return steps.view(torch.uint8).reshape(-1)
        pairs = (steps + 8).to(torch.uint8).reshape(-1, 2)
        return pairs[:, 0] | (pairs[:, 1] << 4)

    def _unpacked(self, data: Tensor) -> Tensor:
        if self.bits == 8:
            return data.view(torch.int8)
        return torch.stack([data & 15, data >> 4], dim=1).reshape(-1).to(torch.int8) - 8
