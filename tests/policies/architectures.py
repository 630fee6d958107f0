"""Tiny random models of every causal architecture of `transformers`, made by shrinking its default configuration."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig
from transformers.initialization import no_init_weights
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hocket.core.keys import Key

NAMES = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
"""Every `model_type` with a causal language model."""

VOCABULARY, WINDOW, CONTEXT = 49, 7, 128

_GROUPS: dict[int | float | bool | str | None, str] = {
    VOCABULARY: "vocab_size vocab_size_per_layer_input decoder_vocab_size unpadded_vocab_size",
    64: "hidden_size d_model n_embd embedding_size word_embed_proj_dim embedding_dim emb_dim"
    " input_embedding_size output_embedding_size lru_width backbone_hidden_size attention_hidden_size"
    " shared_expert_intermediate_size d_inner linear_expand",
    48: "intermediate_size decoder_ffn_dim encoder_ffn_dim ffn_dim ffn_hidden_size n_inner dff dim_ff"
    " feed_forward_size moe_intermediate_size expert_ffn_hidden_size prefix_dense_intermediate_size"
    " shared_experts_intermediate_size shared_intermediate_size intermediate_size_mlp dense_intermediate_size"
    " moe_shared_expert_intermediate_size",
    3: "num_hidden_layers encoder_layers num_encoder_layers decoder_layers n_layer num_layers n_layers"
    " num_decoder_layers",
    1: "num_shared_experts moe_num_shared_experts n_shared_experts"
    " first_k_dense_replace num_dense_layers topk_group num_random_blocks moe_layer_start_index",
    4: "num_attention_heads n_head decoder_attention_heads encoder_attention_heads n_heads attention_heads"
    " num_decoder_attention_heads num_encoder_attention_heads num_experts n_routed_experts num_local_experts"
    " moe_num_experts num_heads swa_num_attention_heads zero_expert_num indexer_n_heads"
    " mamba_num_heads n_mamba_heads linear_num_value_heads linear_num_heads mamba_n_heads",
    2: "num_key_value_heads num_kv_heads swa_num_key_value_heads n_group num_experts_per_tok moe_k moe_topk"
    " top_k_experts linear_num_key_heads mamba_n_groups n_groups mamba_ngroups type_vocab_size router_hidden_size"
    " indexer_kv_heads",
    16: "index_n_heads head_dim d_head dim_head v_head_dim qk_nope_head_dim swa_head_dim kv_channels"
    " attention_head_size kv_lora_rank index_head_dim indexer_head_dim mamba_head_dim mamba_d_head linear_key_head_dim"
    " linear_value_head_dim linear_head_dim global_head_dim mamba_d_state ssm_state_size state_size laurel_rank"
    " hidden_size_per_layer_input o_lora_rank gated_norm_rank hc_lowrank adapter_rank time_step_rank"
    " attention_head_dim audio_vocab_size",
    24: "q_lora_rank",
    8: "qk_rope_head_dim rotary_dim mamba_chunk_size chunk_size conv_dim mamba_dt_rank d_rel rel_extent"
    " vision_soft_tokens_per_image audio_soft_tokens_per_image patch_size attention_chunk_size index_topk"
    " floor_scale local_attn_chunk_length lsh_attn_chunk_length index_block_size indexer_budget",
    WINDOW: "sliding_window sliding_window_size window_size local_attention attention_window_size keep_window_size"
    " local_attention_window_len",
    CONTEXT: "max_position_embeddings n_positions n_ctx max_seq_len max_target_positions context_length"
    " mamba_d_ssm max_source_positions",
    0.0: "attention_dropout hidden_dropout_prob attention_probs_dropout_prob dropout activation_dropout resid_pdrop"
    " embd_pdrop hidden_dropout attn_pdrop emb_pdrop layerdrop decoder_layerdrop encoder_layerdrop dropout_p"
    " resid_dropout embed_dropout summary_first_dropout mlp_dropout embedding_dropout router_jitter_noise"
    " input_jitter_noise residual_dropout local_attention_probs_dropout_prob lsh_attention_probs_dropout_prob",
}
_SIZES = {name: size for size, names in _GROUPS.items() for name in names.split()}

_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16}
_GEMMA4 = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": VOCABULARY,
}
_LLAMA4 = {"num_hidden_layers": 3, "no_rope_layers": [1, 1, 0], "layer_types": None, "moe_layers": [1, 2]}
_OWN: dict[str, dict[str, Any]] = {
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "deepseek_v2": {"n_group": 2, "topk_group": 1, "topk_method": "group_limited_greedy", "num_experts_per_tok": 2},
    "falcon_h1": _MAMBA | {"mamba_d_ssm": 128},
    "granitemoehybrid": _MAMBA | {"layer_types": ["mamba", "attention", "mamba"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "longcat_flash": {"num_layers": 2, "num_key_value_heads": 4, "head_dim": 8, "qk_head_dim": 24},
    "mamba2": {"num_heads": 8, "head_dim": 16, "n_groups": 2},
    "dots3_note_text": {
        "layer_types": ["indexed_attention", "sliding_attention", "indexed_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "head_dim": 24,
        "num_key_value_heads": 4,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_q_lora_rank": 24,
        "swa_kv_lora_rank": 16,
        "swa_head_dim": 32,
        "swa_qk_nope_head_dim": 24,
        "swa_v_head_dim": 16,
    },
    "dots3_note.vision_config": {"adapter_in_dim": 64, "adapter_out_dim": 64},
    "dots3_note.audio_config": {"adapter_input_size": 64, "adapter_output_size": 64},
    "doge": {"keep_window_size": CONTEXT},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 8,
        "indexer_compress_ratio": 2,
        "ngram_vocab_size_base": 50,
        "split_ngram_parts": 1,
    },
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]},
            "full_attention": None,
        },
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
        "intermediate_size": [48] * 4,
    },
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4 | {"hidden_size_per_layer_input": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "num_layers": 4},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16, "moe_topk": [2, 2, 2], "num_experts": 4},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"], "full_attn_idxs": None},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"]},
    "llama4_text": _LLAMA4,
    "ministral": {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "minicpm3": {"dim_model_base": 16},
    "mpt.attn_config": {"attn_pdrop": 0},
    "nemotron": {"head_dim": 16, "num_key_value_heads": 2},
    "xmod": {"default_language": "en_XX"},
    "reformer": {"is_decoder": True, "axial_pos_embds_dim": [16, 48], "axial_pos_shape": [8, 16]},
    "zamba": {
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "hybrid"],
        "num_hidden_layers": 4,
    },
    "zaya": {"num_experts_per_tok": 1},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    },
}
"""What a single architecture needs beside its shrunk sizes."""


def shrunk(kind: type[PreTrainedConfig], **more: Any) -> PreTrainedConfig:
    """The smallest configuration of a class: its default, whose sizes are cut and whose lists of layers are short."""
    whole, fields = kind(), inspect.signature(kind.__init__).parameters
    whole.allow_global_per_layer_attribute_access = True
    settings: dict[str, Any] = {}
    layers = _layers(whole)
    for name in fields:
        value = getattr(whole, name, None)
        if isinstance(value, PreTrainedConfig):
            settings[name] = shrunk(type(value), **_OWN.get(f"{whole.model_type}.{name}", {}))
        elif name in _SIZES and value is not None and not isinstance(value, (list, tuple, str)):
            settings[name] = _SIZES[name]
    kinds = [name for name in fields if layers > 3 and len(_listed(whole, name)) == layers]
    indices = [name for name in kinds if len(set(map(repr, _listed(whole, name)))) == layers]
    kinds = [name for name in kinds if name not in indices]
    distinct = max([3, *(len(set(map(repr, _listed(whole, name)))) + 1 for name in kinds)])
    for name in kinds:
        settings[name] = _few(_listed(whole, name), distinct)
    for name in ("num_hidden_layers", "n_layer", "num_layers"):
        if name in settings:
            settings[name] = distinct
    if "kv_lora_rank" in settings and "num_key_value_heads" in settings:
        settings["num_key_value_heads"] = settings["num_attention_heads"]
    ends = {"eos_token_id": 1, "pad_token_id": 0, "bos_token_id": 2}
    settings |= {name: token for name, token in ends.items() if name in fields}
    if getattr(whole, "is_decoder", None) is False and not whole.is_encoder_decoder:
        settings["is_decoder"] = True
    return kind(**(settings | _OWN.get(whole.model_type, {}) | more))


def _layers(config: Any) -> int:
    return next(
        (
            int(n)
            for n in (getattr(config, name, None) for name in ("num_hidden_layers", "n_layer", "num_layers"))
            if isinstance(n, int)
        ),
        0,
    )


def _listed(config: Any, name: str) -> list[Any]:
    value = getattr(config, name, None)
    return list(value) if isinstance(value, (list, tuple)) else []


def _few(values: list[Any], count: int) -> list[Any]:
    """`count` of `values`, each that is different among them, in their order."""
    first = [values.index(value) for value in values if values.index(value) == values.index(value)]
    distinct = sorted(set(first))
    chosen = sorted((distinct + [number for number in range(len(values)) if number not in distinct])[:count])
    return [values[number] for number in chosen]


def tiny(name: str) -> Any:
    """A random model of an architecture; no norm's weight or bias is what it is at first."""
    return filled(shrunk(CONFIG_MAPPING[name]), name)


def filled(config: Any, name: str) -> Any:
    """A random model of this configuration; `name` says which numbers."""
    with torch.random.fork_rng(devices=[]), no_init_weights():  # Some layers draw as they are made.
        made = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    draw = Key.of(0).derive(name).torch()
    with torch.no_grad():
        for weight, parameter in made.named_parameters():
            drawn = torch.randn(parameter.shape, generator=draw) * 0.2
            norm = parameter.ndim == 1 and weight.endswith("norm.weight")
            parameter.copy_(drawn + 1 if norm else drawn)
    made.tie_weights()
    return made.eval()
