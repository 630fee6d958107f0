"""Operations of a decoder layer with backward passes by hand: fewer passes over memory than one by one.

Each equals the usual composition of elementary operations to float rounding. They are differentiable once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def scale_down(x: Tensor, epsilon: float) -> Tensor:
    """1 / RMS(x) over the last axis, `[.., 1]`."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return length.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()


def normalise_backward(gradient: Tensor, normal: Tensor, inverse: Tensor) -> Tensor:
    """dL/dx of `normal = x * inverse`, where `inverse = 1 / RMS(x)`."""
    along = torch.linalg.vecdot(gradient, normal).unsqueeze_(-1)
    return torch.addcmul(gradient, normal, along, value=-1 / normal.shape[-1]).mul_(inverse)


class _Normalise(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, epsilon: float) -> Tensor:
        inverse = scale_down(x, epsilon)
        normal = x * inverse
        ctx.save_for_backward(normal, inverse)
        return normal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return normalise_backward(gradient, *ctx.saved_tensors), None


def normalise(x: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) over the last axis: RMSNorm without its weight (Zhang & Sennrich 2019, eq. 4)."""
    normal: Tensor = _Normalise.apply(x, epsilon)  # type: ignore[no-untyped-call]
    return normal


class _Gate(Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, -1)
        opened = F.silu(gate)
        ctx.save_for_backward(gate_up, opened)
        return opened * up

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gate_up, opened = ctx.saved_tensors
        gate, up = gate_up.chunk(2, -1)
        found = torch.empty_like(gate_up)
        for_gate, for_up = found.chunk(2, -1)
        torch.mul(gradient, opened, out=for_up)
        torch.ops.aten.silu_backward.grad_input(gradient * up, gate, grad_input=for_gate)
        return found


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) * up of `[.., 2 F]` (SwiGLU: Shazeer 2020)."""
    if torch.is_grad_enabled():
        fed: Tensor = _Gate.apply(gate_up)  # type: ignore[no-untyped-call]
        return fed
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate).mul_(up)


class _HalfPrecisionLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, half: Tensor) -> Tensor:
        given = x.to(torch.bfloat16)
        ctx.save_for_backward(given, half)
        return F.linear(given, half).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        given, half = ctx.saved_tensors
        out = gradient.to(torch.bfloat16)
        for_x = (out @ half).to(gradient.dtype) if ctx.needs_input_grad[0] else None
        for_weight = None
        if ctx.needs_input_grad[1]:
            for_weight = (out.flatten(0, -2).t() @ given.flatten(0, -2)).to(gradient.dtype)
        return for_x, for_weight, None


def half_precision_linear(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """x -> x W^T + b with the product in bf16, sums in fp32, for fp32 x, W and b.

    Weights are rounded once, here; gradients reach the fp32 weight.
    """
    half = weight.detach().to(torch.bfloat16)

    def apply(x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            out: Tensor = _HalfPrecisionLinear.apply(x, weight, half)  # type: ignore[no-untyped-call]
        else:
            out = F.linear(x.to(torch.bfloat16), half).to(x.dtype)
        return out if bias is None else out + bias

    return apply
