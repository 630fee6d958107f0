"""The handover of a policy's weights to an engine outside this process, and the check that the engine uses them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluate_detached
from hocket.core.packing import pack
from hocket.engine.requests import Request
from hocket.policies.loading import without_progress_bars
from hocket.policies.lora import ADAPTER, merged_state, not_joined
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

_HEAD = "lm_head.weight"
_SHARED_MEMORY = Path("/dev/shm")

PROBE = 16
"""The number of sampled tokens whose log-probs are compared."""

Dtype = Literal["float32", "bfloat16"]

FP32, BF16 = 1e-3, 0.5
"""The largest gaps allowed, nats. Measured: 1e-6 to 1e-5 if both sides compute in fp32, up to 0.3 if one uses bf16."""


def write_weights(policy: CausalLM, folder: Path, dtype: Dtype | None = None) -> None:
    """Writes a model folder for an engine: merged weights without the value head, and the output head in full.

    Args:
        dtype: the precision that the engine computes in, in which the weights are then written; None keeps theirs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    model = policy.model
    with policy.residence.whole():
        with without_progress_bars(), policy.applied():
            state = merged_state(model, None if dtype is None else getattr(torch, dtype))
            head = model.get_output_embeddings() if model.config.tie_word_embeddings else None
            if head is not None:
                state.pop(_HEAD, None)
            model.save_pretrained(str(folder), state_dict=state)
        if head is not None:
            weight = head.weight.detach().to(head.weight.dtype if dtype is None else getattr(torch, dtype))
            save_file({_HEAD: weight.cpu().clone()}, folder / "lm_head.safetensors")
    policy.tokenizer.save_pretrained(str(folder))
    index = folder / "model.safetensors.index.json"
    if head is not None and index.is_file():
        listed = json.loads(index.read_text())
        listed["weight_map"][_HEAD] = "lm_head.safetensors"
        index.write_text(json.dumps(listed))


def engine_state(policy: CausalLM, dtype: Dtype) -> dict[str, Tensor]:
    """The merged weights in `dtype` by the names that a checkpoint has for them, the output head in full."""
    from transformers.core_model_loading import revert_weight_conversion

    with policy.applied():
        state: dict[str, Tensor] = revert_weight_conversion(
            policy.model, merged_state(policy.model, getattr(torch, dtype))
        )
    return state


def handed_adapter(policy: CausalLM) -> int | None:
    """The rank of a policy's adapter if an engine can take it beside the base; None if weights must be merged.

    Engines take low-rank updates of linear layers. DoRA, and adapters of parameters that are no linear layer's, are
    merged.
    """
    if not policy.lora or not policy.adapted or not_joined(policy.model) is not None:
        return None
    config = policy.model.peft_config[ADAPTER]
    return None if config.use_dora else int(config.r)


def write_base(policy: CausalLM, folder: Path, dtype: Dtype | None = None) -> None:
    """Writes a model folder with the weights below a policy's adapter."""
    write_weights(policy.frozen_copy(), folder, dtype)


def probe_of(request: Request) -> Request:
    """A short sample of a request's context at temperature 1, from a stream of its own."""
    return Request(request.tokens, Decoding(max_tokens=PROBE), request.key.derive("probe"))


def log_prob_gap(policy: CausalLM, context: Sequence[int], tokens: Sequence[int], logp: Sequence[float]) -> float:
    """The largest gap between an engine's log-probs of `tokens` after `context`, at temperature 1, and the policy's.

    Nats; infinite when one of them is not a number.
    """
    turn = Turn(
        agent=policy.name,
        policy=policy.name,
        observation=np.array(context, np.int64),
        action=np.array(tokens, np.int64),
    )
    batch = pack([Trajectory(Scenario("probe"), [turn])])
    current = evaluate_detached(policy, batch, {Quantity.LOGP}, torch.arange(batch.decisions))
    gap = float((current.logp.double().cpu() - torch.tensor(logp, dtype=torch.float64)).abs().max())
    return gap if gap == gap else float("inf")


def check_gap(gap: float, tolerance: float, engine: str, fix: str) -> None:
    """Refuses an engine whose log-probs differ from the policy's after a handover.

    Raises:
        ConfigurationError: when `gap` is above `tolerance`, both in nats.
    """
    if not gap <= tolerance:
        raise ConfigurationError(
            f"after the weights were handed over, log-probs of {engine} differ from the policy's by {gap:.3g} nats "
            f"(tolerance {tolerance:g}): it uses other weights or another precision; {fix}"
        )


def dtype_for(policy: CausalLM) -> Dtype:
    """The precision in which an engine computes closest to the policy."""
    full = policy.model.dtype in (torch.float32, torch.float64)
    return "float32" if full and policy.precision == "fp32" else "bfloat16"


def tolerance_for(policy: CausalLM, dtype: Dtype = "float32") -> float:
    """The largest gap allowed between the log-probs of a policy and of an engine that computes in `dtype`, nats."""
    return FP32 if dtype == dtype_for(policy) == "float32" else BF16


def handover_folder(policy: CausalLM) -> Path:
    """A new folder for a policy's weights: in shared memory if that has room, else among the temporary files."""
    size = sum(parameter.numel() * parameter.element_size() for parameter in policy.module.parameters())
    roomy = os.access(_SHARED_MEMORY, os.W_OK) and shutil.disk_usage(_SHARED_MEMORY).free > 2 * size
    return Path(tempfile.mkdtemp(prefix="hocket-weights-", dir=_SHARED_MEMORY if roomy else None))
