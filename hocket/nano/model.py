"""The architecture of the nano model: a Qwen3 of 1.2 million parameters, initialised from an explicit generator."""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

INITIAL_STD = 0.05


def nano_config(tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    """Qwen3 with 6 layers of width 128: 4 query heads and 2 key-value heads of 32, feed-forward width 384."""
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        use_sliding_window=False,
        attention_dropout=0.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        initializer_range=INITIAL_STD,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        dtype="float32",
    )


def new_model(config: Qwen3Config, generator: torch.Generator) -> Qwen3ForCausalLM:
    """A freshly initialised fp32 model whose weights depend on `generator` alone.

    The module is made on the meta device, where nothing is drawn; the weights are filled in afterwards.
    """
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model.to_empty(device="cpu")
    model.tie_weights()
    # Its buffers are computed, not loaded, so the emptied ones are replaced.
    model.model.rotary_emb = Qwen3RotaryEmbedding(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(1.0)  # the weights of the norms
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()  # every block starts as the identity, which speeds up learning
            else:
                parameter.normal_(0.0, INITIAL_STD, generator=generator)
    return model.eval()
