"""Weights on their way to other processes: taken, packed as bytes, put in place, and told apart by digest."""

from __future__ import annotations

import hashlib
import mmap
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.policies.residence import HERE

if TYPE_CHECKING:
    from hocket.stages import Policy

Layout = Sequence[tuple[str, tuple[int, ...], torch.dtype]]
"""Name, shape and type of weights, one after the other."""


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """A policy's weights, one after the other, as they were when they were packed.

    Attributes:
        layout: name, shape and type of each. data: their bytes.
    """

    layout: Layout
    data: NDArray[np.uint8]

    def __reduce__(self) -> tuple[type[PackedWeights], tuple[Layout, NDArray[np.uint8]]]:
        return PackedWeights, (self.layout, self.data)  # A descriptor means nothing elsewhere.

    @cached_property
    def memory(self) -> int | None:
        """A descriptor of memory without a name that holds the bytes, written once for all processes that are handed
        it; None where the system gives none, or nothing would be in it."""
        if not self.data.nbytes or not hasattr(os, "memfd_create"):
            return None
        try:
            handle = os.memfd_create("hocket-weights")
        except OSError:
            return None
        release = weakref.finalize(self, os.close, handle)
        try:
            with open(handle, "wb", closefd=False) as file:
                file.write(self.data.data)
        except OSError:  # Memory is short.
            release()
            return None
        return handle

    @classmethod
    def at(cls, handle: int, layout: Layout) -> PackedWeights:
        """Those in another process's memory, of which the descriptor is closed."""
        size = sum(prod(shape) * kind.itemsize for _, shape, kind in layout)
        try:
            memory = mmap.mmap(handle, size, access=mmap.ACCESS_COPY)
        finally:
            os.close(handle)
        return cls(layout, np.frombuffer(memory, np.uint8))

    def writable(self) -> PackedWeights:
        """The same, in memory that torch may write to, as it wants to be able to."""
        return self if self.data.flags.writeable else PackedWeights(self.layout, self.data.copy())

    def tensors(self) -> dict[str, Tensor]:
        """The weights by name, not to be changed: most are the bytes themselves."""
        tensors, start, buffer = {}, 0, torch.from_numpy(self.data)
        for name, shape, kind in self.layout:
            part = buffer[start : start + prod(shape) * kind.itemsize]
            tensors[name] = (part.clone() if start % kind.itemsize else part).view(kind).reshape(shape)
            start += len(part)
        return tensors


def taken(policy: Policy, *, whole: bool) -> dict[str, Tensor]:
    """A policy's weights by name, tied ones once: those that change in training, or all. Nothing is copied."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, weight in policy.module.state_dict(keep_vars=True).items():
        if whole or weight.requires_grad or not isinstance(weight, nn.Parameter):
            tensors.setdefault(id(weight), (name, weight.detach()))
    return dict(tensors.values())


def packed_of(policy: Policy, *, whole: bool) -> PackedWeights:
    """A copy of what is `taken` of a policy, from wherever it is."""
    with getattr(policy, "residence", HERE).whole():
        return packed(taken(policy, whole=whole))


def packed(weights: Mapping[str, Tensor]) -> PackedWeights:
    """A copy of weights, as bytes."""
    layout = [(name, tuple(weight.shape), weight.dtype) for name, weight in weights.items()]
    parts = [weight.cpu().contiguous().reshape(-1).view(torch.uint8) for weight in weights.values()]
    return PackedWeights(layout, (torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8)).numpy())


def put(module: nn.Module, weights: PackedWeights) -> PackedWeights:
    """Copies weights over those of a module, by name; what the module holds under these names then."""
    held = module.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in weights.tensors().items():
            held[name].copy_(value)
    return packed({name: held[name].detach() for name, _, _ in weights.layout})


def digest(weights: Mapping[str, PackedWeights]) -> str:
    """Of weights by policy."""
    state = hashlib.sha256()  # Many processors have instructions for it.
    for name, packed_weights in sorted(weights.items()):
        state.update(repr((name, packed_weights.layout)).encode())
        state.update(packed_weights.data.data)
    return state.hexdigest()
