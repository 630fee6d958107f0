"""Queries, keys and values before attention: straight from the states, or by way of narrow ones (latent attention)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.forms import AttentionForm, LatentForm, NormForm, weight_of
from hocket.policies.fused_operations import add_norm

Map = Callable[[Tensor], Tensor]
Group = tuple[list[Any], Tensor | None]
"""Linear layers on one input, and the weight of the RMSNorm before them."""


def inner_groups(attention: Any, form: AttentionForm, before: Tensor | None) -> list[Group]:
    """The linear layers before attention by their input; `before` is the weight of the norm of the states."""
    latent = form.latent
    if latent is None:
        return [([getattr(attention, name) for name in form.projections], before)]
    groups: list[Group] = [([getattr(attention, name) for name in latent.down], before)]
    for norm, up in ((latent.query_norm, latent.query_up), (latent.norm, latent.up)):
        if norm is not None and up is not None:
            groups.append(([getattr(attention, up)], weight_of(norm, getattr(attention, norm.name))))
    return groups


class LatentProjection:
    """From normalised states to queries, keys and values `[M, 3 H D]`, the part of a head that turns first.

    Keys and values are widened for every head, and values filled up to D with zeros: pages hold them as any others.

    Args:
        maps: those of `inner_groups`.
    """

    def __init__(self, form: AttentionForm, latent: LatentForm, maps: Sequence[Map]) -> None:
        self._form, self._latent, self._maps = form, latent, maps

    def __call__(self, normal: Tensor) -> Tensor:
        latent, heads, rows = self._latent, self._form.heads, len(normal)
        down = self._maps[0](normal)
        narrow = down.shape[1] - latent.turning - latent.rank
        query, state, turning = torch.split(down, [narrow, latent.rank, latent.turning], -1)
        if latent.query_norm is not None:
            query = self._maps[1](_unit(latent.query_norm, query))
        wide = self._maps[-1](_unit(latent.norm, state)).view(rows, heads, -1)
        query = query.reshape(rows, heads, -1)
        still, values = torch.split(wide, [latent.still, latent.values], -1)
        queries = torch.cat((query[..., latent.still :], query[..., : latent.still]), -1)
        keys = torch.cat((turning[:, None].expand(-1, heads, -1), still), -1)
        values = F.pad(values, (0, self._form.size - latent.values))
        return torch.cat((queries, keys, values), 1).view(rows, -1)


class NarrowOutput:
    """What follows attention whose values are narrower than its keys.

    Args:
        output: from values of all heads side by side to the width of the states.
    """

    def __init__(self, form: AttentionForm, latent: LatentForm, output: Map) -> None:
        self._form, self._latent, self._output = form, latent, output

    def __call__(self, mixed: Tensor) -> Tensor:
        """Of `[M, H D]`."""
        heads = mixed.view(len(mixed), self._form.heads, self._form.size)
        return self._output(heads[..., : self._latent.values].reshape(len(mixed), -1))


def _unit(form: NormForm, x: Tensor) -> Tensor:
    wide = x if x.dtype is torch.float64 else x.float()
    return add_norm(wide.contiguous(), None, form.epsilon, x.dtype)[1]
