"""Reads the feed-forward part of a layer: dense, or routed experts."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from hocket.policies.forms import ExpertNorms, ExpertsForm, FeedForm, routing_weights
from hocket.policies.module_reading import bare_norm, check_linear, check_weights, first_of, norm_of, weights_in
from hocket.policies.rotary import UnknownPart

_ROUTERS = ("gate", "router")
_SHARED = ("shared_expert", "shared_experts", "shared_mlp")


def feed_of(module: Any, beside: Any) -> FeedForm | ExpertsForm:
    """Of a feed-forward module, and of a dense part that stands beside it or None."""
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
    router, experts = first_of(module, _ROUTERS), module.experts
    if not hasattr(experts, "has_gate"):
        return _scaled_before(module, router)
    names = {"gate_up_proj", "down_proj"} | (
        {"gate_up_proj_bias", "down_proj_bias"} if _flag(experts, "has_bias") else set()
    )
    plain = _flag(experts, "has_gate") and not _flag(experts, "has_post_expert_norm")
    if weights_in(experts) != names or not plain:
        raise UnknownPart
    shared = next((name for name in _SHARED if getattr(module, name, None) is not None), None)
    gate = "shared_expert_gate" if hasattr(module, "shared_expert_gate") else None
    bias = _handed_bias(module, getattr(module, router))
    check_weights(module, [router, "experts", *(name for name in (shared, gate, bias) if name is not None)])
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
    if weights_in(experts) != {"gate_up_proj", "down_proj"} or weights_in(linear) != {"weight"}:
        raise UnknownPart
    check_weights(module, [router, "experts", "shared_expert"])
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


def experts_apart(layer: Any) -> ExpertsForm | None:
    """Experts that a layer holds beside a dense part, with norms of their own (Gemma 4's)."""
    if not isinstance(getattr(layer, "experts", None), nn.Module):
        return None
    router, experts = layer.router, layer.experts
    check_linear(router, ["proj"])
    check_weights(router, ["proj", "scale", "per_expert_scale"])
    places = ("pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2")
    norms = [norm_of(layer, name) for name in places]
    first = norm_of(layer, "pre_feedforward_layernorm")
    bare = bare_norm(router, "norm", router.hidden_size)
    same = {norm.kind for norm in (*norms, first)} == {"rms"} and first.epsilon == norms[0].epsilon == bare.epsilon
    if not same or router.proj.bias is not None or weights_in(experts) != {"gate_up_proj", "down_proj"}:
        raise UnknownPart
    return ExpertsForm(
        router="router",
        experts="experts",
        activation="act_fn",
        shared="mlp",
        shared_form=_dense(layer.mlp),
        scores="softmax",
        beside=True,
        apart=ExpertNorms(*norms),
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
            activation = "" if bare else first_of(module, ("act_fn", "activation_fn", "act", "activation"))
            check_linear(module, [*opening, closing])
            check_weights(module, [*opening, closing, *([] if gated else [activation])])
            return FeedForm(opening, closing, activation, gated)
    raise UnknownPart
