"""What a decoder computes, layer by layer, as plain data: read from a model's configuration and checked on its modules.

A form names modules, and says how they are put together; it holds none of them. It is read by structure, so that an
architecture with another name but the same modules is read as well. Every weight must have its place in the form. An
architecture with a part that no form knows has none, and is computed by its own forward pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hocket.policies.lora import base_of, is_adapters
from hocket.policies.rotary import (
    UnknownPart,
    frequencies,
    interleaves,
    longest_static,
    static_up_to,
    table_names,
    table_of,
)

KNOWN = frozenset(
    {
        "arcee",
        "cohere",
        "cohere2",
        "cohere2_moe",
        "deepseek_v3",
        "dots1",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone4",
        "exaone_moe",
        "flex_olmo",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm",
        "glm4",
        "glm4_moe",
        "gpt_oss",
        "granite",
        "granite_swa",
        "granitemoe",
        "helium",
        "hunyuan_v1_dense",
        "hunyuan_v1_moe",
        "internlm3",
        "iquestcoder",
        "jais2",
        "llama",
        "mellum",
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "nemotron",
        "olmo",
        "olmo2",
        "olmo3",
        "olmoe",
        "phi",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "seed_oss",
        "smollm3",
        "solar_open",
        "stablelm",
        "starcoder2",
    }
)
"""Architectures whose form is tested against their own forward pass; that of any other is checked on each model."""

Kind = Literal["rms", "centred"]


@dataclass(frozen=True)
class NormForm:
    """A norm.

    Attributes:
        name: of its module. kind: RMSNorm, or LayerNorm, which takes the mean away.
        epsilon: its own.
        offset: whether the weight kept is less by one.
        wide: whether it is over all heads together, where it is one of queries or keys.
    """

    name: str
    kind: Kind
    epsilon: float
    offset: bool = False
    wide: bool = False


@dataclass(frozen=True)
class LatentForm:
    """How queries, keys and values come of narrow states (latent attention, arXiv 2405.04434).

    Attributes:
        down: to the narrow states of queries, and to those of keys and values with the part of keys that turns. Without
            narrow queries the first gives these themselves.
        query_norm, query_up: of narrow queries, if there are any. norm, up: of narrow keys and values.
        still, turning, values: numbers of a head's queries and keys that do not turn, that do, and of its values.
        rank: width of the narrow states of keys and values.
    """

    down: tuple[str, str]
    query_norm: NormForm | None
    query_up: str | None
    norm: NormForm
    up: str
    still: int
    turning: int
    values: int
    rank: int


@dataclass(frozen=True)
class AttentionForm:
    """Attention with grouped queries.

    Attributes:
        projections: queries, keys and values, or all in one. output: back to the width of the states.
        heads, shared, size: query heads, key and value heads, numbers of each. scale: of scores.
        window: how many positions a token sees, its own the last; 0 for all. cap: soft cap of scores, 0 for none.
        sinks: whether each head has one more score, whose weight goes nowhere.
        rotary: name of the table of angles, None for no positions. turned: numbers of a head that turn.
        interleaved: whether neighbours turn together, not halves.
        norms: of queries and of keys, or nothing. late: whether these follow the turn.
        clip: bound of queries, keys and values, 0 for none.
        latent: how these come of narrow states, if they do.
    """

    projections: tuple[str, ...]
    output: str
    heads: int
    shared: int
    size: int
    scale: float
    window: int = 0
    cap: float = 0.0
    sinks: bool = False
    rotary: str | None = ""
    turned: int = 0
    interleaved: bool = False
    norms: tuple[NormForm, NormForm] | None = None
    late: bool = False
    clip: float = 0.0
    latent: LatentForm | None = None

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of the linear layers before attention."""
        latent = self.latent
        if latent is None:
            return self.projections
        return (*latent.down, *(() if latent.query_up is None else (latent.query_up,)), latent.up)


@dataclass(frozen=True)
class FeedForm:
    """Feed-forward: `closing(act(gate) * up)`, or `closing(act(opening))` where nothing is gated."""

    opening: tuple[str, ...]
    closing: str
    activation: str
    gated: bool


@dataclass(frozen=True)
class ExpertsForm:
    """Routed experts, and one that every token passes, if there is one.

    Attributes:
        router, experts, shared, shared_gate: names of modules. shared_form: of the shared one.
        activation: of the experts, the name of a module of theirs; empty where they have a gate of their own.
        scores: what the router makes of its logits, normalised to 1 over the chosen experts or not, times a factor;
            None where it makes something else.
    """

    router: str
    experts: str
    activation: str
    shared: str | None = None
    shared_form: FeedForm | None = None
    shared_gate: str | None = None
    scores: Literal["softmax", "sigmoid"] | None = None
    normalised: bool = True
    factor: float = 1.0


@dataclass(frozen=True)
class LayerForm:
    """One decoder layer.

    Attributes:
        attention_name, attention, feed_name, feed: its two parts.
        norms: before and after attention, before and after feed-forward; None where there is none.
        parallel: whether both parts read the same states. residual: factor of what they add.
    """

    attention_name: str
    attention: AttentionForm
    feed_name: str
    feed: FeedForm | ExpertsForm
    norms: tuple[NormForm | None, NormForm | None, NormForm | None, NormForm | None]
    parallel: bool = False
    residual: float = 1.0

    @property
    def usual(self) -> bool:
        """RMSNorm before each part and nothing after it: what an activation cache records."""
        before, after, between, last = self.norms
        pre = before is not None and between is not None and before.kind == between.kind == "rms"
        dense = isinstance(self.feed, FeedForm) and self.attention.latent is None
        return pre and after is None and last is None and not self.parallel and dense


@dataclass(frozen=True)
class Form:
    """A whole decoder.

    Attributes:
        layers: in order. norm: the last one. embedding_scale, logit_scale, logit_cap: as they say; a cap of 0 is none.
        longest: tokens up to which angles depend on the position alone.
    """

    layers: tuple[LayerForm, ...]
    norm: NormForm
    embedding_scale: float
    logit_scale: float
    logit_cap: float
    longest: int

    @property
    def heads(self) -> int:
        return self.layers[0].attention.heads

    @property
    def shared(self) -> int:
        return self.layers[0].attention.shared

    @property
    def size(self) -> int:
        """Numbers per head."""
        return self.layers[0].attention.size

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables of angles."""
        return tuple(
            dict.fromkeys(layer.attention.rotary for layer in self.layers if layer.attention.rotary is not None)
        )

    @property
    def usual(self) -> bool:
        """Whether every layer is, see there."""
        return all(layer.usual for layer in self.layers)

    @property
    def plain(self) -> bool:
        """Whether attention knows neither bounds nor layers of different kinds, besides being usual."""
        first = self.layers[0].attention
        bounded = first.window or first.cap or first.sinks or first.late or first.clip
        halves = first.turned == first.size and not first.interleaved and first.rotary is not None
        heads = first.norms is None or all(norm.kind == "rms" and not norm.wide for norm in first.norms)
        alike = all(layer.attention == first and layer.residual == 1 for layer in self.layers)
        return self.usual and alike and halves and heads and not bounded and self.norm.kind == "rms"


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
    last = _first(trunk, ("norm", "final_layernorm"))
    _check_weights(trunk, ["embed_tokens", "layers", last])
    layers = tuple(_layer(trunk, layer, config, number) for number, layer in enumerate(inner))
    shapes = {(layer.attention.heads, layer.attention.shared, layer.attention.size) for layer in layers}
    if len(shapes) != 1 or getattr(config, "use_bidirectional_attention", False):
        raise UnknownPart
    scale = getattr(model, "logit_scale", None) or 1 / getattr(config, "logits_scaling", 1.0)
    return Form(
        layers=layers,
        norm=_norm(trunk, last),
        embedding_scale=float(getattr(config, "embedding_multiplier", 1.0)),
        logit_scale=float(scale),
        logit_cap=float(getattr(config, "final_logit_softcapping", None) or 0),
        longest=longest_static(trunk.rotary_emb, config),
    )


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


def weight_of(form: NormForm, module: Any) -> Tensor | None:
    """What a norm multiplies by."""
    weight: Tensor | None = getattr(module, "weight", None)
    return weight + 1 if weight is not None and form.offset else weight


def normed(form: NormForm, module: Any, x: Tensor) -> Tensor:
    """A norm over the last axis by torch's operators."""
    if form.kind == "centred":
        x = F.layer_norm(x, x.shape[-1:], eps=form.epsilon)
    else:
        x = F.rms_norm(x, x.shape[-1:], eps=form.epsilon)
    weight, bias = weight_of(form, module), getattr(module, "bias", None)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


# ---------------------------------------------------------------- layers

_NORMS: dict[tuple[str, ...], tuple[str | None, str | None, str | None, str | None]] = {
    ("input_layernorm", "post_attention_layernorm"): ("input_layernorm", None, "post_attention_layernorm", None),
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
    ("input_layernorm", "post_attention_layernorm", "post_mlp_layernorm", "post_self_attn_layernorm"): (
        "input_layernorm",
        "post_self_attn_layernorm",
        "post_attention_layernorm",
        "post_mlp_layernorm",
    ),
}
"""By the names of a layer's norms: which stand before and after attention, before and after feed-forward."""


def _layer(trunk: Any, layer: nn.Module, config: Any, number: int) -> LayerForm:
    attention, feed = _first(layer, ("self_attn",)), _first(layer, ("mlp", "block_sparse_moe"))
    names = tuple(sorted(name for name, child in layer.named_children() if "norm" in name and child is not None))
    places = _NORMS.get(names)
    if places is None:
        raise UnknownPart
    _check_weights(layer, [attention, feed, *names])
    norms = tuple(None if name is None else _norm(layer, name) for name in places)
    return LayerForm(
        attention_name=attention,
        attention=_attention_of(trunk, getattr(layer, attention), config, number),
        feed_name=feed,
        feed=_feed(getattr(layer, feed)),
        norms=norms,  # type: ignore[arg-type]
        parallel=len(names) == 1 or bool(getattr(layer, "use_parallel_residual", False)),
        residual=float(getattr(layer, "residual_multiplier", 1.0)),
    )


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
    rotary = table_of(trunk.rotary_emb, module, config, kind)
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
        interleaved=bool(getattr(config, "rope_interleave", False)),
        latent=form,
    )
    _linear(module, [*shape.inner, "o_proj"])
    _check_weights(module, [*shape.inner, "o_proj", *(norm.name for norm in norms)])
    turns = rotary is not None and 2 * frequencies(trunk.rotary_emb, rotary).numel() == form.turning
    if not turns or form.values > shape.size:
        raise UnknownPart
    return shape


_QUERY_NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"), ("query_layernorm", "key_layernorm"))


def _attention(trunk: Any, module: Any, config: Any, number: int) -> AttentionForm:
    joint = hasattr(module, "qkv_proj")
    projections = ("qkv_proj",) if joint else ("q_proj", "k_proj", "v_proj")
    output = _first(module, ("o_proj", "dense"))
    _linear(module, [*projections, output])
    size, sinks = int(module.head_dim), isinstance(getattr(module, "sinks", None), nn.Parameter)
    named = next((pair for pair in _QUERY_NORMS if getattr(module, pair[0], None) is not None), None)
    _check_weights(module, [*projections, output, *(named or ()), *(["sinks"] if sinks else [])])
    heads = base_of(getattr(module, output)).in_features // size
    widths = [base_of(getattr(module, name)).out_features for name in projections]
    shared = (widths[0] // size - heads) // 2 if joint else widths[1] // size
    if sum(widths) != (heads + 2 * shared) * size or heads % max(shared, 1):
        raise UnknownPart
    kind = _layer_type(config, number)
    rotary = table_of(trunk.rotary_emb, module, config, kind)
    turned = 2 * frequencies(trunk.rotary_emb, rotary or next(iter(table_names(trunk.rotary_emb)), "")).numel()
    interleaved, late = interleaves(module), named == _QUERY_NORMS[2]
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
    )


_ROUTERS = ("gate", "router")
_SHARED = ("shared_expert", "shared_experts", "shared_mlp")


def _feed(module: Any) -> FeedForm | ExpertsForm:
    return _experts(module) if isinstance(getattr(module, "experts", None), nn.Module) else _dense(module)


def _experts(module: Any) -> ExpertsForm:
    router, experts = _first(module, _ROUTERS), module.experts
    names = {"gate_up_proj", "down_proj"} | (
        {"gate_up_proj_bias", "down_proj_bias"} if _flag(experts, "has_bias") else set()
    )
    plain = _flag(experts, "has_gate") and not _flag(experts, "has_post_expert_norm")
    if _weights(experts) != names or not plain:
        raise UnknownPart
    shared = next((name for name in _SHARED if getattr(module, name, None) is not None), None)
    gate = "shared_expert_gate" if hasattr(module, "shared_expert_gate") else None
    _check_weights(module, [router, "experts", *(name for name in (shared, gate) if name is not None)])
    weight = experts.down_proj
    if weight.is_meta or not weight.numel():
        raise UnknownPart
    width = weight.shape[2 if _flag(experts, "is_transposed") else 1]
    probe = torch.randn(16, width, generator=torch.Generator().manual_seed(0)).to(weight.device, weight.dtype)
    routed = getattr(module, router)(probe)
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
        factor=float(getattr(getattr(module, router), "routed_scaling_factor", 1.0)),
    )
    logits, due, chosen = (part.double() if part.is_floating_point() else part for part in routed)
    for scores in _SCORES:
        for normalised in (True, False):
            tried = replace(form, scores=scores, normalised=normalised)
            if (routing_weights(tried, logits, chosen) - due).abs().max() < 1e-2:
                return tried
    return form


_SCORES: tuple[Literal["softmax", "sigmoid"], ...] = ("softmax", "sigmoid")


def routing_weights(form: ExpertsForm, logits: Tensor, chosen: Tensor) -> Tensor:
    """Weights `[M, K]` of chosen experts, of a router's logits `[M, E]`; each row's bits depend on that row alone."""
    if form.scores == "sigmoid":
        scores = torch.softmax(torch.stack((logits, torch.zeros_like(logits)), -1), -1)[..., 0]
    else:
        scores = torch.softmax(logits, -1)
    weight = scores.gather(1, chosen)
    if form.normalised:
        total = weight[:, :1]
        for place in range(1, weight.shape[1]):
            total = total + weight[:, place, None]
        weight = weight / total
    return weight if form.factor == 1 else weight * form.factor


def _flag(module: Any, name: str) -> bool:
    flag = getattr(module, name, None)
    if not isinstance(flag, bool):
        raise UnknownPart
    return flag


def _dense(module: Any) -> FeedForm:
    for opening, closing, gated in (
        (("gate_proj", "up_proj"), "down_proj", True),
        (("gate_up_proj",), "down_proj", True),
        (("up_proj",), "down_proj", False),
        (("fc1",), "fc2", False),
        (("c_fc",), "c_proj", False),
    ):
        if all(isinstance(getattr(module, name, None), nn.Module) for name in (*opening, closing)):
            _linear(module, [*opening, closing])
            _check_weights(module, [*opening, closing])
            return FeedForm(opening, closing, _first(module, ("act_fn", "activation_fn", "act")), gated)
    raise UnknownPart


def _layer_type(config: Any, number: int) -> str | None:
    kinds = getattr(config, "layer_types", None)
    kind = None if kinds is None else kinds[number]
    if kind not in (None, "full_attention", "sliding_attention"):
        raise UnknownPart
    return kind


def _window(trunk: Any, config: Any, kind: str | None) -> int:
    """Configurations without kinds of layers mean all of them, if the architecture has windows at all."""
    window = getattr(config, "sliding_window", None)
    if kind is not None:
        return int(window) if window and kind == "sliding_attention" else 0
    slides = hasattr(sys.modules[type(trunk).__module__], "create_sliding_window_causal_mask")
    return int(window) if window and slides and getattr(config, "use_sliding_window", True) else 0


# ---------------------------------------------------------------- what they hold


def turn_order(form: AttentionForm) -> list[int] | None:
    """Which number of a head goes where, so that halves turn; those that do not turn stand in both. None as it is."""
    rest, half = list(range(form.turned, form.size)), form.turned // 2
    pairs = [(2 * i, 2 * i + 1) if form.interleaved else (i, half + i) for i in range(half)]
    middle = len(rest) // 2
    order = [pair[0] for pair in pairs] + rest[:middle] + [pair[1] for pair in pairs] + rest[middle:]
    return None if order == list(range(form.size)) else order


def expected(config: Any) -> bool:
    """Whether a model of this configuration will have a form that serves its whole context, as far as that shows."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [table for table in parameters.values() if isinstance(table, dict)] or [parameters]
    longest = min(static_up_to(table.get("rope_type", "default"), config) for table in nested)
    return config.model_type in KNOWN and longest >= (getattr(config, "max_position_embeddings", None) or 0)


def linears_of(form: LayerForm) -> set[str]:
    """Names of the linear layers that a layer's form knows, within it."""
    names = {f"{form.attention_name}.{name}" for name in (*form.attention.inner, form.attention.output)}
    feed = form.feed
    dense = feed if isinstance(feed, FeedForm) else feed.shared_form
    within = form.feed_name if isinstance(feed, FeedForm) else f"{form.feed_name}.{feed.shared}"
    names |= set() if dense is None else {f"{within}.{name}" for name in (*dense.opening, dense.closing)}
    gate = None if isinstance(feed, FeedForm) else feed.shared_gate
    return names if gate is None else names | {f"{form.feed_name}.{gate}"}


def layers_in(model: Any) -> Iterator[tuple[Any, LayerForm]]:
    """A model's layers, each with its form."""
    return zip(model.model.layers, known_form(model).layers, strict=True)
