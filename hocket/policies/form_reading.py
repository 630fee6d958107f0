"""Reads the form of a decoder from its configuration and its modules, see `hocket.policies.forms`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

from hocket.policies.feed_reading import experts_apart, feed_of
from hocket.policies.forms import (
    AttentionForm,
    ConvolutionForm,
    DeltaForm,
    Form,
    InputsForm,
    LatentForm,
    LayerForm,
    NormForm,
    RecurrentForm,
    SideForm,
)
from hocket.policies.lora import base_of
from hocket.policies.module_reading import bare_norm, check_linear, check_weights, first_of, norm_of
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
    last = first_of(trunk, ("norm", "final_layernorm", "embedding_norm"))
    inputs = _inputs(trunk)
    beside = [] if inputs is None else [inputs.table, inputs.projection, inputs.norm.name]
    check_weights(trunk, ["embed_tokens", "layers", last, *beside])
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
        norm=norm_of(trunk, last),
        embedding_scale=config.hidden_size**0.5 if wide else float(getattr(config, "embedding_multiplier", 1.0)),
        logit_scale=float(scale),
        logit_cap=float(getattr(config, "final_logit_softcapping", None) or 0),
        longest=min(longest_static(rotary_of(trunk), config), whole_chunk(config)),
        inputs=inputs,
    )


_MULTIPLIED = frozenset({"hyperclovax"})
"""Architectures whose logits are multiplied by `logits_scaling`; others divide by it."""


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
    attention = first_of(layer, ("self_attn", "linear_attn", "conv"))
    feed = first_of(layer, ("mlp", "block_sparse_moe", "feed_forward"))
    norms_in = (name for name, child in layer.named_children() if "norm" in name and type(child) is not nn.Identity)
    side, apart = _side(layer), experts_apart(layer)
    inside = set() if apart is None or apart.apart is None else {norm.name for norm in vars(apart.apart).values()}
    inside |= set() if side is None else {side.norm.name}
    names = tuple(sorted(name for name in norms_in if name not in inside))
    places = _NORMS.get(names)
    parallel = len(names) == 1 or bool(getattr(layer, "use_parallel_residual", False))
    if places is None or (parallel and side is not None):
        raise UnknownPart
    beside = None if getattr(layer, "shared_mlp", None) is None else layer.shared_mlp
    more = [*inside, *([] if side is None else [side.opening, side.closing])]
    more += [] if apart is None else [apart.router, apart.experts]
    check_weights(layer, [attention, feed, *names, *more, *([] if beside is None else ["shared_mlp"])])
    norms = tuple(None if name is None else norm_of(layer, name) for name in places)
    module, attends = getattr(layer, attention), attention == "self_attn"
    rest = {
        "attention_name": attention,
        "feed_name": feed if apart is None else "",
        "feed": feed_of(getattr(layer, feed), beside) if apart is None else apart,
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
    check_linear(trunk, ["per_layer_model_projection"])
    norm = norm_of(trunk, "per_layer_projection_norm")
    if norm.kind != "rms" or type(trunk.embed_tokens_per_layer).forward is nn.Embedding.forward:
        raise UnknownPart
    scales = float(trunk.per_layer_model_projection_scale), float(trunk.per_layer_input_scale)
    width = trunk.per_layer_projection_norm.weight.shape[0]
    return InputsForm("embed_tokens_per_layer", "per_layer_model_projection", norm, *scales, width)


def _side(layer: Any) -> SideForm | None:
    names = "per_layer_input_gate", "per_layer_projection"
    if not hasattr(layer, names[0]):
        return None
    check_linear(layer, names)
    return SideForm(*names, "act_fn", norm_of(layer, "post_per_layer_input_norm"))


def _recurrence(module: Any) -> RecurrentForm:
    delta = hasattr(module, "A_log")
    convolution = module.conv1d if delta else module.conv
    channels, taps = convolution.in_channels, convolution.kernel_size[0]
    causal = type(convolution) is nn.Conv1d and convolution.padding == (taps - 1,)
    if not causal or convolution.groups != channels or taps < 2:
        raise UnknownPart
    if not delta:
        check_linear(module, ["in_proj", "out_proj"])
        check_weights(module, ["in_proj", "out_proj", "conv"])
        if base_of(module.in_proj).out_features != 3 * channels:
            raise UnknownPart
        return ConvolutionForm(("in_proj",), "out_proj", "conv", channels, taps)
    grouped = hasattr(module, "in_proj_qkvz")
    flat = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
    projections = ("in_proj_qkvz", "in_proj_ba") if grouped else flat
    check_linear(module, [*projections, "out_proj"])
    check_weights(module, [*projections, "out_proj", "conv1d", "norm", "A_log", "dt_bias"])
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
    norms = [norm_of(module, name) for name in (*(["q_a_layernorm"] if narrow else []), "kv_a_layernorm")]
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
    check_linear(module, [*shape.inner, "o_proj"])
    check_weights(module, [*shape.inner, "o_proj", *(norm.name for norm in norms)])
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
    output = first_of(module, ("o_proj", "dense", "out_proj"))
    check_linear(module, [*projections, output])
    size, sinks = int(module.head_dim), isinstance(getattr(module, "sinks", None), nn.Parameter)
    named = next((pair for pair in _QUERY_NORMS if getattr(module, pair[0], None) is not None), None)
    check_weights(module, [*projections, output, *(named or ()), *(["sinks"] if sinks else [])])
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
        pair = [norm_of(module, name) for name in named]
        shapes = [getattr(module, name).weight.shape[-1] for name in named]
        wide = shapes != [size, size]
        if wide and shapes != [heads * size, shared * size]:
            raise UnknownPart
        norms = tuple(replace(norm, wide=wide) for norm in pair)
    elif getattr(module, "qk_norm", None) is not None:  # It has no weight, so it may as well come before the turn.
        same = bare_norm(module, "qk_norm", size)
        norms = same, same
    value_norm = None if getattr(module, "v_norm", None) is None else bare_norm(module, "v_norm", size)
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
    norms = (norm_of(module, "q_norm"), lender.norms[1]) if lender.norms is not None else None
    check_linear(module, ["q_proj", "o_proj"])
    check_weights(module, ["q_proj", "q_norm", "o_proj"])
    same = base_of(module.q_proj).out_features == base_of(module.o_proj).in_features == lender.heads * lender.size
    same = same and module.q_norm.weight.shape == (lender.size,) and module.scaling == lender.scale
    if norms is None or lender.value_norm is None or norms[0].kind != "rms" or not same:
        raise UnknownPart
    return replace(lender, projections=("q_proj",), norms=norms, tied=False, source=source)


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
