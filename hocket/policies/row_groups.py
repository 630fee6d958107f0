"""Products of groups of rows, each by a weight of its group: what routed experts compute.

Rows are sorted by group; a group without rows costs nothing. On processors in fp32 a call makes all products of a kind,
elsewhere one follows the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies.fused_operations import OPENINGS, by_kernels, product
from hocket.policies.kernels import products
from hocket.policies.kernels.products import SortedChoices

Map = Callable[[Tensor], Tensor]


def sorted_choices(chosen: Tensor, groups: int) -> SortedChoices:
    """Of `chosen` `[M, K]`, each of `groups`."""
    if by_kernels(chosen.new_empty(0, dtype=torch.float32)):
        return products.sorted_choices(chosen.contiguous(), groups)
    order = torch.argsort(chosen.flatten(), stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    counts = torch.bincount(chosen.flatten(), minlength=groups)
    start = torch.cat((counts.new_zeros(1), counts.cumsum(0))).cpu()
    return SortedChoices(place.view(chosen.shape), order // chosen.shape[1], start)


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None, start: Tensor, *, across: bool = False) -> Tensor:
    """`x W^T + b` of sorted rows `[P, K]`; weights `[E, N, K]`, or `[E, K, N]` when they lie across.

    Each row's result depends on that row alone, to the last bit.
    """
    if products.multiplies(x, weight):
        return products.grouped_linear(x, weight.contiguous(), bias, start, across=across)
    parts = [
        product(x[rows], weight[group].t() if across else weight[group], None if bias is None else bias[group])
        for group, rows in _spans(start)
    ]
    return torch.cat(parts) if parts else x.new_empty(0, weight.shape[2 if across else 1])


def grouped_outer(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """Per group the sum of `a^T b` over its rows, `[E, N, K]`."""
    if products.multiplies(a, b):
        return products.grouped_outer(a, b, start)
    out = a.new_zeros(len(start) - 1, a.shape[1], b.shape[1])
    for group, rows in _spans(start):
        torch.mm(a[rows].t(), b[rows], out=out[group])
    return out


def _spans(start: Tensor) -> list[tuple[int, slice]]:
    """The groups that have rows, and these."""
    ends = start.tolist()
    spans = [slice(*ends[group : group + 2]) for group in range(len(ends) - 1)]
    return [(group, rows) for group, rows in enumerate(spans) if rows.stop > rows.start]


def sum_places(x: Tensor, place: Tensor, share: Tensor | None) -> Tensor:
    """`sum_k share[m, k] x[place[m, k]]` `[M, H]`, from the first k to the last."""
    if by_kernels(x):
        return products.sum_places(x, place, None if share is None else share.float().contiguous())
    total = torch.zeros_like(x[: len(place)]) if len(x) >= len(place) else x.new_zeros(len(place), x.shape[1])
    for number in range(place.shape[1]):
        part = x.index_select(0, place[:, number])
        total = total + (part if share is None else part * share[:, number, None].to(x.dtype))
    return total


def _dot_rows(a: Tensor, b: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Products of rows, `[P]`, and b with each row times its share."""
    if by_kernels(a):
        return products.dot_rows(a, b, share.float())
    return (a * b).sum(1), b * share[:, None].to(b.dtype)


class _Routed(Function):
    """Keeps only what the first products give; the backward pass makes the rest again, row by row."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        share: Tensor,
        opening: Tensor,
        opening_bias: Tensor | None,
        closing: Tensor,
        closing_bias: Tensor | None,
        choices: SortedChoices,
        gate: Map,
        across: bool,
    ) -> Tensor:
        rows = x.index_select(0, choices.row)
        opened = grouped_linear(rows, opening, opening_bias, choices.start, across=across)
        ctx.save_for_backward(x, share, opening, closing, closing_bias, opened, *choices)
        ctx.gate, ctx.across = gate, across
        out = grouped_linear(gate(opened), closing, closing_bias, choices.start, across=across)
        return sum_places(out, choices.place, share)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, share, opening, closing, closing_bias, opened, place, row, start = ctx.saved_tensors
        across = ctx.across
        ordered = torch.empty_like(share).view(-1).index_copy_(0, place.view(-1).long(), share.reshape(-1))
        gradient = gradient.to(x.dtype).index_select(0, row)

        def for_weight(wanted: bool, a: Tensor, b: Tensor) -> Tensor | None:
            return grouped_outer(*((b, a) if across else (a, b)), start) if wanted else None

        def for_bias(wanted: bool, a: Tensor) -> Tensor | None:
            return grouped_outer(a, a.new_ones(len(a), 1), start)[..., 0] if wanted else None

        with torch.enable_grad():
            leaf = opened.detach().requires_grad_()
            gated = ctx.gate(leaf)
        result = grouped_linear(gradient, closing, None, start, across=not across)
        dots, result = _dot_rows(gated.detach(), result, ordered)
        if closing_bias is not None:
            dots = dots + (gradient * closing_bias.repeat_interleave(start.diff().to(x.device), 0)).sum(1)
        shared = gated.detach() * ordered[:, None].to(x.dtype)
        for_closing = for_weight(ctx.needs_input_grad[4], gradient, shared)
        for_closing_bias = for_bias(ctx.needs_input_grad[5], gradient * ordered[:, None].to(x.dtype))
        (result,) = torch.autograd.grad(gated, leaf, result)
        for_opening = for_weight(ctx.needs_input_grad[2], result, x.index_select(0, row))
        for_opening_bias = for_bias(ctx.needs_input_grad[3], result)
        for_x = sum_places(grouped_linear(result, opening, None, start, across=not across), place, None)
        for_share = dots.to(share.dtype)[place.view(-1).long()].view(share.shape)
        return for_x, for_share, for_opening, for_opening_bias, for_closing, for_closing_bias, None, None, None


def routed(
    x: Tensor,
    share: Tensor,
    opening: tuple[Tensor, Tensor | None],
    closing: tuple[Tensor, Tensor | None],
    chosen: Tensor,
    gate: Map,
    *,
    across: bool,
) -> Tensor:
    """What experts `chosen` `[M, K]` make of states `[M, H]`, weighed by `share` `[M, K]` and added, `[M, H]`.

    Args:
        opening, closing: weights `[E, 2 F, H]` and `[E, H, F]`, the last two axes exchanged when they lie `across`,
            and biases `[E, 2 F]` and `[E, H]`. gate: from `[.., 2 F]` to `[.., F]`.
    """
    kind = OPENINGS.get(gate)
    weights = opening[0].contiguous(), closing[0].contiguous()
    if kind is not None and not torch.is_grad_enabled() and products.multiplies(x, share, *weights):
        pairs = (weights[0], opening[1]), (weights[1], closing[1])
        return products.routed(x.contiguous(), chosen.contiguous(), share.contiguous(), *pairs, kind, across=across)
    choices = sorted_choices(chosen, len(opening[0]))
    result: Tensor = _Routed.apply(x, share, *opening, *closing, choices, gate, across)  # type: ignore[no-untyped-call]
    return result
