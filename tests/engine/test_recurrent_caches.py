"""Sampling with an architecture's own cache, of layers that keep a state in place of keys and values."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.initialization import no_init_weights

from hocket.core.keys import Key
from hocket.engine.cached_session import CachedSession

torch.set_num_threads(1)

_SHAPE = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 49, "max_position_embeddings": 128}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 4}
_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 8,
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
}
TABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "falcon_h1": ("FalconH1Config", _MAMBA | {"mamba_d_ssm": 64, "head_dim": 8}),
    "granitemoehybrid": (
        "GraniteMoeHybridConfig",
        _MAMBA | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 16, "num_local_experts": 0},
    ),
    "lfm2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "qwen3_5": ("Qwen3_5TextConfig", _DELTA),
    "qwen3_next": ("Qwen3NextConfig", _DELTA | {"num_experts": 0, "mlp_only_layers": [0, 1]}),
}

QUICK = ("granitemoehybrid", "qwen3_5")


def model(kind: str) -> Any:
    name, more = TABLE[kind]
    made_config = getattr(transformers, name)(**(_SHAPE | _HEADS | more))
    with torch.random.fork_rng(), no_init_weights():  # Some layers draw as they are made.
        made = transformers.AutoModelForCausalLM.from_config(made_config, attn_implementation="eager")
    draw = Key.of(0).derive(kind).torch()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return made.eval()


@pytest.mark.parametrize("kind", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in TABLE])
def test_rows_leave_with_their_states(kind):
    """Two contexts, one of them twice; the first row leaves after a step."""
    made, draw = model(kind), Key.of(1).numpy()
    one, other = (tuple(draw.integers(3, 43, 9).tolist()) for _ in range(2))
    contexts, tokens = [one, other, other], draw.integers(3, 43, (2, 3))
    with torch.inference_mode():
        session = CachedSession(made, contexts)
        session.step(torch.from_numpy(tokens[0]))
        session.keep(torch.tensor([False, True, True]))
        session.step(torch.from_numpy(tokens[1][1:]))
        whole = np.array([[*other, *tokens[:, row].tolist()] for row in (1, 2)])
        due = made(input_ids=torch.from_numpy(whole), use_cache=False).logits[:, -1]
    assert session.rows.tolist() == [1, 2]
    torch.testing.assert_close(session.logits.log_softmax(-1), due.log_softmax(-1), atol=1e-4, rtol=0)
