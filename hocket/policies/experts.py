"""Mixture of experts: a router sends each token to a few experts, whose outputs are weighed and added.

The router is the architecture's own module. Tokens are sorted by expert, and each expert multiplies those sent to it; a
token's result depends on that token alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.forms import ExpertsForm, routing_weights
from hocket.policies.fused_operations import ALIKE, gated_silu
from hocket.policies.row_groups import Map, routed


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
        factors: of each expert's output, `[E]`, beside its weight; None for none.
    """

    factors: Tensor | None = None

    def __init__(
        self, form: ExpertsForm, router: Any, module: Any, gate: Map, scale: Tensor | None, dtype: torch.dtype
    ) -> None:
        self._form, self._router, self._gate, self._scale = form, router, gate, scale
        self._transposed = bool(getattr(module, "is_transposed", True))
        weights = module.gate_up_proj.to(dtype), module.down_proj.to(dtype)
        biased = bool(getattr(module, "has_bias", False))
        biases = [getattr(module, f"{name}_bias").to(dtype) if biased else None for name in _WEIGHTS]
        self._opening, self._closing = zip(weights, biases, strict=True)
        self.copies = [] if weights[0] is module.gate_up_proj else [*weights]
        self._dtype, self._own = dtype, module.gate_up_proj.dtype

    def __call__(self, normal: Tensor, reroute: Callable[[Routing], Routing], live: int | None = None) -> Tensor:
        """`[M, H]` of normalised states `[M, H]`; `reroute` may send tokens elsewhere.

        Rows behind the first `live` ones only fill a place: no expert is read for them, and they are zeros.
        """
        bare = normal.to(self._own)
        x = bare if self._scale is None else bare * self._scale
        rows = len(x)
        _, weight, chosen = reroute(self.route(x if self._form.apart is None else bare))
        weight = weight if self.factors is None else weight * self.factors[chosen]
        if live is not None and live < rows:
            x, weight, chosen = x[:live], weight[:live], chosen[:live]
        states, shape = x.to(self._dtype), chosen.shape
        if self._form.before:  # Each choice reads the state times its own weight.
            states = (states[:, None] * weight[..., None].to(self._dtype)).flatten(0, 1)
            weight, chosen = torch.ones_like(weight).view(-1, 1), chosen.reshape(-1, 1)
        total = routed(states, weight, self._opening, self._closing, chosen, self._gate, across=self._transposed)
        total = total.view(*shape, -1).sum(1) if self._form.before else total
        return total if len(total) == rows else F.pad(total, (0, 0, 0, rows - len(total)))

    def route(self, x: Tensor) -> Routing:
        """Where states `[M, H]` go, experts in rising order."""
        rows = len(x)
        # In whole registers torch's sigmoid gives an element the same bits wherever it stands.
        wide = F.pad(x, (0, 0, 0, -rows % ALIKE)) if rows % ALIKE else x
        if self._form.before:
            logits = self._router(wide)[1]
            weight, chosen = logits.topk(self._router.top_k, -1)
        else:
            logits, weight, chosen = self._router(wide)
        logits, (chosen, order) = logits[:rows], chosen[:rows].sort(-1)
        if self._form.scores is None:
            return Routing(logits, weight[:rows].gather(1, order), chosen)
        return Routing(logits, routing_weights(self._form, logits, chosen), chosen)


def best_of(logits: Map, count: int, dtype: torch.dtype, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of states, which are multiplied in `dtype`, with the `count` best experts and their softmax scores."""
    made = logits(x.to(dtype))
    made = made if made.dtype is torch.float64 else made.float()
    return made, *torch.softmax(made, -1).topk(count, -1)


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
