"""Fast decoding without kernels, for decoders of plain form (see `hocket.policies.forms`).

The layers are those the learner computes, made from the model's own modules, so they follow its weights and adapters.
A prompt shared by several rows is encoded once *and stored once*: its keys and values are read once per step for all
its rows, as one matrix product, and each row stores only what it wrote itself. Where sharing no longer pays, because
few rows of each prompt are left, every row gets its prompt's keys and values in front of its own.

On an accelerator a step has fixed shapes, see `hocket.engine.fixed_step`: it reads all allocated columns and masks
those not yet written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.engine.fixed_step import FixedStep
from hocket.engine.session import distinct
from hocket.policies.family import Precision, embedded, head_of, layers_of, logit_states
from hocket.policies.form_reading import known_form
from hocket.policies.shaping import Angles, angle_tables
from hocket.policies.vision import vision_of

PREFILL_TOKENS = 8192
_BLOCK = 8
"""Prompts are padded to a multiple of this, and the storage of rows grows by at least this much."""
_FIXED_BLOCK = 64
"""The same where steps have fixed shapes, which change with the storage."""
_ROW_COST = 128
"""The cost of a row per step besides attention, in columns of keys and values; affects only the arrangement of rows."""


class DecoderSession:
    """Rows arranged as `groups x width` cells; the cells of a group share their prompt's keys and values.

    Implements `hocket.engine.session.Session`. A cell without a continuation repeats another's and is ignored. At width
    1 prompts stand in front of what their rows wrote: `_front` columns of the rows' own storage, none while shared.
    """

    def __init__(self, model: Any, contexts: Sequence[tuple[int, ...]], precision: Precision = "fp32") -> None:
        self._model = model
        form = known_form(model)
        self._layers, self._head = layers_of(model, precision), head_of(model)
        (self._heads, self._shared, self._size), *_ = form.shapes
        self._scale = self._layers[0].scale
        self._total = len(contexts)
        unique, index = distinct(contexts)
        self.rows: Tensor
        self._start: Tensor
        self._written = self._front = 0
        self._own: list[tuple[Tensor, Tensor]] = []
        self._fixed = FixedStep(model.device) if fixed_shapes(model.device) and vision_of(model) is None else None
        self._lengths = torch.tensor([len(context) for context in unique], device=model.device)
        logits = self._prefill(unique)
        origin = self._arrange(torch.tensor(index), torch.arange(self._total))
        self.logits: Tensor = logits[origin][self._group_of_cell]

    # ------------------------------------------------------------ prompts

    def _prefill(self, prompts: list[tuple[int, ...]]) -> Tensor:
        """Encodes each prompt once; returns the logits after it, `[G, V]`."""
        device = self._model.device
        longest = max(len(prompt) for prompt in prompts)
        width = -(-longest // _BLOCK) * _BLOCK
        shape = (len(prompts), self._shared, width, self._size)
        like = {"dtype": self._model.dtype, "device": device}
        self._prompt = [(torch.zeros(shape, **like), torch.zeros(shape, **like)) for _ in self._layers]
        self._cosine, self._sine = self._angles(width)
        order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
        last = torch.zeros(len(prompts), self._model.config.hidden_size, **like)
        step = max(1, PREFILL_TOKENS // width)
        for start in range(0, len(order), step):
            numbers = torch.tensor(order[start : start + step], device=device)
            ids = torch.zeros(len(numbers), len(prompts[order[min(start + step, len(order)) - 1]]), dtype=torch.long)
            for row, number in enumerate(numbers.tolist()):
                ids[row, : len(prompts[number])] = torch.tensor(prompts[number])
            last[numbers] = self._encode(ids.to(device), numbers)
        return self._head(logit_states(self._model, last))

    def _angles(self, positions: int) -> Angles:
        return angle_tables(self._model, positions)[self._layers[0].rotary]

    def _last(self, x: Tensor) -> Tensor:
        """States after the final norm."""
        states: Tensor = getattr(self._model.model, known_form(self._model).norm.name)(x)
        return states

    def _encode(self, ids: Tensor, numbers: Tensor) -> Tensor:
        """Reads prompts `[B, P]`, padded on the right, and stores their keys and values; last states `[B, H]`."""
        batch, length = ids.shape
        x = embedded(self._model, ids)
        cosine, sine = self._cosine[:length, None], self._sine[:length, None]
        for number, (keys, values) in enumerate(self._prompt):
            q, k, v = self._project(number, x, cosine, sine)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            keys[numbers, :, :length], values[numbers, :, :length] = k, v
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self._scale, enable_gqa=True)
            x = self._finish(number, x, mixed.transpose(1, 2).reshape(batch, length, -1))
        rows = torch.arange(batch, device=x.device)
        return self._last(x[rows, self._lengths[numbers] - 1])

    # ------------------------------------------------------------ one layer

    def _project(self, number: int, x: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values, `[..., heads, D]`, of states `[..., H]`."""
        layer = self._layers[number]
        qkv = layer.qkv(_normal(x, layer.epsilons[0]).to(layer.dtype)).to(x.dtype).view(*x.shape[:-1], -1, self._size)
        turning = self._heads + self._shared
        both = qkv[..., :turning, :]
        if layer.turn is not None:
            both = _normal(both, layer.turn_epsilon).mul_(layer.turn)
        both = torch.addcmul(both * cosine, both.roll(self._size // 2, -1), sine)
        return both[..., : self._heads, :], both[..., self._heads :, :], qkv[..., turning:, :]

    def _finish(self, number: int, x: Tensor, mixed: Tensor) -> Tensor:
        """States after the output projection of attention and the feed-forward part."""
        layer = self._layers[number]
        x = x + layer.output(mixed.to(layer.dtype))
        flat = _normal(x, layer.epsilons[1]).to(layer.dtype).flatten(0, -2)
        return layer.down(layer.gate(layer.gate_up(flat))).view(x.shape) + x

    # ------------------------------------------------------------ rows

    def step(self, tokens: Tensor) -> None:
        if self._written == self._capacity:
            self._grow()
        if self._fixed is None:
            self.logits = self._next(tokens, self._written)
        else:
            self.logits = self._fixed(self._next, tokens, torch.tensor([self._written]))
        self._written += 1

    def _next(self, tokens: Tensor, place: int | Tensor) -> Tensor:
        """Logits after `tokens` `[R]`, written to column `place`; a tensor `[1]` where shapes are fixed."""
        position = self._start + place
        cosine, sine = self._cosine[position][:, None], self._sine[position][:, None]
        x = embedded(self._model, tokens)
        attend = self._attend_apart if self._front else self._attend
        length, unseen = self._columns(place)
        for number in range(len(self._layers)):
            q, k, v = self._project(number, x, cosine, sine)
            x = self._finish(number, x, attend(number, q, k, v, place, length, unseen))
        return self._head(logit_states(self._model, self._last(x)))

    def _columns(self, place: int | Tensor) -> tuple[int, Tensor | None]:
        """The number of row columns to read, and the mask of those not yet written, `[1, 1, columns]`."""
        if isinstance(place, int):
            return place + 1, None
        later = torch.arange(self._capacity, device=place.device) > place
        mask = torch.zeros(later.shape, dtype=self._model.dtype, device=place.device)
        return self._capacity, mask.masked_fill_(later, -torch.inf)[None, None]

    def _attend(
        self, number: int, q: Tensor, k: Tensor, v: Tensor, place: int | Tensor, seen: int, unseen: Tensor | None
    ) -> Tensor:
        """Attention of one new token per cell, `[R, heads * D]`: to its group's prompt and to the cell's own tokens."""
        groups, width, shared, size = self._groups, self._width, self._shared, self._size
        repeat = self._heads // shared
        own_k, own_v = self._own[number]
        _write(own_k, place, k.view(groups, width, shared, size).transpose(1, 2))
        _write(own_v, place, v.view(groups, width, shared, size).transpose(1, 2))
        seen_k, seen_v = own_k.flatten(0, 2)[:, :seen], own_v.flatten(0, 2)[:, :seen]
        prompt_k, prompt_v = (part.flatten(0, 1) for part in self._prompt[number])
        torch.mul(q.view(groups, width, shared, repeat, size).transpose(1, 2), self._scale, out=self._query)
        query = self._query.view(groups * shared, width * repeat, size)
        far = torch.baddbmm(self._mask, query, prompt_k.transpose(1, 2)).view(groups, shared, width * repeat, -1)
        near = torch.bmm(self._query.view(-1, repeat, size), seen_k.transpose(1, 2))
        if unseen is not None:
            near += unseen
        scores = torch.cat((far, near.view(groups, shared, width * repeat, seen)), -1)
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
        columns = far.shape[-1]
        mixed = torch.bmm(weights[..., :columns].flatten(0, 1), prompt_v)
        mixed = torch.baddbmm(mixed.view(-1, repeat, size), weights[..., columns:].reshape(-1, repeat, seen), seen_v)
        return mixed.view(groups, shared, width, repeat * size).transpose(1, 2).reshape(groups * width, -1)

    def _attend_apart(
        self, number: int, q: Tensor, k: Tensor, v: Tensor, place: int | Tensor, seen: int, unseen: Tensor | None
    ) -> Tensor:
        """Like `_attend`, for rows that each hold their prompt in front of their own tokens."""
        front, total = self._front, self._front + seen
        keys, values = self._own[number]
        _write(keys, front + place, k)
        _write(values, front + place, v)
        seen_k, seen_v = keys.flatten(0, 1)[:, :total], values.flatten(0, 1)[:, :total]
        query = q.reshape(-1, self._heads // self._shared, self._size)
        scores = torch.baddbmm(self._mask[:, :, :total], query, seen_k.transpose(1, 2), alpha=self._scale)
        if unseen is not None:
            scores[:, :, front:] += unseen
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
        return torch.bmm(weights, seen_v).view(len(q), -1)

    def keep(self, alive: Tensor) -> None:
        chosen = torch.nonzero(alive).flatten()
        if not self._front:
            self._arrange(self._group_of_cell[chosen], self.rows[chosen], chosen)
            return
        self.rows, self._start = self.rows[chosen], self._start[chosen]
        self._take_room()
        used = self._front + self._written
        self._own = [
            (
                self._room(keys[:, :, :used].index_select(0, chosen)),
                self._room(values[:, :, :used].index_select(0, chosen)),
            )
            for keys, values in self._own
        ]
        self._mask = self._hidden(self._start, self._front, self._capacity)

    def _grow(self) -> None:
        """Makes room for the rows' next tokens."""
        self._take_room()
        self._own = [(self._room(keys), self._room(values)) for keys, values in self._own]
        if self._front:
            self._mask = self._hidden(self._start, self._front, self._capacity)

    def _take_room(self) -> None:
        """Sets the capacity to one and a half times the written columns, so that few are unused.

        With fixed shapes it is twice the written columns, so that shapes change seldom.
        """
        if self._fixed is None:
            self._capacity = self._written + max(_BLOCK, self._written // 2)
        else:
            self._fixed.forget()
            self._capacity = self._written + max(_FIXED_BLOCK, self._written)
        self._cosine, self._sine = self._angles(int(self._start.max()) + self._capacity)

    def _room(self, part: Tensor) -> Tensor:
        """`part` `[.., columns, D]`, padded to the capacity."""
        room = self._empty(part, *part.shape[:-2], self._front + self._capacity, self._size)
        room[..., : part.shape[-2], :] = part
        return room

    def _empty(self, like: Tensor, *shape: int) -> Tensor:
        """New storage. With fixed shapes unwritten columns are read and masked, so they must hold finite numbers."""
        return like.new_empty(shape) if self._fixed is None else like.new_zeros(shape)

    def _hidden(self, lengths: Tensor, prompt: int, more: int = 0) -> Tensor:
        """The mask for scores of prompts of `lengths` `[B]` and of `more` columns after them, `[B * shared, 1, P]`."""
        columns = torch.arange(prompt + more, device=lengths.device)
        beyond = (columns >= lengths[:, None]) & (columns < prompt)
        mask = torch.zeros(beyond.shape, dtype=self._model.dtype, device=lengths.device)
        return mask.masked_fill_(beyond, -torch.inf).repeat_interleave(self._shared, 0)[:, None]

    def _arrange(self, group: Tensor, rows: Tensor, cells: Tensor | None = None) -> Tensor:
        """Rearranges rows: row i, of group `group[i]`, continues request `rows[i]` and was in cell `cells[i]`.

        Returns the old number of each new group, `[G]`.
        """
        device = self._model.device
        members: dict[int, list[int]] = {}
        for place, number in enumerate(group.tolist()):
            members.setdefault(number, []).append(place)
        prompt = self._prompt[0][0].shape[2]
        width = _best_width([len(places) for places in members.values()], prompt, self._written)
        parts = [
            (number, places[start : start + width])
            for number, places in members.items()
            for start in range(0, len(places), width)
        ]
        # A vacant cell repeats the first row of its part, under a request number that is ignored.
        layout = torch.tensor([places + places[:1] * (width - len(places)) for _, places in parts])
        vacant = torch.tensor([[column >= len(places) for column in range(width)] for _, places in parts])
        origin = torch.tensor([number for number, _ in parts], device=device)
        self._groups, self._width = len(parts), width
        self.rows = torch.where(vacant, self._total, rows.cpu()[layout]).flatten().to(device)
        self._lengths = self._lengths[origin]
        self._prompt = [(keys[origin], values[origin]) for keys, values in self._prompt]
        self._group_of_cell = torch.arange(len(parts), device=device).repeat_interleave(width)
        self._start = self._lengths[self._group_of_cell]
        self._mask = self._hidden(self._lengths, prompt)
        self._move(None if cells is None else cells.cpu()[layout].to(device))
        if width == 1:
            self._part(prompt)
        return origin

    def _move(self, cells: Tensor | None) -> None:
        """Gathers the rows' keys and values from their old cells `[G, W]`, or allocates the first storage."""
        shape = (self._groups, self._shared, self._width)
        like = {"dtype": self._model.dtype, "device": self._model.device}
        self._query = torch.empty(*shape, self._heads // self._shared, self._size, **like)
        self._take_room()
        if cells is None:
            room = (*shape, self._capacity, self._size)
            self._own = [(self._empty(self._query, *room), self._empty(self._query, *room)) for _ in self._layers]
            return
        old = self._own[0][0].shape[2]
        group, column = cells // old, cells % old

        def moved(part: Tensor) -> Tensor:
            return self._room(part[:, :, :, : self._written][group, :, column].transpose(1, 2))

        self._own = [(moved(keys), moved(values)) for keys, values in self._own]

    def _part(self, prompt: int) -> None:
        """Copies each row's prompt in front of its own tokens, permanently."""
        written, self._front = self._written, prompt

        def joined(shared: Tensor, separate: Tensor) -> Tensor:
            return self._room(torch.cat((shared, separate[:, :, 0, :written]), 2))

        self._own = [
            (joined(keys, own_keys), joined(values, own_values))
            for (keys, values), (own_keys, own_values) in zip(self._prompt, self._own, strict=True)
        ]
        self._prompt = []
        self._mask = self._hidden(self._start, prompt, self._capacity)


def fixed_shapes(device: torch.device) -> bool:
    """Whether steps on this device have fixed shapes."""
    return device.type == "cuda"


def _write(part: Tensor, place: int | Tensor, new: Tensor) -> None:
    """Puts `new` `[.., D]` into column `place` of `part` `[.., columns, D]`."""
    if isinstance(place, int):
        part[..., place, :] = new
    else:
        part.index_copy_(part.dim() - 2, place, new.unsqueeze(-2))


def _normal(x: Tensor, epsilon: float) -> Tensor:
    """x / RMS(x) over the last axis, in few calls."""
    wide = x.float()
    inverse: Tensor = torch.linalg.vecdot(wide, wide).mul_(1.0 / x.shape[-1]).add_(epsilon).rsqrt_()
    return (wide * inverse.unsqueeze_(-1)).to(x.dtype)


def _best_width(sizes: list[int], prompt: int, written: int) -> int:
    """The number of cells per group with the cheapest step: vacant cells cost, and so do repeated prompts."""

    def cost(width: int) -> int:
        groups = sum(-(-size // width) for size in sizes)
        return groups * (prompt + width * (_ROW_COST + written))

    return min(range(1, max(sizes) + 1), key=cost)
