"""What single modules compute, as far as forms need it: linear layers, norms, and weights that have their place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from hocket.policies.forms import Kind, NormForm, normed
from hocket.policies.lora import base_of, is_adapters
from hocket.policies.rotary import UnknownPart
from hocket.policies.stored_weights import CodedLinear


def first_of(module: nn.Module, names: Iterable[str]) -> str:
    """The first of these names that a child has."""
    for name in names:
        if isinstance(getattr(module, name, None), nn.Module):
            return name
    raise UnknownPart


def weights_in(module: nn.Module) -> set[str]:
    """Names of a module's weights as without an adapter."""
    names = (name for name, _ in module.named_parameters(remove_duplicate=False) if not is_adapters(name))
    return {name.replace(".base_layer.", ".") for name in names}


def check_weights(module: nn.Module, names: Iterable[str]) -> None:
    """Every weight of a module is one of its children's of these names, or itself so called."""
    children = tuple(names)
    within = tuple(f"{child}." for child in children)
    if any(name not in children and not name.startswith(within) for name in weights_in(module)):
        raise UnknownPart


def check_linear(module: nn.Module, names: Iterable[str]) -> None:
    """The children of these names are linear layers and nothing more, in codes or not."""
    for name in names:
        if type(base_of(getattr(module, name, None))) not in (nn.Linear, CodedLinear):
            raise UnknownPart


def norm_of(parent: nn.Module, name: str, shape: tuple[int, ...] | None = None) -> NormForm:
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


def bare_norm(parent: nn.Module, name: str, size: int) -> NormForm:
    """An RMSNorm over `size` numbers that has no weight."""
    module: Any = getattr(parent, name)
    form = NormForm(name, "rms", float(module.eps))
    x = torch.randn(size, generator=torch.Generator().manual_seed(0)).mul(0.01)
    if (normed(form, module, x) - module(x)).abs().max() > 1e-4:
        raise UnknownPart
    return form
