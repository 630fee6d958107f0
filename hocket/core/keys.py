"""Derived keys: the one source of randomness.

No global generator is ever used. Every draw takes a `Key` derived from (seed, purpose, step, scenario, sample, turn,
call), so "all random state" is one integer and a run does not depend on the order in which things complete.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

_MASK = (1 << 64) - 1


@dataclass(frozen=True, order=True)
class Key:
    """128 bits that identify a place in the run. Equal paths give equal keys on every machine."""

    value: int

    @staticmethod
    def of(seed: int) -> Key:
        """The root key of a run."""
        return Key(0).derive("seed", seed)

    def derive(self, *path: str | int) -> Key:
        """The key at `path` below this one; `derive("a", 1)` equals `derive("a").derive(1)`."""
        value = self.value
        for part in path:
            tag = "i" if isinstance(part, int) else "s"
            text = value.to_bytes(16, "little") + f"{tag}{part}".encode()
            value = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
        return Key(value)

    @property
    def word(self) -> int:
        """64 of the bits, for generators that take one unsigned word."""
        return self.value & _MASK

    def numpy(self) -> np.random.Generator:
        """A fresh NumPy generator (Philox) that starts at this key."""
        return np.random.Generator(np.random.Philox(key=self.value))

    def torch(self, device: str | torch.device = "cpu") -> torch.Generator:
        """A fresh torch generator that starts at this key."""
        generator = torch.Generator(device=device)
        generator.manual_seed(self.word >> 1)
        return generator

    def __str__(self) -> str:
        return f"{self.value:032x}"


def uniforms(words: NDArray[np.uint64], counters: NDArray[np.uint64] | int) -> NDArray[np.float64]:
    """Counter-based uniforms in (0, 1): draw number `counters[i]` of the stream `words[i]`.

    A draw depends on its word and counter alone, not on the others in its batch. The mixing is two rounds of
    SplitMix64's finaliser (Steele, Lea and Flood 2014), which passes the usual equidistribution tests.
    """
    with np.errstate(over="ignore"):
        state = words.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * (
            np.asarray(counters, np.uint64) + np.uint64(1)
        )
        for _ in range(2):
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    # 52 bits, not 53: with 53, adding 0.5 to the largest value would round to 1.
    return ((state >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def uniforms_on(words: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """`uniforms` of int64 tensors with the bits of the words, made on their device: the same numbers, bit for bit."""

    def shifted(state: torch.Tensor, by: int) -> torch.Tensor:
        return (state >> by) & ((1 << (64 - by)) - 1)  # int64 shifts copies of the sign in.

    state = words + _signed(0x9E3779B97F4A7C15) * (counters + 1)
    for _ in range(2):
        state = (state ^ shifted(state, 30)) * _signed(0xBF58476D1CE4E5B9)
        state = (state ^ shifted(state, 27)) * _signed(0x94D049BB133111EB)
        state = state ^ shifted(state, 31)
    return (shifted(state, 12).double() + 0.5) * 2.0**-52


def _signed(word: int) -> int:
    """A word of 64 bits as int64 has it."""
    return word - (1 << 64) if word >> 63 else word
