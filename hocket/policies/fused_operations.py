"""Operations of a decoder layer with backward passes by hand: fewer passes over memory than one by one.

Each equals the usual composition of elementary operations to the rounding of its types. They are differentiable once.
A column of `hocket.policies.operations` computes them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies import kernels
from hocket.policies.operations import COMPILED, functions_for, plain
from hocket.policies.operations.table import Functions


def by_kernels(x: Tensor) -> bool:
    """Whether the kernels in C++ compute on such a tensor here."""
    return functions_for(x) is COMPILED.functions()


# ---------------------------------------------------------------- norms


class _AddNorm(Function):
    @staticmethod
    def forward(
        ctx: Any, functions: Functions, x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        sums, normal, inverse = functions.add_norm(x, delta, epsilon, dtype)
        ctx.save_for_backward(normal, inverse)
        ctx.functions, ctx.delta = functions, delta is not None
        ctx.set_materialize_grads(False)
        return (x.view_as(x) if delta is None else sums), normal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, more: Tensor | None, gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        normal, inverse = ctx.saved_tensors
        if gradient is None:
            return None, more, None if more is None or not ctx.delta else more.to(normal.dtype), None, None
        functions: Functions = ctx.functions
        return None, *functions.add_norm_backward(gradient, normal, inverse, more, delta=ctx.delta), None, None


def add_norm(x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`x + delta`, and that sum normalised in `dtype`; `x` `[M, H]` fp32 (or fp64), `delta` of `dtype` or None.

    Normalised is x / sqrt(mean(x^2) + epsilon): RMSNorm without its weight (Zhang & Sennrich 2019, eq. 4).
    """
    functions = plain if x.dtype is torch.bfloat16 else functions_for(x)
    normed: tuple[Tensor, Tensor]
    if torch.is_grad_enabled():
        normed = _AddNorm.apply(functions, x, delta, epsilon, dtype)  # type: ignore[no-untyped-call]
    else:
        normed = functions.add_norm(x, delta, epsilon, dtype)[:2]
    return normed


# ---------------------------------------------------------------- gate


class _Gate(Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor, opening: kernels.Opening) -> Tensor:
        ctx.save_for_backward(gate_up)
        ctx.opening = opening
        return functions_for(gate_up).gate(gate_up, opening)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (gate_up,) = ctx.saved_tensors
        return functions_for(gate_up).gate_backward(gradient, gate_up, ctx.opening), None


def _gated(gate_up: Tensor, opening: kernels.Opening) -> Tensor:
    if torch.is_grad_enabled():
        fed: Tensor = _Gate.apply(gate_up, opening)  # type: ignore[no-untyped-call]
        return fed
    return functions_for(gate_up).gate(gate_up, opening)


def gated_silu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up of `[M, 2 F]` (SwiGLU: Shazeer 2020)."""
    return _gated(gate_up, "silu")


def gated_gelu(gate_up: Tensor) -> Tensor:
    """gelu(gate) * up of `[M, 2 F]`, gelu by its tangent (GeGLU)."""
    return _gated(gate_up, "gelu")


def gated_sigmoid(gate_up: Tensor) -> Tensor:
    """sigmoid(gate) * up of `[M, 2 F]`."""
    return _gated(gate_up, "sigmoid")


OPENINGS: dict[Any, kernels.Opening] = {gated_silu: "silu", gated_gelu: "gelu"}
"""What opens a gate, by the function that is the gate."""

# ---------------------------------------------------------------- products

ALIKE = 16
"""From so many rows on (four in truth) a product gives each row the same bits, however many there are."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b `[.., N]`; each row's result depends on that row alone, to the last bit."""
    rows = x.numel() // x.shape[-1]
    if weight.shape[0] == 1:  # With one column a row has other bits in other company.
        bias = None if bias is None else bias.expand(ALIKE)
        return product(x, weight.expand(ALIKE, -1), bias)[..., :1].contiguous()
    if rows >= ALIKE or x.device.type != "cpu":
        return F.linear(x, weight, bias)
    flat = F.pad(x.reshape(rows, -1), (0, 0, 0, ALIKE - rows))
    return F.linear(flat, weight, bias)[:rows].view(*x.shape[:-1], -1)


class _KnownProduct(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return out.view_as(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        for_bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
        return gradient @ weight, gradient.t() @ x, for_bias, None


def known_product(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """x W^T + b where its value `out` `[M, N]` is known already; gradients as ever."""
    product: Tensor = _KnownProduct.apply(x, weight, bias, out)  # type: ignore[no-untyped-call]
    return product


class _Prepare(Function):
    @staticmethod
    def forward(ctx: Any, scale: Tensor | None, dtype: torch.dtype, *weights: Tensor) -> Tensor:
        first = weights[0]
        joined = first.new_empty(sum(len(weight) for weight in weights), first.shape[1], dtype=dtype)
        for weight, into in zip(weights, torch.split(joined, [len(weight) for weight in weights]), strict=True):
            into.copy_(weight if scale is None else weight * scale)
        ctx.save_for_backward(scale, *weights)
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scale, *weights = ctx.saved_tensors
        parts = [part.to(weights[0].dtype) for part in torch.split(gradient, [len(weight) for weight in weights])]
        if scale is None:
            return None, None, *parts
        for_scale = torch.stack([(part * weight).sum(0) for part, weight in zip(parts, weights, strict=True)]).sum(0)
        return for_scale, None, *(part * scale for part in parts)


def prepared(weights: list[Tensor], scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Weights `[N_i, H]` joined into one matrix `[sum N_i, H]`, columns multiplied by `scale` `[H]`, in `dtype`.

    Gradients reach the weights in their own type; no other copy of them is kept.
    """
    joined: Tensor = _Prepare.apply(scale, dtype, *weights)  # type: ignore[no-untyped-call]
    return joined
