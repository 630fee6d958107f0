"""The sizes of a model's layers, read from its configuration alone.

A configuration may hold that of the language model inside another (`text_config`), and layers may differ in the size of
their heads or in their window (`per_layer_config`, `layer_types`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerSize:
    """One decoder layer.

    Attributes:
        hidden: width of the states. heads, shared: attention heads, and those of keys and values.
        key, value: numbers of a head's keys and values. inner: width of the feed-forward part that a token takes.
        window: positions that attention sees; None for all.
        recurrent: numbers of a state that does not grow with the sequence; the layer then has no keys and values.
    """

    hidden: int
    heads: int
    shared: int
    key: int
    value: int
    inner: int
    window: int | None = None
    recurrent: int = 0

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
        _layer(text if each is None else each[number], kinds[number] if kinds and number < len(kinds) else None)
        for number in range(count)
    )
    return ModelSize(layers, int(getattr(text, "vocab_size", 0)), context_length(config))


def _layer(config: Any, kind: str | None) -> LayerSize:
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
    return LayerSize(hidden, heads, shared, key, value, _inner(config, hidden), window or None, recurrent)


def _inner(config: Any, hidden: int) -> int:
    """The width of the feed-forward part that one token takes: with experts, that of the chosen ones."""
    usual = _number(config, "intermediate_size") or 4 * hidden
    chosen = _number(config, "num_experts_per_tok")
    if not chosen:
        return usual
    expert = _number(config, "moe_intermediate_size") or usual
    always = _number(config, "n_shared_experts") * expert + _number(config, "shared_expert_intermediate_size")
    return chosen * expert + always


def _number(config: Any, name: str) -> int:
    """A setting that is one whole number, else 0; some families have a list of them, one for each layer."""
    value = getattr(config, name, None)
    if isinstance(value, (list, tuple)) and value:
        value = max(value)
    return value if isinstance(value, int) else 0
