"""The sizes of a model's layers, read from its configuration alone.

A configuration may hold that of the language model inside another (`text_config`), and layers may differ in the size of
their heads or in their window (`per_layer_config`, `layer_types`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class LayerSize:
    """One decoder layer.

    Attributes:
        hidden: width of the states. heads, shared: attention heads, and those of keys and values; 0 of these where
            another layer's are read.
        key, value: numbers of a head's keys and values. inner: width of the feed-forward part that a token takes.
        window: positions that attention sees; None for all.
        recurrent: numbers of a state that does not grow with the sequence; the layer then has no keys and values.
        chosen: routed experts that a token takes, whose widths are in `inner`; 0 in a dense layer.
    """

    hidden: int
    heads: int
    shared: int
    key: int
    value: int
    inner: int
    window: int | None = None
    recurrent: int = 0
    chosen: int = 0

    def cached(self, length: int) -> int:
        """Numbers that sampling keeps of a sequence of `length` tokens."""
        if self.recurrent:
            return self.recurrent
        return self.shared * (self.key + self.value) * min(length, self.window or length)


@dataclass(frozen=True)
class ModelSize:
    """A language model: its layers, its vocabulary and its context (None without a limit)."""

    layers: tuple[LayerSize, ...]
    vocabulary: int
    context: int | None

    @property
    def hidden(self) -> int:
        return self.layers[0].hidden

    @property
    def widest(self) -> LayerSize:
        """The layer with the most numbers in attention's and the feed-forward part's matrices."""
        return max(self.layers, key=lambda layer: (layer.heads + layer.shared) * layer.key + layer.inner)

    def cached(self, length: int) -> int:
        """Numbers that sampling keeps of a sequence of `length` tokens."""
        return sum(layer.cached(length) for layer in self.layers)


def text_config(config: Any) -> Any:
    """The configuration of the language model in `config`, which may be `config` itself."""
    inside = getattr(config, "get_text_config", None)
    return config if inside is None else inside(decoder=True)


def context_length(config: Any) -> int | None:
    """The most tokens a sequence may have; None when the architecture sets no limit."""
    limit = getattr(text_config(config), "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None


def model_size(config: Any) -> ModelSize:
    """The sizes from a `transformers` configuration; what it does not name has the usual size."""
    text = text_config(config)
    count = int(getattr(text, "num_hidden_layers", None) or 1)
    each = getattr(text, "per_layer_config", None)
    kinds = getattr(text, "layer_types", None)
    layers = tuple(
        _layer(text if each is None else each[number], number, kinds[number] if kinds and number < len(kinds) else None)
        for number in range(count)
    )
    modes = getattr(text, "kv_sharing_modes", None) or [None] * count
    wider = 2 if getattr(text, "use_double_wide_mlp", False) else 1
    layers = tuple(
        replace(layer, shared=0, inner=wider * layer.inner) if mode == "reuse" else layer
        for layer, mode in zip(layers, modes, strict=True)
    )
    return ModelSize(layers, int(getattr(text, "vocab_size", 0)), context_length(config))


def _layer(config: Any, number: int, kind: str | None) -> LayerSize:
    hidden, heads = int(config.hidden_size), _number(config, "num_attention_heads") or 1
    shared = _number(config, "num_key_value_heads") or heads
    key = value = _number(config, "head_dim") or hidden // heads
    if _number(config, "kv_lora_rank"):  # Latent attention: the cache has whole keys and values of every head.
        shared, key = heads, _number(config, "qk_nope_head_dim") + _number(config, "qk_rope_head_dim")
        value = _number(config, "v_head_dim") or value
    window = _number(config, "sliding_window") if kind in ("sliding_attention", "chunked_attention") else None
    recurrent = 0
    if kind in ("linear_attention", "mamba", "conv"):
        recurrent = max(
            1,
            _number(config, "linear_num_value_heads")
            * _number(config, "linear_key_head_dim")
            * _number(config, "linear_value_head_dim"),
        )
    inner, chosen = _feed(config, number)
    return LayerSize(hidden, heads, shared, key, value, inner, window or None, recurrent, chosen)


def _feed(config: Any, number: int) -> tuple[int, int]:
    """Of layer `number`: the width of the feed-forward part that one token takes, and the routed experts in it."""
    usual = _number(config, "intermediate_size") or 4 * int(config.hidden_size)
    chosen = next((count for name in _CHOSEN if (count := _number(config, name))), 0)
    if not chosen or _is_dense(config, number):
        return _number(config, "intermediate_size_mlp") or usual, 0
    expert = _number(config, "moe_intermediate_size") or _number(config, "expert_ffn_hidden_size") or usual
    always = sum(_number(config, name) for name in _ALWAYS) * expert + sum(_number(config, name) for name in _WIDTHS)
    both = getattr(config, "enable_moe_block", False) or _number(config, "moe_topk")  # Gemma 4's and Hunyuan's layers.
    beside = usual if both else 0
    return chosen * expert + always + beside, chosen


_CHOSEN = ("num_experts_per_tok", "moe_k", "moe_topk", "moe_top_k", "top_k_experts")
"""Names of the number of experts that a token takes."""
_ALWAYS = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
"""Names of the number of experts that every token takes."""
_WIDTHS = ("shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size")
"""Names of the width of the part that every token takes."""


def _is_dense(config: Any, number: int) -> bool:
    """Whether layer `number` of a mixture of experts has one feed-forward part for all tokens."""
    kinds = getattr(config, "mlp_layer_types", None)
    if kinds:
        return bool(kinds[min(number, len(kinds) - 1)] == "dense")
    if getattr(config, "enable_moe_block", True) is False:
        return True
    routed = getattr(config, "moe_layers", None)
    if routed is not None:
        return number not in routed
    first = max(
        _number(config, name) for name in ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
    )
    step = _number(config, "decoder_sparse_step") or _number(config, "moe_layer_interval") or 1
    return number < first or number in (getattr(config, "mlp_only_layers", None) or ()) or (number + 1) % step != 0


def _number(config: Any, name: str) -> int:
    """A setting that is one whole number, else 0; some families have a list of them, one for each layer."""
    value = getattr(config, name, None)
    if isinstance(value, (list, tuple)) and value:
        value = max(value)
    return value if isinstance(value, int) else 0
