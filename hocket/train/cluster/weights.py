"""Weights on their way to other processes: taken, packed as bytes, put in place, and told apart by digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Packed:
    """A policy's weights, one after the other, as they were when they were packed.

    Attributes:
        layout: name, shape and type of each. data: their bytes.
    """

    layout: Layout
    data: NDArray[np.uint8]

    def tensors(self) -> dict[str, Tensor]:
        """The weights by name."""
        found, start, whole = {}, 0, torch.from_numpy(self.data)
        for name, shape, kind in self.layout:
            end = start + prod(shape) * kind.itemsize
            found[name] = whole[start:end].clone().view(kind).reshape(shape)
            start = end
        return found


def taken(policy: Policy, *, whole: bool) -> dict[str, Tensor]:
    """A policy's weights by name, tied ones once: those that change in training, or all. Nothing is copied."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, weight in policy.module.state_dict(keep_vars=True).items():
        if whole or weight.requires_grad or not isinstance(weight, nn.Parameter):
            found.setdefault(id(weight), (name, weight.detach()))
    return dict(found.values())


def packed_of(policy: Policy, *, whole: bool) -> Packed:
    """A copy of what is `taken` of a policy, from wherever it is."""
    with getattr(policy, "residence", HERE).whole():
        return packed(taken(policy, whole=whole))


def packed(weights: Mapping[str, Tensor]) -> Packed:
    """A copy of weights, as bytes."""
    layout = [(name, tuple(weight.shape), weight.dtype) for name, weight in weights.items()]
    parts = [weight.cpu().contiguous().reshape(-1).view(torch.uint8) for weight in weights.values()]
    return Packed(layout, (torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8)).numpy())


def put(module: nn.Module, weights: Packed) -> Packed:
    """Copies weights over those of a module, by name; what the module holds under these names then."""
    held = module.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in weights.tensors().items():
            held[name].copy_(value)
    return packed({name: held[name].detach() for name, _, _ in weights.layout})


def digest(weights: Mapping[str, Packed]) -> str:
    """Of weights by policy."""
    found = hashlib.blake2b(digest_size=16)
    for name, one in sorted(weights.items()):
        found.update(repr((name, one.layout)).encode())
        found.update(one.data.data)
    return found.hexdigest()
