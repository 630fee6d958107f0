"""What is done to queries and keys besides the usual norm and turn, and the tables of angles.

Kernels turn the two halves of a head. Where an architecture turns neighbours, or a part of a head, numbers change place
first: scores are sums over a head, so that they stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies.form_reading import known_form
from hocket.policies.forms import AttentionForm, NormForm, turn_order, weight_of
from hocket.policies.fused_operations import add_norm
from hocket.policies.rotary import pair_angles, rotary_of

Angles = tuple[Tensor, Tensor]
"""Cosines, and sines with the sign of the rotated half, `[S, D]`."""
Tables = Mapping[str | None, Angles]
"""By name; that of None turns nothing."""
TurnOf = Callable[[], Angles]
"""The angles of the tokens at hand, `[M, D]`."""


def angle_tables(model: Any, positions: int) -> dict[str | None, Angles]:
    """All tables of a model for positions below `positions`."""
    form, device, dtype = known_form(model), model.device, model.dtype
    tables: dict[str | None, Angles] = {}
    for name, size in form.tables.items():
        cosine, sine = pair_angles(rotary_of(model.model), name, positions, device, dtype)
        spare = size // 2 - cosine.shape[1]
        cosine, sine = F.pad(cosine, (0, spare), value=1.0), F.pad(sine, (0, spare))
        tables[name] = torch.cat((cosine, cosine), -1), torch.cat((-sine, sine), -1)
    if any(layer.attention.rotary is None or layer.attention.late for layer in form.layers):
        still = torch.ones(positions, form.shapes[0][2], dtype=dtype, device=device)
        tables[None] = still, torch.zeros_like(still)
    return tables


class _Moved(Function):
    """Numbers of rows in another order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return x.index_select(-1, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (back,) = ctx.saved_tensors
        return gradient.index_select(-1, back), None, None


def moved_heads(form: AttentionForm, weight: Tensor) -> Tensor:
    """Numbers `[.., D]` of heads where kernels look for them."""
    order = turn_order(form) if form.rotary is not None else None
    return weight if order is None else weight[..., torch.tensor(order, device=weight.device)]


class QueryShaping:
    """ScoreBounds, norms that are not RMSNorm of each head before its turn, and numbers in another order.

    Args:
        module: attention's own.
    """

    def __init__(self, form: AttentionForm, module: Any) -> None:
        self._form = form
        self._norms = (
            [] if form.norms is None or by_head(form) else [(norm, getattr(module, norm.name)) for norm in form.norms]
        )
        self._order: Tensor | None = None
        order = turn_order(form) if form.rotary is not None else None
        if order is not None:
            turning = form.heads + form.shared
            heads = torch.arange(turning)[:, None] * form.size + torch.tensor(order)
            values = torch.arange(turning * form.size, (turning + form.shared) * form.size)
            self._order = torch.cat((heads.flatten(), values))
            self._back = torch.argsort(self._order)

    def __call__(self, qkv: Tensor, turn: TurnOf) -> Tensor:
        """`[M, (H + 2 S) D]` of its kind; `turn` is asked where norms follow the turn."""
        form = self._form
        if form.clip:
            qkv = qkv.clamp(-form.clip, form.clip)
        if self._norms:
            wide = qkv if qkv.dtype is torch.float64 else qkv.float()
            parts = torch.split(wide, [form.heads * form.size, form.shared * form.size, form.shared * form.size], -1)
            normal = [self._normal(*norm, x, turn) for norm, x in zip(self._norms, parts, strict=False)]
            qkv = torch.cat((*normal, parts[2]), -1).to(qkv.dtype)
        if self._order is not None:
            if self._order.device != qkv.device:
                self._order, self._back = self._order.to(qkv.device), self._back.to(qkv.device)
            qkv = _Moved.apply(qkv, self._order, self._back)  # type: ignore[no-untyped-call]
        return qkv

    def _normal(self, norm: NormForm, module: Any, x: Tensor, turn: TurnOf) -> Tensor:
        """Queries or keys `[M, heads * D]` after their norm."""
        shape, size = x.shape, self._form.size
        if not norm.wide:
            x = x.reshape(len(x), -1, size)
        if self._form.late:
            cosine, sine = turn()
            x = x * cosine[:, None] + x.roll(size // 2, -1) * sine[:, None]
        if norm.kind == "centred":
            x = F.layer_norm(x, x.shape[-1:], eps=norm.epsilon)
        else:
            x = add_norm(x.reshape(-1, x.shape[-1]), None, norm.epsilon, x.dtype)[1].view(x.shape)
        weight, bias = weight_of(norm, module), getattr(module, "bias", None)
        x = x if weight is None else x * weight
        return (x if bias is None else x + bias).reshape(shape)


class HeadNorms:
    """Norms of queries, keys and values by head, where values have one; keys and values may be another layer's.

    Args:
        module: attention's own.
    """

    def __init__(self, form: AttentionForm, module: Any) -> None:
        self._form = form
        assert form.norms is not None
        norms = form.norms[:1] if form.source is not None else (*form.norms, form.value_norm)
        self._norms = [(norm, getattr(module, norm.name)) for norm in norms if norm is not None]

    def __call__(self, projected: Tensor, lent: Tensor | None) -> Tensor:
        """Queries, keys and values `[M, (H + 2 S) D]` of what is projected, of which the last two may be `lent`."""
        form = self._form
        widths = [form.heads * form.size, *([form.shared * form.size] * (len(self._norms) - 1))]
        parts = list(torch.split(projected, widths[:2] if form.tied else widths, -1))
        parts += parts[1:] if form.tied else []
        normal = [self._normal(*norm, part) for norm, part in zip(self._norms, parts, strict=True)]
        return torch.cat(normal if lent is None else (*normal, lent), -1)

    def lent(self, qkv: Tensor) -> Tensor:
        """Keys and values of these, as other layers read them."""
        return qkv[:, self._form.heads * self._form.size :]

    def _normal(self, norm: NormForm, module: Any, x: Tensor) -> Tensor:
        heads = (x if x.dtype is torch.float64 else x.float()).reshape(-1, self._form.size)
        heads = add_norm(heads, None, norm.epsilon, heads.dtype)[1]
        weight = weight_of(norm, module)
        return (heads if weight is None else heads * weight).to(x.dtype).view(x.shape)


def by_head(form: AttentionForm) -> bool:
    """Whether kernels norm queries and keys: RMSNorm of each head, before the turn."""
    if form.norms is None or form.late or form.value_norm is not None:
        return False
    return all(norm.kind == "rms" and not norm.wide for norm in form.norms)


def shaping_of(form: AttentionForm, module: Any) -> QueryShaping | None:
    """What a layer needs; None for nothing."""
    moved = form.rotary is not None and turn_order(form) is not None
    apart = form.norms is not None and form.value_norm is None and not by_head(form)
    return QueryShaping(form, module) if form.clip or moved or apart else None
