"""Layers that keep a state in place of keys and values: short convolutions, and linear attention by the delta rule.

Sampler and learner compute them by the functions here, from token to token in one order, so that a token's numbers are
the same in both to the last bit. Where a sequence's state comes from is theirs: a learner's runs are the nodes of a
tree, which begin with the state that their parent ends with; a sampler keeps the state of each sequence in a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies import kernels
from hocket.policies.forms import ConvolutionForm, DeltaForm, RecurrentForm
from hocket.policies.fused_operations import add_norm, by_kernels, gated_silu
from hocket.policies.kernels import StateRuns
from hocket.policies.prefix_tree import TokenRun

CHUNK = 64
"""Tokens that torch's operators take together, see `delta_chunks`."""

Places = NDArray[np.int64]


class Histories(Protocol):
    """What stands before the tokens of a pass, by layer."""

    def inputs(self, number: int, x: Tensor, taps: int) -> tuple[Tensor, Tensor]:
        """Rows `[N, C]` that hold x `[M, C]` and what is before, and those that a convolution reads, `[M, taps]`."""
        ...

    def memory(self, number: int, shape: tuple[int, int, int]) -> Tensor:
        """States `[slots, *shape]` that `runs` begin with and leave."""
        ...

    @property
    def runs(self) -> StateRuns: ...

    @property
    def levels(self) -> Sequence[TreeLevel]:
        """For torch's operators: the same runs, those that can be computed side by side together."""
        ...


class TreeLevel:
    """Runs that begin with states which earlier levels left.

    Args:
        numbers: of the runs. start, count: of their tokens. source: the run that each begins after, -1 for none.
    """

    def __init__(self, numbers: Places, start: Places, count: Places, source: Places, device: torch.device) -> None:
        offset = np.arange(count.max())
        place = start[:, None] + offset
        used = offset < count[:, None]
        self.numbers, self.source = numbers.tolist(), source.tolist()
        self.place = torch.from_numpy(np.where(used, place, 0)).to(device)
        self.used = torch.from_numpy(used).to(device)


class TreeHistories:
    """Those of a learner: the nodes of a tree of M tokens.

    Args:
        nodes: of the tree; together their own tokens are 0..M-1 in order.
    """

    def __init__(self, nodes: list[TokenRun], device: torch.device) -> None:
        self._nodes, self._device = nodes, device
        count = np.array([node.own for node in nodes], np.int64)
        start = np.cumsum(count) - count
        owner = np.repeat(np.arange(len(nodes)), count)
        before = [node.path[-node.own - 1] if len(node.path) > node.own else -1 for node in nodes]
        self._parent = np.array([owner[place] if place >= 0 else -1 for place in before], np.int64)
        slot = np.full(len(nodes) + 1, -1, np.int64)
        parents = np.unique(self._parent[self._parent >= 0])
        slot[parents] = np.arange(len(parents))
        self._slots = len(parents)
        self._start, self._count = start, count
        columns = start, count, slot[self._parent], slot[:-1]
        self.runs = StateRuns(*(torch.from_numpy(column.astype(np.int32)) for column in columns))
        self._places: dict[int, Tensor] = {}
        self._levels: list[TreeLevel] = []

    @property
    def levels(self) -> Sequence[TreeLevel]:
        if not self._levels:
            depth = np.zeros(len(self._nodes), np.int64)
            for number, parent in enumerate(self._parent):
                depth[number] = depth[parent] + 1 if parent >= 0 else 0
            for level in range(int(depth.max()) + 1):
                chosen = np.flatnonzero(depth == level)
                columns = self._start[chosen], self._count[chosen], self._parent[chosen]
                self._levels.append(TreeLevel(chosen, *columns, self._device))
        return self._levels

    def inputs(self, number: int, x: Tensor, taps: int) -> tuple[Tensor, Tensor]:
        if taps not in self._places:
            nothing, rows = np.full(taps - 1, len(x), np.int64), []
            for node in self._nodes:
                path = np.concatenate([nothing, node.path[-node.own - taps + 1 :]])[-node.own - taps + 1 :]
                rows.append(np.lib.stride_tricks.sliding_window_view(path, taps))
            self._places[taps] = torch.from_numpy(np.concatenate(rows)).to(self._device)
        return F.pad(x, (0, 0, 0, 1)), self._places[taps]

    def memory(self, number: int, shape: tuple[int, int, int]) -> Tensor:
        return torch.zeros(self._slots, *shape, device=self._device)


# ---------------------------------------------------------------- short convolutions


class _Convolve(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight, place)
        return _convolved(rows, weight, place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, weight, place = ctx.saved_tensors
        for_rows, for_weight = torch.zeros_like(rows), torch.empty_like(weight)
        for tap in range(weight.shape[1]):
            for_weight[:, tap] = (gradient * rows.index_select(0, place[:, tap])).sum(0)
            if rows.device.type == "cpu":
                for_rows.index_add_(0, place[:, tap], gradient * weight[:, tap])
            else:  # There `index_add_` sums in whatever order.
                for_rows.index_put_((place[:, tap],), gradient * weight[:, tap], accumulate=True)
        return for_rows, for_weight, None


def _convolved(rows: Tensor, weight: Tensor, place: Tensor) -> Tensor:
    out = rows.index_select(0, place[:, 0]) * weight[:, 0]
    for tap in range(1, weight.shape[1]):
        out += rows.index_select(0, place[:, tap]) * weight[:, tap]
    return out


def convolve(module: Any, x: Tensor, number: int, histories: Histories) -> Tensor:
    """A causal convolution of each channel, `[M, C]`, by a module with weights `[C, 1, taps]`."""
    weight = module.weight.squeeze(1).to(x.dtype)
    rows, place = histories.inputs(number, x, weight.shape[1])
    out: Tensor
    if torch.is_grad_enabled():
        out = _Convolve.apply(rows, weight, place)  # type: ignore[no-untyped-call]
    else:
        out = _convolved(rows, weight, place)
    return out if module.bias is None else out + module.bias.to(x.dtype)


# ---------------------------------------------------------------- the gated delta rule


class _DeltaRule(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        rate: Tensor,
        bias: Tensor,
        runs: StateRuns,
        memory: Tensor,
        keys: int,
    ) -> Tensor:
        out = kernels.delta_rule(x, a, b, rate, bias, runs, memory, keys)
        ctx.save_for_backward(x, a, b, rate, bias, memory)
        ctx.runs, ctx.keys = runs, keys
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, a, b, rate, bias, memory = ctx.saved_tensors
        slopes = kernels.delta_rule_backward(gradient, x, a, b, rate, bias, ctx.runs, memory, ctx.keys)
        return *slopes, slopes[1].sum(0), None, None, None


def delta_chunks(q: Tensor, k: Tensor, v: Tensor, keep: Tensor, write: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The gated delta rule by torch's operators, `CHUNK` tokens at a time (arXiv 2412.06464, section 3.3).

    Args:
        q, k: `[B, H, L, D]`. v: `[B, H, L, V]`. keep: logs of what the state keeps, `[B, H, L]`. write: `[B, H, L]`.
        state: before the first token, `[B, H, D, V]`.

    Returns:
        Outputs `[B, H, L, V]`, and the state after the last token.
    """
    outs = []
    for begin in range(0, q.shape[2], CHUNK):
        part = slice(begin, begin + CHUNK)
        one_q, one_k, one_v, one_write = q[:, :, part], k[:, :, part], v[:, :, part], write[:, :, part, None]
        total = keep[:, :, part].cumsum(-1)
        later = torch.ones(total.shape[-1], total.shape[-1], dtype=torch.bool, device=q.device).triu(1)
        between = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
        since = total.exp()[..., None]
        system = one_write * (one_k @ one_k.transpose(-1, -2)) * between
        due = one_write * (one_v - since * (one_k @ state))
        new = torch.linalg.solve_triangular(system, due, upper=False, unitriangular=True)
        outs.append(since * (one_q @ state) + ((one_q @ one_k.transpose(-1, -2)) * between) @ new)
        to_end = (total[..., -1:] - total).exp()[..., None]
        state = since[..., -1:, :] * state + (one_k * to_end).transpose(-1, -2) @ new
    return torch.cat(outs, 2), state


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _by_operators(
    form: DeltaForm, x: Tensor, a: Tensor, b: Tensor, rate: Tensor, bias: Tensor, levels: Sequence[TreeLevel]
) -> Tensor:
    """The rule along the levels of a tree, `[M, heads * values]`."""
    widths = [form.keys * form.size, form.keys * form.size, form.heads * form.values]
    q, k, v = (part.view(len(x), -1, width) for part, width in _split(F.silu(x), widths, form))
    repeat = form.heads // form.keys
    q, k = (_unit(part).repeat_interleave(repeat, 1) for part in (q, k))
    q = q * form.size**-0.5
    keep, write = -rate.exp() * F.softplus(a + bias), b.sigmoid()
    out = x.new_zeros(len(x), form.heads, form.values)
    states: dict[int, Tensor] = {-1: x.new_zeros(form.heads, form.size, form.values)}
    for level in levels:
        rows = [part[level.place].transpose(1, 2) for part in (q, k, v)]
        gates = [(part[level.place] * level.used[..., None]).transpose(1, 2) for part in (keep, write)]
        begin = torch.stack([states[source] for source in level.source])
        mixed, end = delta_chunks(rows[0], rows[1], rows[2], gates[0], gates[1], begin)
        states.update(zip(level.numbers, end.unbind(0), strict=True))
        out = out.index_put((level.place[level.used],), mixed.transpose(1, 2)[level.used])
    return out.flatten(1)


def _split(x: Tensor, widths: list[int], form: DeltaForm) -> list[tuple[Tensor, int]]:
    return list(zip(torch.split(x, widths, -1), (form.size, form.size, form.values), strict=True))


class DeltaMixer:
    """Gated delta-net: a short convolution, the delta rule, and a norm with a gate.

    Args:
        module: the layer's own.
    """

    def __init__(self, form: DeltaForm, module: Any) -> None:
        self._form, self._module = form, module

    def __call__(self, projected: Tensor, number: int, histories: Histories) -> Tensor:
        """`[M, heads * values]` of projected states `[M, W]`, in their type."""
        form, module = self._form, self._module
        wide = projected if projected.dtype is torch.float64 else projected.float()
        x, z, b, a = self._parts(wide)
        x = convolve(getattr(module, form.convolution), x, number, histories)
        rate, bias = module.A_log.to(x.dtype), module.dt_bias.to(x.dtype)
        if by_kernels(x):
            memory = histories.memory(number, (form.heads, form.size, form.values))
            inputs = x, a.contiguous(), b.contiguous(), rate, bias, histories.runs, memory, form.keys
            if torch.is_grad_enabled():
                mixed: Tensor = _DeltaRule.apply(*inputs)  # type: ignore[no-untyped-call]
            else:
                mixed = kernels.delta_rule(*inputs)
        else:
            mixed = _by_operators(form, x, a, b, rate, bias, histories.levels)
        heads = mixed.view(-1, form.values)
        normal = add_norm(heads, None, form.norm.epsilon, heads.dtype)[1] * getattr(module, form.norm.name).weight
        gated = gated_silu(torch.cat((z.reshape(heads.shape), normal), -1))
        return gated.view(mixed.shape).to(projected.dtype)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What is convolved, the gate of outputs, of what is written, and of what is kept."""
        form = self._form
        width, values, heads = form.window[1], form.heads * form.values, form.heads
        if not form.grouped:
            mixed, z, b, a = torch.split(x, [width, values, heads, heads], -1)
            return mixed, z, b, a
        each, keys = form.heads // form.keys, form.keys
        both = x[:, : width + values].reshape(len(x), keys, -1)
        q, k, v, z = torch.split(both, [form.size, form.size, each * form.values, each * form.values], -1)
        b, a = torch.split(x[:, width + values :].reshape(len(x), keys, -1), [each, each], -1)
        mixed = torch.cat([part.flatten(1) for part in (q, k, v)], -1)
        return mixed, z.flatten(1), b.flatten(1), a.flatten(1)


class ConvolutionMixer:
    """A short convolution between two gates (LFM2).

    Args:
        module: the layer's own.
    """

    def __init__(self, form: ConvolutionForm, module: Any) -> None:
        self._form, self._module = form, module

    def __call__(self, projected: Tensor, number: int, histories: Histories) -> Tensor:
        """`[M, C]` of projected states `[M, 3 C]`, in their type."""
        wide = projected if projected.dtype is torch.float64 else projected.float()
        opened, gate, x = wide.chunk(3, -1)
        convolved = convolve(getattr(self._module, self._form.convolution), opened * x, number, histories)
        return (gate * convolved).to(projected.dtype)


Mixer = DeltaMixer | ConvolutionMixer


def mixer_of(form: RecurrentForm, module: Any) -> Mixer:
    """What a layer computes between its two projections."""
    return DeltaMixer(form, module) if isinstance(form, DeltaForm) else ConvolutionMixer(form, module)
