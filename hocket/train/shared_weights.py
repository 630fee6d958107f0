"""The weights that sample, in memory that two processes see."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hocket.core.errors import HocketError
from hocket.stages import State

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

_ALIGNMENT = 64
"""In bytes. Every tensor begins at a multiple of it."""

Layout = list[tuple[str, tuple[int, ...], str]]
"""Name, shape and element type of each tensor, in order: what two processes must agree on."""


class SharedWeights:
    """A copy of all trainable weights of some policies, one after the other in anonymous shared memory.

    One process calls `put`, the other `take`, never at the same time. The memory has no name, so that nothing is left
    behind however the processes end.

    Args:
        policies: by name; those of the other process must have the same trainable weights in the same order.
        handle: the file descriptor of the other process's memory; new memory is made when None.

    Raises:
        HocketError: when there is not enough memory.
    """

    def __init__(self, policies: Mapping[str, CausalLM], handle: int | None = None) -> None:
        self._weights = {
            f"{name}/{place}": weight
            for name, policy in policies.items()
            for place, weight in policy.module.named_parameters()
            if weight.requires_grad and not place.startswith("value_head.")  # Nothing is sampled from values.
        }
        size = sum(_room(weight) for weight in self._weights.values())
        if handle is None:
            handle = _anonymous(max(size, 1))
            weakref.finalize(self, os.close, handle)
        self.handle = handle
        memory = torch.frombuffer(mmap.mmap(self.handle, max(size, 1)), dtype=torch.uint8)
        self._copies: dict[str, Tensor] = {}
        start = 0
        for name, weight in self._weights.items():
            end = start + weight.numel() * weight.element_size()
            self._copies[name] = memory[start:end].view(weight.dtype).view(weight.shape)
            start += _room(weight)

    @property
    def layout(self) -> Layout:
        """What the memory holds."""
        return [(name, tuple(weight.shape), str(weight.dtype)) for name, weight in self._weights.items()]

    def put(self) -> None:
        """Copies the policies' weights into the memory."""
        for name, weight in self._weights.items():
            self._copies[name].copy_(weight.detach())

    def take(self) -> None:
        """Copies what is in the memory into the policies."""
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(self._copies[name])

    def state(self) -> State:
        """What is in the memory, for a checkpoint: the tensors themselves, which change with the next `put`."""
        return dict(self._copies)

    def restore(self, state: State) -> None:
        """Writes what `state` returned earlier into the memory."""
        for name, copy in self._copies.items():
            copy.copy_(state[name])


def _room(weight: Tensor) -> int:
    size = weight.numel() * weight.element_size()
    return size + -size % _ALIGNMENT


def _anonymous(size: int) -> int:
    """A descriptor of `size` bytes of memory without a name, all of them really there."""
    try:
        if hasattr(os, "memfd_create"):  # Not bounded by the size of /dev/shm, which is small in containers.
            handle = os.memfd_create("hocket-weights")
        else:
            with tempfile.TemporaryFile() as file:
                handle = os.dup(file.fileno())
        if hasattr(os, "posix_fallocate"):  # Else a lack of memory would only show as a crash while writing.
            os.posix_fallocate(handle, 0, size)
        else:
            os.ftruncate(handle, size)
    except OSError as error:
        raise HocketError(
            f"overlap = 1 needs {size / 2**20:.0f} MiB of shared memory for a copy of the weights, which the system "
            f"refuses ({error.strerror}); free some memory or train without overlap"
        ) from error
    return handle
