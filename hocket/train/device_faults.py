"""What a device can do to a run, as sentences: it has no room, it is lost, or kernels for it do not load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from hocket.core.errors import ConfigurationError
from hocket.policies.form_reading import form_of
from hocket.policies.operations.table import PLAIN, TRITON, column_of
from hocket.train.memory import GIB, available_memory
from hocket.train.oom_retry import out_of_memory

if TYPE_CHECKING:
    from hocket.policies.language_model import LanguageModel

_SIGNS = ("cuda error", "hip error", "nccl error", "acceleratorerror", "mps backend", "cudnn error", "cublas error")
"""How the messages of drivers begin when a device fails."""


def lost(error: BaseException) -> str | None:
    """The first line of what a driver says of a device that no longer computes; None for other errors."""
    text = str(error).strip().splitlines()
    if not isinstance(error, RuntimeError) or not text or out_of_memory(error):
        return None
    of_driver = isinstance(error, getattr(torch, "AcceleratorError", ())) or text[0].lower().startswith(_SIGNS)
    return text[0] if of_driver else None


def no_room(device: torch.device, what: str) -> ConfigurationError:
    """That a device has too little free memory for `what`, with the number."""
    free = available_memory(device)
    left = "too little" if free is None else f"{free / GIB:.1f} GiB"
    return ConfigurationError(
        f"{device} has {left} free, in which {what}; end other programs that use it, choose another --device, or see "
        "`hocket doctor --model` for ways that take less"
    )


def move(module: nn.Module, device: torch.device, name: str) -> None:
    """Moves the weights of a policy.

    Raises:
        ConfigurationError: when the device has no room for them.
    """
    try:
        module.to(device)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        size = sum(weight.nbytes for weight in module.parameters())
        raise no_room(device, f"the weights of {name!r}, {size / GIB:.1f} GiB, do not fit") from error


def slow_kernels(policy: LanguageModel) -> str | None:
    """Why an accelerator computes a model in plain torch; None where it does not."""
    form = form_of(policy.model)
    if policy.device.type != "cuda" or form is None:
        return None
    reasons = (refusal(policy.device, policy.model.dtype, size, heads // shared) for heads, shared, size in form.shapes)
    return next(filter(None, reasons), None)


def refusal(device: torch.device, dtype: torch.dtype, head: int, group: int) -> str | None:
    """Why Triton does not compute on a device what plain torch does."""
    from hocket.policies.operations import OPERATIONS

    if column_of(device, dtype, head, group) is not PLAIN:
        return None
    why = next(filter(None, (TRITON.refusal(each, device, dtype, head, group) for each in OPERATIONS)), None)
    return None if why is None else f"the model is computed in plain torch, which is slower: {why}"
