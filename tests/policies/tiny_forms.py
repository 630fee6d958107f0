"""A tiny random model of every architecture with a form: three layers of each kind, windows shorter than sequences."""

from typing import Any

import torch
import transformers
from torch import nn
from transformers.initialization import no_init_weights

from hocket.core.keys import Key

WINDOW = 7
_ENDS = {"vocab_size": 49, "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None}
_SHAPE = {"hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 3, "max_position_embeddings": 128}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
_WIDE = {"hidden_size": 32, "head_dim": 16}
_KINDS = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
_GEMMA4 = {
    "num_hidden_layers": 6,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "global_head_dim": 32,
}
_CAPS = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 20}
_GRANITE = {
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.3,
    "logits_scaling": 4.0,
    "attention_multiplier": 0.2,
}
_FEW = {"num_experts_per_tok": 2}
_ROUTED = _FEW | {
    "moe_intermediate_size": 16,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 32,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
_SHORT = {"layer_types": ["conv", "full_attention", "conv"], "conv_bias": True, "block_auto_adjust_ff_dim": False}
_SMALL_EXPERTS = _FEW | {"num_experts": 4, "moe_intermediate_size": 16}

_LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 20,
}

TABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "afmoe": (
        "AfmoeConfig",
        _WIDE
        | _KINDS
        | _SMALL_EXPERTS
        | {"num_dense_layers": 1, "num_shared_experts": 1, "mup_enabled": True, "route_scale": 1.5},
    ),
    "apertus": ("ApertusConfig", _WIDE),
    "arcee": ("ArceeConfig", _WIDE),
    "aria_text": ("AriaTextConfig", _WIDE | {"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}),
    "cohere": ("CohereConfig", {"use_qk_norm": True}),
    "cohere2": ("Cohere2Config", _KINDS),
    "cohere2_moe": ("Cohere2MoeConfig", _KINDS | _FEW | {"num_experts": 4, "num_shared_experts": 1}),
    "cwm": ("CwmConfig", _WIDE | _KINDS | {"bos_token_id": 2}),
    "deepseek_v2": (
        "DeepseekV2Config",
        _ROUTED | _LATENT | {"topk_method": "group_limited_greedy", "routed_scaling_factor": 1.5},
    ),
    "deepseek_v3": (
        "DeepseekV3Config",
        _ROUTED | _LATENT,
    ),
    "dots1": ("Dots1Config", _WIDE | _ROUTED | _KINDS),
    "ernie4_5": ("Ernie4_5Config", _WIDE | {"use_bias": True}),
    "ernie4_5_moe": (
        "Ernie4_5_MoeConfig",
        {
            "moe_intermediate_size": 16,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
        },
    ),
    "exaone4": ("Exaone4Config", _WIDE | _KINDS),
    "exaone_moe": (
        "ExaoneMoeConfig",
        _WIDE | _KINDS | _FEW | {"num_experts": 4, "moe_intermediate_size": 16, "n_group": 1},
    ),
    "flex_olmo": ("FlexOlmoConfig", _FEW | {"num_experts": 4}),
    "flint": (
        "FlintConfig",
        _WIDE | _KINDS | _FEW | {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 32},
    ),
    "gemma": ("GemmaConfig", _WIDE),
    "gemma2": ("Gemma2Config", _WIDE | _KINDS | _CAPS),
    "gemma3_text": ("Gemma3TextConfig", _WIDE | _KINDS | {"query_pre_attn_scalar": 20}),
    "gemma4_text": (
        "Gemma4TextConfig",
        _WIDE
        | _GEMMA4
        | {
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 12,
            "vocab_size_per_layer_input": 49,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma4_text, experts": (
        "Gemma4TextConfig",
        _WIDE
        | _GEMMA4
        | {
            "hidden_size_per_layer_input": 0,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 16,
        },
    ),
    "gemma4_unified_text": (
        "Gemma4UnifiedTextConfig",
        _WIDE | _GEMMA4 | {"attention_k_eq_v": True, "num_global_key_value_heads": 1},
    ),
    "glm": ("GlmConfig", _WIDE),
    "glm4": ("Glm4Config", _WIDE),
    "glm4_moe": (
        "Glm4MoeConfig",
        _WIDE | _ROUTED | {"use_qk_norm": True, "routed_scaling_factor": 1.5},
    ),
    "glm4_moe_lite": ("Glm4MoeLiteConfig", _ROUTED | _LATENT),
    "gpt_oss": (
        "GptOssConfig",
        _WIDE
        | _KINDS
        | _FEW
        | {"num_local_experts": 4, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    ),
    "granite": ("GraniteConfig", _GRANITE),
    "granite_swa": ("GraniteSWAConfig", _GRANITE | _KINDS),
    "granitemoe": ("GraniteMoeConfig", _GRANITE | _FEW | {"num_local_experts": 4}),
    "granitemoeshared": (
        "GraniteMoeSharedConfig",
        _GRANITE | _FEW | {"num_local_experts": 4, "shared_intermediate_size": 32},
    ),
    "helium": ("HeliumConfig", {"head_dim": 16}),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", _WIDE),
    "hunyuan_v1_moe": ("HunYuanMoEV1Config", _WIDE | {"num_experts": 4, "moe_topk": 2}),
    "hy_v3": (
        "HYV3Config",
        _WIDE | _FEW | {"num_experts": 4, "moe_intermediate_size": 16, "first_k_dense_replace": 1},
    ),
    "hyperclovax": ("HyperCLOVAXConfig", _GRANITE | {"use_post_norm": True}),
    "internlm3": ("InternLM3Config", _WIDE | {"bias": True, "qkv_bias": True}),
    "iquestcoder": ("IQuestCoderConfig", _WIDE),
    "jais2": ("Jais2Config", _WIDE),
    "kolibri1": (
        "Kolibri1Config",
        _WIDE | _KINDS | _FEW | {"num_experts": 4, "moe_intermediate_size": 16, "num_shared_experts": 1},
    ),
    "lfm2": ("Lfm2Config", _SHORT),
    "lfm2_moe": ("Lfm2MoeConfig", _SHORT | _SMALL_EXPERTS | {"num_dense_layers": 1}),
    "llama": ("LlamaConfig", _WIDE),
    "llama4_text": (
        "Llama4TextConfig",
        _WIDE | _FEW | {"num_local_experts": 4, "no_rope_layers": [1, 1, 0], "moe_layers": [1, 2]},
    ),
    "mellum": ("MellumConfig", _WIDE | _KINDS | _FEW | {"num_experts": 4, "moe_intermediate_size": 16}),
    "minicpm3": ("MiniCPM3Config", _LATENT | {"scale_emb": 3, "dim_model_base": 16}),
    "minimax_m2": ("MiniMaxM2Config", _WIDE | _FEW | {"num_local_experts": 4}),
    "ministral": ("MinistralConfig", _WIDE | _KINDS),
    "ministral3": ("Ministral3Config", _WIDE),
    "mistral": ("MistralConfig", _WIDE | {"sliding_window": WINDOW}),
    "mixtral": ("MixtralConfig", _WIDE | _FEW | {"sliding_window": WINDOW, "num_local_experts": 4}),
    "nemotron": ("NemotronConfig", {}),
    "olmo": ("OlmoConfig", {"clip_qkv": 1.0}),
    "olmo2": ("Olmo2Config", {}),
    "olmo3": ("Olmo3Config", _KINDS),
    "olmoe": ("OlmoeConfig", _FEW | {"num_experts": 4}),
    "phi": ("PhiConfig", {"qk_layernorm": True}),
    "phi3": ("Phi3Config", {"sliding_window": WINDOW}),
    "phimoe": ("PhimoeConfig", _FEW | {"num_local_experts": 4}),
    "qwen2": ("Qwen2Config", _KINDS | {"use_sliding_window": True}),
    "qwen2_moe": (
        "Qwen2MoeConfig",
        _FEW
        | {
            "num_experts": 4,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 32,
            "mlp_only_layers": [1],
        },
    ),
    "qwen3": ("Qwen3Config", _WIDE),
    "qwen3_5_moe_text": (
        "Qwen3_5MoeTextConfig",
        _WIDE | _DELTA | _SMALL_EXPERTS | {"shared_expert_intermediate_size": 32},
    ),
    "qwen3_5_text": ("Qwen3_5TextConfig", _WIDE | _DELTA),
    "qwen3_next": (
        "Qwen3NextConfig",
        _WIDE | _DELTA | _SMALL_EXPERTS | {"shared_expert_intermediate_size": 32, "mlp_only_layers": [1]},
    ),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        _WIDE | _FEW | {"num_experts": 4, "moe_intermediate_size": 16, "mlp_only_layers": [1], "norm_topk_prob": True},
    ),
    "seed_oss": ("SeedOssConfig", _WIDE | {"attention_bias": True}),
    "smollm3": ("SmolLM3Config", {"no_rope_layers": [1, 0, 1]}),
    "solar_open": ("SolarOpenConfig", _WIDE | _ROUTED),
    "stablelm": ("StableLmConfig", {"use_parallel_residual": True}),
    "starcoder2": ("Starcoder2Config", {"sliding_window": WINDOW}),
    "vaultgemma": ("VaultGemmaConfig", _WIDE | _KINDS | _CAPS),
    "youtu": ("YoutuConfig", _LATENT),
}
"""By architecture (and part of it): its configuration's class, and what it has beside the common shape."""


def config(kind: str, **more: Any) -> Any:
    name, own = TABLE[kind]
    return getattr(transformers, name)(**(_ENDS | _SHAPE | _HEADS | own | more))


def model(kind: str, seed: int = 0, dtype: torch.dtype = torch.float32, **more: Any) -> Any:
    """A random model; no norm's weight, bias or sink is what it is at first."""
    with torch.random.fork_rng(), no_init_weights():  # Some layers draw as they are made.
        made = transformers.AutoModelForCausalLM.from_config(
            config(kind, **more), attn_implementation="eager", experts_implementation="eager"
        ).to(dtype)
    draw = Key.of(seed).derive(kind).torch()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            drawn = torch.randn(parameter.shape, generator=draw) * 0.3
            norm = parameter.ndim == 1 and name.endswith("norm.weight")
            parameter.copy_(drawn + 1 if norm else drawn)
        for name, number in made.named_buffers():
            if name.endswith("layer_scalar"):
                number.copy_(1 + 0.3 * torch.randn(number.shape, generator=draw))
    made.tie_weights()
    return made.eval()


def weights(made: nn.Module) -> dict[str, torch.Tensor]:
    """Gradients of all weights that have one."""
    return {name: one.grad.clone() for name, one in made.named_parameters() if one.grad is not None}
