"""Mixture of experts: a router sends each token to a few experts, whose outputs are weighed and added.

The router is the architecture's own module. Experts are computed one by one over the tokens sent to them; each token's
result depends on that token alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.forms import ExpertsForm, routing_weights
from hocket.policies.fused_operations import ALIKE, gated_silu, product

Map = Callable[[Tensor], Tensor]


class Routing(NamedTuple):
    """A router's logits `[M, E]`, and the experts it chose with their weights, `[M, K]`."""

    logits: Tensor
    weight: Tensor
    chosen: Tensor


class Experts:
    """The routed experts of one layer.

    Args:
        router: from states `[M, H]` to logits, weights `[M, K]` and experts `[M, K]`.
        module: the experts' weights, `[E, 2 F, H]` and `[E, H, F]`, or transposed. gate: from gate and up to `[.., F]`.
        scale: the weight of the norm before, or None. dtype: what to multiply in.

    Attributes:
        copies: what was made of the weights.
    """

    def __init__(
        self, form: ExpertsForm, router: Any, module: Any, gate: Map, scale: Tensor | None, dtype: torch.dtype
    ) -> None:
        self._form, self._router, self._gate, self._scale = form, router, gate, scale
        self._transposed = bool(getattr(module, "is_transposed", True))
        weights = module.gate_up_proj.to(dtype), module.down_proj.to(dtype)
        biased = bool(getattr(module, "has_bias", False))
        biases = [getattr(module, f"{name}_bias").to(dtype) if biased else None for name in _WEIGHTS]
        # Taken apart once: the backward pass then makes one gradient of all experts.
        self._into, self._back = (
            _Products(weight.unbind(), None if bias is None else bias.unbind())
            for weight, bias in zip(weights, biases, strict=True)
        )
        self.copies = [] if weights[0] is module.gate_up_proj else [*weights]
        self._dtype, self._own = dtype, module.gate_up_proj.dtype

    def __call__(self, normal: Tensor, routed: Callable[[Routing], Routing]) -> Tensor:
        """`[M, H]` of normalised states `[M, H]`; `routed` may send tokens elsewhere."""
        x = normal.to(self._own)
        x = x if self._scale is None else x * self._scale
        _, weight, chosen = routed(self.route(x))
        rows, count = chosen.shape
        order = torch.argsort(chosen.flatten(), stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=len(self._into.weights)).tolist()
        weight = weight.to(self._dtype)
        chosen_rows = x.to(self._dtype).index_select(0, order // count)
        if self._form.before:
            chosen_rows = chosen_rows * weight.flatten()[order, None]
            weight = torch.ones_like(weight)
        parts = torch.split(chosen_rows, counts)
        outputs = torch.cat([self._expert(number, part) for number, part in enumerate(parts) if len(part)])
        each = outputs.index_select(0, torch.argsort(order)).view(rows, count, -1)
        total = each[:, 0] * weight[:, :1]
        for place in range(1, count):
            total = total + each[:, place] * weight[:, place, None]
        return total

    def route(self, x: Tensor) -> Routing:
        """Where states `[M, H]` go, experts in rising order."""
        rows = len(x)
        # In whole registers torch's sigmoid gives an element the same bits wherever it stands.
        wide = F.pad(x, (0, 0, 0, -rows % ALIKE))
        if self._form.before:
            logits = self._router(wide)[1]
            weight, chosen = logits.topk(self._router.top_k, -1)
        else:
            logits, weight, chosen = self._router(wide)
        logits, (chosen, order) = logits[:rows], chosen[:rows].sort(-1)
        if self._form.scores is None:
            return Routing(logits, weight[:rows].gather(1, order), chosen)
        return Routing(logits, routing_weights(self._form, logits, chosen), chosen)

    def _expert(self, number: int, x: Tensor) -> Tensor:
        for place, products in enumerate((self._into, self._back)):
            weight = products.weights[number]
            bias = None if products.biases is None else products.biases[number]
            x = product(x, weight.t() if self._transposed else weight, bias)
            x = x if place else self._gate(x)
        return x


class _Products(NamedTuple):
    """Weights of all experts, and their biases if there are any."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...] | None


_WEIGHTS = ("gate_up_proj", "down_proj")


def rowwise_sigmoid(x: Tensor) -> Tensor:
    """Of `[M, 1]`; each row's bits depend on that row alone, as torch's own do not."""
    return torch.softmax(F.pad(x, (0, 1)), -1)[..., :1]


def expert_gate(module: Any) -> Map:
    """Experts' own gate: that of gpt-oss by the kernels, any other as it is."""
    alpha, limit = getattr(module, "alpha", None), getattr(module, "limit", None)
    theirs: Map = module._apply_gate
    if alpha is None or limit is None:
        return theirs

    def gate(gate_up: Tensor) -> Tensor:
        opened, up = gate_up[..., ::2].clamp(max=limit), gate_up[..., 1::2].clamp(-limit, limit)
        return gated_silu(torch.cat((opened * alpha, (up + 1) * (1 / alpha)), -1))

    probe = torch.linspace(-2 * limit, 2 * limit, 12)[None]
    return gate if gate(probe).allclose(theirs(probe), atol=1e-4) else theirs
