"""A policy's weights as handles to this process's memory of a CUDA device, as vLLM's backend `ipc` reads them."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor

from hocket.core.errors import ConfigurationError
from hocket.engine.handover import Dtype, engine_state

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM


@contextmanager
def device_handles(policy: CausalLM, dtype: Dtype) -> Iterator[dict[str, Any]]:
    """Yields the update that vLLM reads; the weights stay in place until the block ends.

    Handles are pickled, because their parts are no plain data. vLLM unpickles them only if
    VLLM_ALLOW_INSECURE_SERIALIZATION is 1 in its environment.

    Raises:
        ConfigurationError: when the policy is not on a CUDA device.
    """
    device = policy.device
    if device.type != "cuda":
        raise ConfigurationError(
            f"engine.transfer = handles: policy {policy.name!r} is on {device.type!r}, and only memory of a CUDA "
            "device has handles; set engine.transfer to files"
        )
    identity = str(torch.cuda.get_device_properties(device).uuid)
    with policy.residence.whole():
        state = {name: value.detach().to(device).contiguous() for name, value in engine_state(policy, dtype).items()}
        torch.cuda.synchronize(device)
        yield described(state, identity)
        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]


def described(state: dict[str, Tensor], device: str) -> dict[str, Any]:
    """Names, types, shapes and handles of tensors on the device of that UUID."""
    handles = [{device: reduce_tensor(value)[1]} for value in state.values()]  # type: ignore[no-untyped-call]
    return {
        "names": list(state),
        "dtype_names": [str(value.dtype).removeprefix("torch.") for value in state.values()],
        "shapes": [list(value.shape) for value in state.values()],
        "ipc_handles_pickled": base64.b64encode(pickle.dumps(handles)).decode(),
    }
