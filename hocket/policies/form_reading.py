"""Reads the form of a decoder from its configuration and its modules, see `hocket.policies.forms`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

from hocket.policies.forms import (
    AttentionForm,
    ConvolutionForm,
    DeltaForm,
    ExpertsForm,
    FeedForm,
    Form,
    InputsForm,
    Kind,
    LatentForm,
    LayerForm,
    NormForm,
    RecurrentForm,
    SideForm,
    normed,
    routing_weights,
)
from hocket.policies.lora import base_of, is_adapters
from hocket.policies.rotary import (
    UnknownPart,
    frequencies,
    interleaves,
    is_complex,
    longest_static,
    rotary_of,
    table_names,
    table_of,
    whole_chunk,
)

_forms: WeakKeyDictionary[nn.Module, Form | None] = WeakKeyDictionary()


def form_of(model: Any) -> Form | None:
    """The form of a language model or of a scorer over its trunk, read once; None for an architecture without."""
    if model not in _forms:
        with torch.no_grad():
            try:
                _forms[model] = _form(model)
            except (
                UnknownPart,
                AttributeError,
                LookupError,
                RuntimeError,
                TypeError,
                ValueError,
            ):  # Its parts are others than these.
                _forms[model] = None
    return _forms[model]


def known_form(model: Any) -> Form:
    """The same where there is one."""
    form = form_of(model)
    assert form is not None
    return form


def _form(model: Any) -> Form:
    trunk: Any = getattr(model, "model", None)
    config, inner = model.config, getattr(trunk, "layers", None)
    if not isinstance(inner, nn.ModuleList):
        raise UnknownPart
    last = _first(trunk, ("norm", "final_layernorm", "embedding_norm"))
    inputs = _inputs(trunk)
    beside = [] if inputs is None else [inputs.table, inputs.projection, inputs.norm.name]
    _check_weights(trunk, ["embed_tokens", "layers", last, *beside])
    read = [_layer(trunk, layer, config, number) for number, layer in enumerate(inner)]
    attention = next((layer.attention for layer in read if layer.attention is not None), None)
    if attention is None:
        raise UnknownPart
    layers = tuple(layer.form(attention) for layer in read)
    turned = {(layer.attention.rotary, layer.attention.size) for layer in layers}
    thetas = set(getattr(config, "layer_rope_theta", None) or ())
    both_ways = getattr(config, "use_bidirectional_attention", None) not in (None, False, "vision")
    if len(dict(turned)) != len(turned) or len(thetas) > 1 or both_ways:
        raise UnknownPart
    if (inputs is None) != all(layer.side is None for layer in layers):
        raise UnknownPart
    scaling = float(getattr(config, "logits_scaling", 1.0))
    scale = getattr(model, "logit_scale", None) or (scaling if config.model_type in _MULTIPLIED else 1 / scaling)
    wide = config.model_type == "afmoe" and config.mup_enabled
    return Form(
        layers=layers,
        norm=_norm(trunk, last),
        embedding_scale=config.hidden_size**0.5 if wide else float(getattr(config, "embedding_multiplier", 1.0)),
        logit_scale=float(scale),
        logit_cap=float(getattr(config, "final_logit_softcapping", None) or 0),
        longest=min(longest_static(rotary_of(trunk), config), whole_chunk(config)),
        inputs=inputs,
    )


_MULTIPLIED = frozenset({"hyperclovax"})
"""Architectures whose logits are multiplied by `logits_scaling`; others divide by it."""


# ---------------------------------------------------------------- modules


def _first(module: nn.Module, names: Iterable[str]) -> str:
    for name in names:
        if isinstance(getattr(module, name, None), nn.Module):
            return name
    raise UnknownPart


def _weights(module: nn.Module) -> set[str]:
    return {
        n.replace(".base_layer.", ".") for n, _ in module.named_parameters(remove_duplicate=False) if not is_adapters(n)
    }


def _check_weights(module: nn.Module, names: Iterable[str]) -> None:
    """Every weight of a module is one of its children's of these names, or itself so called."""
    children = tuple(names)
    within = tuple(f"{child}." for child in children)
    if any(name not in children and not name.startswith(within) for name in _weights(module)):
        raise UnknownPart


def _linear(module: nn.Module, names: Iterable[str]) -> None:
    for name in names:
        if type(base_of(getattr(module, name, None))) is not nn.Linear:
            raise UnknownPart


def _norm(parent: nn.Module, name: str, shape: tuple[int, ...] | None = None) -> NormForm:
    """What a norm computes, found by trying it on numbers so small that its epsilon shows."""
    module: Any = getattr(parent, name)
    weight = getattr(module, "weight", None)
    sizes = tuple(weight.shape if weight is not None else getattr(module, "normalized_shape", ()))
    if not sizes or (weight is not None and not weight.numel()) or (weight is not None and weight.is_meta):
        raise UnknownPart
    like = {"dtype": weight.dtype, "device": weight.device} if weight is not None else {}
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(0)).mul(0.01).to(**like)
    due = module(x).double()
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", 1e-5))
    exact = 1e-3 if x.dtype in (torch.float32, torch.float64) else 3e-2
    kinds: tuple[Kind, ...] = ("rms", "centred")
    for form in (NormForm(name, kind, float(epsilon), offset) for kind in kinds for offset in (False, True)):
        if (normed(form, module, x).double() - due).norm() <= exact * due.norm():
            return form
    raise UnknownPart


# ---------------------------------------------------------------- layers

_NORMS: dict[tuple[str, ...], tuple[str | None, str | None, str | None, str | None]] = {
    ("input_layernorm", "post_attention_layernorm"): ("input_layernorm", None, "post_attention_layernorm", None),
    ("ffn_norm", "operator_norm"): ("operator_norm", None, "ffn_norm", None),
    ("attention_layernorm", "feedforward_layernorm"): ("attention_layernorm", None, "feedforward_layernorm", None),
    ("input_layernorm",): ("input_layernorm", None, None, None),
    ("post_attention_layernorm", "post_feedforward_layernorm"): (
        None,
        "post_attention_layernorm",
        None,
        "post_feedforward_layernorm",
    ),
    ("input_layernorm", "post_attention_layernorm", "post_feedforward_layernorm", "pre_feedforward_layernorm"): (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
    ("input_layernorm", "post_attention_layernorm", "post_mlp_layernorm", "pre_mlp_layernorm"): (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_mlp_layernorm",
        "post_mlp_layernorm",
    ),
    ("input_layernorm", "pre_feedforward_layernorm"): ("input_layernorm", None, "pre_feedforward_layernorm", None),
    ("input_layernorm", "post_attention_layernorm", "post_norm1", "post_norm2"): (
        "input_layernorm",
        "post_norm1",
        "post_attention_layernorm",
        "post_norm2",
    ),
    ("input_layernorm", "post_attention_layernorm", "post_mlp_layernorm", "post_self_attn_layernorm"): (
        "input_layernorm",
        "post_self_attn_layernorm",
        "post_attention_layernorm",
        "post_mlp_layernorm",
    ),
}
"""By the names of a layer's norms: which stand before and after attention, before and after feed-forward."""


class _Layer(NamedTuple):
    """A layer's parts; `attention` or `recurrence` is None."""

    attention: AttentionForm | None
    recurrence: RecurrentForm | None
    rest: dict[str, Any]

    def form(self, other: AttentionForm) -> LayerForm:
        """The whole; `other` is the attention of a layer that has one."""
        return LayerForm(attention=self.attention or other, recurrence=self.recurrence, **self.rest)


def _layer(trunk: Any, layer: nn.Module, config: Any, number: int) -> _Layer:
    attention = _first(layer, ("self_attn", "linear_attn", "conv"))
    feed = _first(layer, ("mlp", "block_sparse_moe", "feed_forward"))
    norms_in = (name for name, child in layer.named_children() if "norm" in name and type(child) is not nn.Identity)
    side = _side(layer)
    names = tuple(sorted(name for name in norms_in if side is None or name != side.norm.name))
    places = _NORMS.get(names)
    parallel = len(names) == 1 or bool(getattr(layer, "use_parallel_residual", False))
    if places is None or (parallel and side is not None):
        raise UnknownPart
    beside = None if getattr(layer, "shared_mlp", None) is None else layer.shared_mlp
    more = [] if side is None else [side.opening, side.closing, side.norm.name]
    _check_weights(layer, [attention, feed, *names, *more, *([] if beside is None else ["shared_mlp"])])
    norms = tuple(None if name is None else _norm(layer, name) for name in places)
    module, attends = getattr(layer, attention), attention == "self_attn"
    rest = {
        "attention_name": attention,
        "feed_name": feed,
        "feed": _feed(getattr(layer, feed), beside),
        "norms": norms,
        "parallel": parallel,
        "residual": float(getattr(layer, "residual_multiplier", getattr(layer, "residual_scale", 1.0))),
        "side": side,
        "scalar": "layer_scalar" if isinstance(getattr(layer, "layer_scalar", None), torch.Tensor) else "",
    }
    return _Layer(
        _attention_of(trunk, module, config, number) if attends else None,
        None if attends else _recurrence(module),
        rest,
    )


def _inputs(trunk: Any) -> InputsForm | None:
    if not hasattr(trunk, "embed_tokens_per_layer"):
        return None
    _linear(trunk, ["per_layer_model_projection"])
    norm = _norm(trunk, "per_layer_projection_norm")
    if norm.kind != "rms" or type(trunk.embed_tokens_per_layer).forward is nn.Embedding.forward:
        raise UnknownPart
    scales = float(trunk.per_layer_model_projection_scale), float(trunk.per_layer_input_scale)
    width = trunk.per_layer_projection_norm.weight.shape[0]
    return InputsForm("embed_tokens_per_layer", "per_layer_model_projection", norm, *scales, width)


def _side(layer: Any) -> SideForm | None:
    names = "per_layer_input_gate", "per_layer_projection"
    if not hasattr(layer, names[0]):
        return None
    _linear(layer, names)
    return SideForm(*names, "act_fn", _norm(layer, "post_per_layer_input_norm"))


def _recurrence(module: Any) -> RecurrentForm:
    delta = hasattr(module, "A_log")
    convolution = module.conv1d if delta else module.conv
    channels, taps = convolution.in_channels, convolution.kernel_size[0]
    causal = type(convolution) is nn.Conv1d and convolution.padding == (taps - 1,)
    if not causal or convolution.groups != channels or taps < 2:
        raise UnknownPart
    if not delta:
        _linear(module, ["in_proj", "out_proj"])
        _check_weights(module, ["in_proj", "out_proj", "conv"])
        if base_of(module.in_proj).out_features != 3 * channels:
            raise UnknownPart
        return ConvolutionForm(("in_proj",), "out_proj", "conv", channels, taps)
    grouped = hasattr(module, "in_proj_qkvz")
    flat = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
    projections = ("in_proj_qkvz", "in_proj_ba") if grouped else flat
    _linear(module, [*projections, "out_proj"])
    _check_weights(module, [*projections, "out_proj", "conv1d", "norm", "A_log", "dt_bias"])
    form = DeltaForm(
        projections=projections,
        output="out_proj",
        convolution="conv1d",
        norm=NormForm("norm", "rms", float(module.layer_norm_epsilon)),
        grouped=grouped,
        keys=module.num_k_heads,
        heads=module.num_v_heads,
        size=module.head_k_dim,
        values=module.head_v_dim,
        taps=taps,
    )
    widths = sum(base_of(getattr(module, name)).out_features for name in projections)
    due = channels + form.heads * form.values + 2 * form.heads
    if widths != due or form.window[1] != channels or form.size % 16 or form.values % 16 or module.activation != "silu":
        raise UnknownPart
    return form


def _attention_of(trunk: Any, module: Any, config: Any, number: int) -> AttentionForm:
    return (_latent if hasattr(module, "kv_b_proj") else _attention)(trunk, module, config, number)


def _latent(trunk: Any, module: Any, config: Any, number: int) -> AttentionForm:
    narrow = module.q_lora_rank is not None
    down = ("q_a_proj" if narrow else "q_proj", "kv_a_proj_with_mqa")
    norms = [_norm(module, name) for name in (*(["q_a_layernorm"] if narrow else []), "kv_a_layernorm")]
    if any(norm.kind != "rms" for norm in norms):
        raise UnknownPart
    form = LatentForm(
        down=down,
        query_norm=norms[0] if narrow else None,
        query_up="q_b_proj" if narrow else None,
        norm=norms[-1],
        up="kv_b_proj",
        still=module.qk_nope_head_dim,
        turning=module.qk_rope_head_dim,
        values=module.v_head_dim,
        rank=module.kv_lora_rank,
    )
    kind, heads = _layer_type(config, number), module.num_heads
    rotary = table_of(rotary_of(trunk), module, config, kind)
    shape = AttentionForm(
        projections=(),
        output="o_proj",
        heads=heads,
        shared=heads,
        size=form.still + form.turning,
        scale=float(module.scaling),
        window=_window(trunk, config, kind),
        rotary=rotary,
        turned=form.turning,
        interleaved=bool(getattr(config, "rope_interleave", is_complex(rotary_of(trunk)))),
        latent=form,
    )
    _linear(module, [*shape.inner, "o_proj"])
    _check_weights(module, [*shape.inner, "o_proj", *(norm.name for norm in norms)])
    turns = rotary is not None and 2 * frequencies(rotary_of(trunk), rotary).numel() == form.turning
    if not turns or form.values > shape.size:
        raise UnknownPart
    return shape


_QUERY_NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"), ("query_layernorm", "key_layernorm"))


def _attention(trunk: Any, module: Any, config: Any, number: int) -> AttentionForm:
    if getattr(module, "is_kv_shared_layer", False):
        return _borrowing(trunk, module, config, number)
    joint, tied = hasattr(module, "qkv_proj"), getattr(module, "use_alternative_attention", False)
    apart = ("q_proj", "k_proj") if tied else ("q_proj", "k_proj", "v_proj")
    behind = not joint and isinstance(getattr(module, "gate_proj", None), nn.Module)
    projections = ("qkv_proj",) if joint else (*apart, "gate_proj") if behind else apart
    output = _first(module, ("o_proj", "dense", "out_proj"))
    _linear(module, [*projections, output])
    size, sinks = int(module.head_dim), isinstance(getattr(module, "sinks", None), nn.Parameter)
    named = next((pair for pair in _QUERY_NORMS if getattr(module, pair[0], None) is not None), None)
    _check_weights(module, [*projections, output, *(named or ()), *(["sinks"] if sinks else [])])
    heads = base_of(getattr(module, output)).in_features // size
    widths = [base_of(getattr(module, name)).out_features for name in projections]
    gated = behind or (not joint and widths[0] == 2 * heads * size)
    if gated and widths[-1 if behind else 0] == (1 if behind else 2) * heads * size:
        widths = widths[:-1] if behind else [heads * size, *widths[1:]]
    shared = (widths[0] // size - heads) // 2 if joint else widths[1] // size
    if sum(widths) != (heads + (1 if tied else 2) * shared) * size or heads % max(shared, 1):
        raise UnknownPart
    kind = _layer_type(config, number)
    rotary = table_of(rotary_of(trunk), module, config, kind)
    turned = 2 * frequencies(rotary_of(trunk), rotary or next(iter(table_names(rotary_of(trunk))), "")).numel()
    interleaved, late = interleaves(module, rotary_of(trunk)), named == _QUERY_NORMS[2]
    if late and (interleaved or turned != size):
        raise UnknownPart
    norms = None
    if named is not None:
        pair = [_norm(module, name) for name in named]
        shapes = [getattr(module, name).weight.shape[-1] for name in named]
        wide = shapes != [size, size]
        if wide and shapes != [heads * size, shared * size]:
            raise UnknownPart
        norms = tuple(replace(norm, wide=wide) for norm in pair)
    elif getattr(module, "qk_norm", None) is not None:  # It has no weight, so it may as well come before the turn.
        same = _bare_norm(module, "qk_norm", size)
        norms = same, same
    value_norm = None if getattr(module, "v_norm", None) is None else _bare_norm(module, "v_norm", size)
    if value_norm is not None or tied:  # Normed by head, with nothing else to do for their turn.
        plain = norms is not None and not late and not interleaved and not gated and turned == size
        if not plain or any(norm.wide or norm.kind != "rms" for norm in norms or ()) or value_norm is None:
            raise UnknownPart
    return AttentionForm(
        projections=projections,
        output=output,
        heads=heads,
        shared=shared,
        size=size,
        scale=float(getattr(module, "scaling", size**-0.5)),
        window=_window(trunk, config, kind),
        cap=float(getattr(module, "attn_logit_softcapping", None) or 0),
        sinks=sinks,
        rotary=rotary,
        turned=turned,
        interleaved=interleaved,
        norms=norms,  # type: ignore[arg-type]
        late=late,
        clip=float(getattr(config, "clip_qkv", None) or 0),
        gated=gated,
        behind=behind,
        value_norm=value_norm,
        tied=tied,
    )


def _borrowing(trunk: Any, module: Any, config: Any, number: int) -> AttentionForm:
    """Of a layer that reads keys and values of the last one of its kind that has any."""
    kinds = config.layer_types
    earlier = (other for other in reversed(range(number)) if kinds[other] == kinds[number])
    source = next((n for n in earlier if not trunk.layers[n].self_attn.is_kv_shared_layer), None)
    if source is None:
        raise UnknownPart
    lender = _attention(trunk, trunk.layers[source].self_attn, config, source)
    norms = (_norm(module, "q_norm"), lender.norms[1]) if lender.norms is not None else None
    _linear(module, ["q_proj", "o_proj"])
    _check_weights(module, ["q_proj", "q_norm", "o_proj"])
    same = base_of(module.q_proj).out_features == base_of(module.o_proj).in_features == lender.heads * lender.size
    same = same and module.q_norm.weight.shape == (lender.size,) and module.scaling == lender.scale
    if norms is None or lender.value_norm is None or norms[0].kind != "rms" or not same:
        raise UnknownPart
    return replace(lender, projections=("q_proj",), norms=norms, tied=False, source=source)


def _bare_norm(parent: nn.Module, name: str, size: int) -> NormForm:
    """An RMSNorm over `size` numbers that has no weight."""
    module: Any = getattr(parent, name)
    form = NormForm(name, "rms", float(module.eps))
    x = torch.randn(size, generator=torch.Generator().manual_seed(0)).mul(0.01)
    if (normed(form, module, x) - module(x)).abs().max() > 1e-4:
        raise UnknownPart
    return form


_ROUTERS = ("gate", "router")
_SHARED = ("shared_expert", "shared_experts", "shared_mlp")


def _feed(module: Any, beside: Any) -> FeedForm | ExpertsForm:
    if isinstance(getattr(module, "experts", None), nn.Module):
        return _experts(module) if beside is None else replace(_experts(module), **_beside(module, beside))
    if beside is not None:
        raise UnknownPart
    return _dense(module)


def _beside(module: Any, shared: Any) -> dict[str, Any]:
    if any(getattr(module, name, None) is not None for name in _SHARED):
        raise UnknownPart
    return {"shared": "shared_mlp", "shared_form": _dense(shared), "beside": True}


def _experts(module: Any) -> ExpertsForm:
    router, experts = _first(module, _ROUTERS), module.experts
    if not hasattr(experts, "has_gate"):
        return _scaled_before(module, router)
    names = {"gate_up_proj", "down_proj"} | (
        {"gate_up_proj_bias", "down_proj_bias"} if _flag(experts, "has_bias") else set()
    )
    plain = _flag(experts, "has_gate") and not _flag(experts, "has_post_expert_norm")
    if _weights(experts) != names or not plain:
        raise UnknownPart
    shared = next((name for name in _SHARED if getattr(module, name, None) is not None), None)
    gate = "shared_expert_gate" if hasattr(module, "shared_expert_gate") else None
    bias = _handed_bias(module, getattr(module, router))
    _check_weights(module, [router, "experts", *(name for name in (shared, gate, bias) if name is not None)])
    weight = experts.down_proj
    if weight.is_meta or not weight.numel():
        raise UnknownPart
    width = weight.shape[2 if _flag(experts, "is_transposed") else 1]
    probe = torch.randn(16, width, generator=torch.Generator().manual_seed(0)).to(weight.device, weight.dtype)
    handed, batched = () if bias is None else (getattr(module, bias),), False
    try:
        routed = getattr(module, router)(probe, *handed)
    except ValueError:
        routed, batched = getattr(module, router)(probe[None], *handed), True
    if not isinstance(routed, tuple) or len(routed) != 3 or routed[1].shape != routed[2].shape:
        raise UnknownPart
    usual = type(experts)._apply_gate.__name__ == "_default_apply_gate"
    form = ExpertsForm(
        router=router,
        experts="experts",
        activation="act_fn" if usual else "",
        shared=shared,
        shared_form=None if shared is None else _dense(getattr(module, shared)),
        shared_gate=gate,
        factor=_factor(getattr(module, router)),
        floor=1e-6 if hasattr(getattr(module, router), "use_expert_bias") else 0.0,  # LFM2's own.
        bias=bias,
        share=_share(module),
        batched=batched,
    )
    logits, due, chosen = (part.double() if part.is_floating_point() else part for part in routed)
    for scores in _SCORES:
        for normalised in (True, False):
            tried = replace(form, scores=scores, normalised=normalised)
            if (routing_weights(tried, logits, chosen) - due).abs().max() < 1e-2:
                return tried
    return form


def _handed_bias(module: Any, router: Any) -> str | None:
    """The name of what the module hands its router to add to scores where experts are chosen."""
    taken = inspect.signature(router.forward).parameters
    handed = (name for name in ("expert_bias", "e_score_correction_bias") if name in taken)
    return next((name for name in handed if isinstance(getattr(module, name, None), torch.Tensor)), None)


def _factor(router: Any) -> float:
    """What a router multiplies its weights by."""
    names = "routed_scaling_factor", "router_scaling_factor", "route_scale"
    return next((float(getattr(router, name)) for name in names if hasattr(router, name)), 1.0)


def _share(module: Any) -> float:
    """What the sum of routed and shared experts is multiplied by."""
    return 0.5 if getattr(module, "shared_expert_combination_strategy", "sum") == "average" else 1.0


def _scaled_before(module: Any, router: str) -> ExpertsForm:
    """Experts that read states times their weights, sigmoids of the router's logits."""
    experts = module.experts
    linear = getattr(module, router)
    if _weights(experts) != {"gate_up_proj", "down_proj"} or _weights(linear) != {"weight"}:
        raise UnknownPart
    _check_weights(module, [router, "experts", "shared_expert"])
    routed = linear(torch.zeros(2, linear.weight.shape[1], dtype=linear.weight.dtype))
    if not isinstance(routed, tuple) or len(routed) != 2 or experts.gate_up_proj.shape[1] != linear.weight.shape[1]:
        raise UnknownPart
    return ExpertsForm(
        router=router,
        experts="experts",
        activation="act_fn",
        shared="shared_expert",
        shared_form=_dense(module.shared_expert),
        scores="sigmoid",
        normalised=False,
        before=True,
    )


_SCORES: tuple[Literal["softmax", "sigmoid"], ...] = ("softmax", "sigmoid")


def _flag(module: Any, name: str) -> bool:
    flag = getattr(module, name, None)
    if not isinstance(flag, bool):
        raise UnknownPart
    return flag


def _dense(module: Any) -> FeedForm:
    for opening, closing, gated in (
        (("gate_proj", "up_proj"), "down_proj", True),
        (("gate_up_proj",), "down_proj", True),
        (("input_linear",), "output_linear", True),
        (("up_proj",), "down_proj", False),
        (("w1", "w3"), "w2", True),
        (("fc1",), "fc2", False),
        (("c_fc",), "c_proj", False),
    ):
        if all(isinstance(getattr(module, name, None), nn.Module) for name in (*opening, closing)):
            bare = opening == ("w1", "w3") and not hasattr(module, "act_fn")  # LFM2 calls silu by itself.
            activation = "" if bare else _first(module, ("act_fn", "activation_fn", "act", "activation"))
            _linear(module, [*opening, closing])
            _check_weights(module, [*opening, closing, *([] if gated else [activation])])
            return FeedForm(opening, closing, activation, gated)
    raise UnknownPart


def _layer_type(config: Any, number: int) -> str | None:
    kinds = getattr(config, "layer_types", None)
    kind = None if kinds is None else kinds[number]
    if kind not in (None, "full_attention", "sliding_attention", "chunked_attention"):
        raise UnknownPart
    return kind


def _window(trunk: Any, config: Any, kind: str | None) -> int:
    """Configurations without kinds of layers mean all of them, if the architecture has windows at all."""
    window = getattr(config, "sliding_window", None)
    if kind is not None:
        return int(window) if window and kind == "sliding_attention" else 0
    slides = hasattr(sys.modules[type(trunk).__module__], "create_sliding_window_causal_mask")
    return int(window) if window and slides and getattr(config, "use_sliding_window", True) else 0


def layers_in(model: Any) -> Iterator[tuple[Any, LayerForm]]:
    """A model's layers, each with its form."""
    return zip(model.model.layers, known_form(model).layers, strict=True)
