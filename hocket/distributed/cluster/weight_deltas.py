"""A version of the weights as what changed since another one: `--differences true`.

Weights are read as whole numbers in the order of the numbers that they stand for; a step moves most of them by little,
so that of the differences the high bytes are nearly all zero. Bytes of equal weight stand together and are compressed,
in chunks, each with a digest of what it comes to. Nothing is rounded: who holds the one version has the other to the
last bit.

In bf16 a linear layer of the common family multiplies by its weights times those of the norm before it, rounded to
bf16; nothing else is made of them while sampling. So only these products travel, and a sampler has weights of its own
that give the same ones. A step leaves most of them as they were.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import HocketError
from hocket.distributed.cluster.weights import Layout, PackedWeights, packed
from hocket.policies.family import groups
from hocket.policies.form_reading import layers_in
from hocket.policies.lora import base_of
from hocket.policies.stored_weights import CodedLinear
from hocket.policies.support import supports

if TYPE_CHECKING:
    from hocket.stages import Policy

CHUNK = 2**20
"""Bytes of a version in one chunk, at most."""


class Damaged(HocketError):
    """What came is not what was sent, or belongs to other weights."""


@dataclass(frozen=True)
class DeltaChunk:
    """A stretch of a version.

    Attributes:
        data: what changed, compressed. digest: of the stretch as it is then.
    """

    data: bytes
    digest: bytes


@dataclass(frozen=True)
class Difference:
    """What makes one version of a policy's weights of another one of the same layout."""

    layout: Layout
    chunks: Sequence[DeltaChunk]

    @property
    def size(self) -> int:
        """Bytes of its chunks."""
        return sum(len(chunk.data) + len(chunk.digest) for chunk in self.chunks)


def difference(before: PackedWeights, after: PackedWeights) -> Difference:
    """What makes `after` of `before`; both have the same layout."""
    assert before.layout == after.layout
    chunks = []
    for start, end, width in _stretches(after.layout):
        new = np.ascontiguousarray(after.data[start:end])
        moved = _folded(_ordered(_numbers(new, width)) - _ordered(_numbers(before.data[start:end], width)))
        planes = np.ascontiguousarray(moved.view(np.uint8).reshape(-1, width).T)
        # Runs of zeros and frequent bytes are all there is to find; a longer search costs time and finds less.
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
        chunks.append(DeltaChunk(packer.compress(planes.data) + packer.flush(), _digest(new)))
    return Difference(after.layout, chunks)


def applied(before: PackedWeights, change: Difference) -> PackedWeights:
    """What `change` makes of `before`.

    Raises:
        Damaged: when a chunk does not come to what its digest says.
    """
    stretches = list(_stretches(change.layout))
    if before.layout != change.layout or len(stretches) != len(change.chunks):
        raise Damaged("a difference to weights of another layout")
    data = np.empty_like(before.data)
    for number, ((start, end, width), chunk) in enumerate(zip(stretches, change.chunks, strict=True), 1):
        try:
            planes = np.frombuffer(zlib.decompressobj().decompress(chunk.data, end - start + 1), np.uint8)
            moved = np.ascontiguousarray(planes.reshape(width, -1).T).reshape(-1)
            old = _ordered(_numbers(before.data[start:end], width))
            data[start:end] = _disordered(old + _unfolded(_numbers(moved, width))).view(np.uint8)
        except (zlib.error, ValueError):
            raise Damaged(f"chunk {number} of {len(stretches)} that is damaged") from None
        if _digest(data[start:end]) != chunk.digest:
            raise Damaged(f"chunk {number} of {len(stretches)} that is not what its digest says")
    return PackedWeights(change.layout, data)


def _stretches(layout: Layout) -> Iterator[tuple[int, int, int]]:
    """First byte, last byte and bytes per number of each chunk: neighbours whose numbers are as long."""
    start = 0
    for width, same in groupby(layout, key=lambda entry: entry[2].itemsize):
        end, step = start + width * sum(prod(shape) for _, shape, _ in same), CHUNK - CHUNK % width
        yield from ((first, min(end, first + step), width) for first in range(start, end, step))
        start = end


def _numbers(data: NDArray[np.uint8], width: int) -> NDArray[Any]:
    return np.ascontiguousarray(data).view(f"u{width}")


def _ordered(bits: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in the order of the floats whose bits these are: neighbours differ by 1."""
    ordered: NDArray[Any] = np.where(bits & _top(bits), ~bits, bits | _top(bits))
    return ordered


def _disordered(numbers: NDArray[Any]) -> NDArray[Any]:
    """The inverse of `_ordered`."""
    restored: NDArray[Any] = np.where(numbers & _top(numbers), numbers ^ _top(numbers), ~numbers)
    return restored


def _folded(moved: NDArray[Any]) -> NDArray[Any]:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..., so that small differences of either sign have zeros in front."""
    doubled = moved << moved.dtype.type(1)
    folded: NDArray[Any] = np.where(moved & _top(moved), ~doubled, doubled)
    return folded


def _unfolded(numbers: NDArray[Any]) -> NDArray[Any]:
    """The inverse of `_folded`."""
    unit = numbers.dtype.type(1)
    half = numbers >> unit
    unfolded: NDArray[Any] = np.where(numbers & unit, ~half, half)
    return unfolded


def _top(numbers: NDArray[Any]) -> Any:
    """The highest bit."""
    return numbers.dtype.type(1 << (8 * numbers.itemsize - 1))


def _digest(data: NDArray[np.uint8]) -> bytes:
    return hashlib.blake2b(data.data, digest_size=16).digest()


# ---------------------------------------------------------------- what is sampled with


Products = Mapping[str, str | None]
"""Matrices that are used rounded to bf16 alone, and the norm's weight that each is multiplied by before."""


def products_of(policy: Policy) -> Products:
    """Those of a policy; none in fp32, and of other architectures."""
    from hocket.policies.causal_lm import CausalLM

    if not isinstance(policy, CausalLM) or policy.precision != "bf16":
        return {}
    model = policy.model
    coded = any(isinstance(module, CodedLinear) for module in model.modules())
    if coded or not supports(model, policy.context_length or sys.maxsize):
        return {}
    names: dict[int, str] = {}
    for name, weight in policy.module.state_dict(keep_vars=True).items():
        names.setdefault(id(weight), name)
    scales: dict[str, str | None] = {}
    twice = set[str]()
    for layer, form in layers_in(model):
        for layers, scale in groups(layer, form):
            matrices = [base_of(layer).weight for layer in layers]
            if scale is not None and id(scale) not in names:
                continue  # What the norm multiplies by is made of its weight.
            for name in (names[id(matrix)] for matrix in matrices if matrix.dtype is torch.float32):
                twice |= {name} & scales.keys()
                scales[name] = None if scale is None else names[id(scale)]
    return {name: scale for name, scale in scales.items() if name not in twice}


def used(weights: PackedWeights, products: Products) -> PackedWeights:
    """What sampling uses of weights: `products` in place of their matrices, and all else as it is."""
    tensors = weights.tensors()
    inner = {name: _product(tensors, name, products) for name in tensors if _is_product(tensors, name, products)}
    # Numbers of one length side by side, so that chunks are few.
    return packed({name: tensor for name, tensor in tensors.items() if name not in inner} | inner)


def weights_for(use: PackedWeights, products: Products) -> PackedWeights | None:
    """Weights that `used` makes `use` of, to the last bit; None where there are none that are easily found."""
    tensors = use.tensors()
    for name in [name for name in tensors if _is_product(tensors, name, products)]:
        product, scale = tensors[name], products[name]
        tensors[name] = product.float() if scale is None else product.float() / tensors[scale]
        again = _product(tensors, name, products)
        if not again.view(torch.int16).equal(product.view(torch.int16)):
            return None
    return packed(tensors)


def _is_product(tensors: Mapping[str, Tensor], name: str, products: Products) -> bool:
    return name in products and (products[name] is None or products[name] in tensors)


def _product(tensors: Mapping[str, Tensor], name: str, products: Products) -> Tensor:
    """As `hocket.policies.fused_operations.prepared` makes it."""
    scale = products[name]
    return (tensors[name] if scale is None else tensors[name] * tensors[scale]).to(torch.bfloat16)
