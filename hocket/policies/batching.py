"""Which policies can sample in one batch, each row with its own policy's adapter."""

from __future__ import annotations

import re

from hocket.policies.causal_lm import CausalLM
from hocket.policies.family import FAMILY
from hocket.policies.lora import is_adapters

_IN_LAYERS = re.compile(r"model\.layers\.\d+\.(self_attn\.[qkvo]|mlp\.(gate|up|down))_proj\.lora_")


def batch_together(one: CausalLM, other: CausalLM) -> bool:
    """Whether two policies can sample in one batch: they differ in nothing but adapters inside the family's layers."""
    return (
        one.model.config.model_type in FAMILY
        and one.precision == other.precision
        and one.tokenizer is other.tokenizer
        and one.stop_ids == other.stop_ids
        and _base(one) is not None
        and _base(one) == _base(other)
    )


def _base(policy: CausalLM) -> dict[str, int] | None:
    """Where the base's weights are, by name; None when some adapter is outside the layers."""
    found = {}
    for name, parameter in policy.model.named_parameters():
        if not is_adapters(name):
            found[name.replace(".base_layer.", ".")] = parameter.data_ptr()
        elif not _IN_LAYERS.search(name):
            return None
    return found
