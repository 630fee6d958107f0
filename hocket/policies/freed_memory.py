"""Memory that was freed, given back to the system."""

from __future__ import annotations

import contextlib
import ctypes

import torch

from hocket.policies.activation_cache import WORTH
from hocket.policies.stored_weights import weight_count


def return_freed() -> None:
    """Returns freed memory to the system, where the C library can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def return_freed_of(model: torch.nn.Module, device: torch.device) -> None:
    """The same around a pass that gradients are taken of, where `model` is large enough for it to show.

    Sampling and learning free and take blocks of other sizes, and the C library keeps those that nothing fits into:
    without this, up to a third of what a run holds. A small model's step would spend some per cent on it.
    """
    if device.type == "cpu" and torch.is_grad_enabled() and weight_count(model) >= WORTH:
        return_freed()
