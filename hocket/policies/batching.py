"""Which policies can sample in one batch, each row with its own policy's adapter."""

from __future__ import annotations

from hocket.policies.causal_lm import CausalLM
from hocket.policies.form_reading import known_form
from hocket.policies.forms import linears_of
from hocket.policies.lora import is_adapters
from hocket.policies.stored_weights import CodedLinear
from hocket.policies.support import supports


def batch_together(one: CausalLM, other: CausalLM) -> bool:
    """Whether two policies can sample in one batch: they differ in nothing but adapters of layers of known form."""
    return (
        supports(one.model, 1)
        and one.precision == other.precision
        and one.tokenizer is other.tokenizer
        and one.stop_ids == other.stop_ids
        and _base(one) is not None
        and _base(one) == _base(other)
    )


def _base(policy: CausalLM) -> dict[str, int] | None:
    """Where the base's weights are, by name; None when some adapter is outside the layers."""
    weights: dict[str, int] = {}
    layers = known_form(policy.model).layers
    known = {f"model.layers.{number}.{name}" for number, form in enumerate(layers) for name in linears_of(form)}
    for name, module in policy.model.named_modules():
        if isinstance(module, CodedLinear):
            weights[name.removesuffix(".base_layer")] = module.coded.codes.data_ptr()
    for name, parameter in policy.model.named_parameters():
        if not is_adapters(name):
            weights[name.replace(".base_layer.", ".")] = parameter.data_ptr()
        elif name.partition(".lora_")[0] not in known:
            return None
    return weights
