"""Fast decoding for the common decoder family: RMSNorm, rotary positions, grouped queries, gated feed-forward.

The loop calls the model's own modules, so it follows its weights and adapters without copying any. A prompt shared by
several rows is encoded once *and stored once*: its keys and values are read once per step for all its rows, as one
matrix product, and each row stores only what it wrote itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hocket.engine.session import distinct

FAMILY = frozenset({"llama", "mistral", "qwen2", "qwen3"})
STATIC_ROTARY = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotary embeddings whose angles depend on the position alone."""

PREFILL_TOKENS = 8192
_SMALL = 2**20
"""Weights up to which layers are joined: there the calls cost more than the copy."""
_BLOCK = 16
"""Prompts are padded to a multiple of this, and rows' own storage grows by doubling from four of it."""
_ROW_COST = 128
"""What a row costs per step besides attention, in columns of keys and values; only steers how rows are arranged."""


def supports(model: Any, longest: int) -> bool:
    """Whether `DecoderSession` computes exactly what `model` does on sequences of up to `longest` tokens."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    window = getattr(config, "sliding_window", None)
    windowed = window is not None and getattr(config, "use_sliding_window", True) and longest > window
    return config.model_type in FAMILY and rope.get("rope_type", "default") in STATIC_ROTARY and not windowed


class DecoderSession:
    """Rows arranged as `groups x width` cells; the cells of a group share their prompt's keys and values.

    Implements `hocket.engine.session.Session`. A cell without a continuation repeats another's and is ignored.
    """

    def __init__(self, model: Any, contexts: Sequence[tuple[int, ...]]) -> None:
        self._model = model
        self._layers = list(model.model.layers)
        config = model.config
        self._heads: int = config.num_attention_heads
        self._shared: int = config.num_key_value_heads
        self._size: int = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._scale: float = self._layers[0].self_attn.scaling
        self._total = len(contexts)
        unique, index = distinct(contexts)
        self._qkv = [_side_by_side(a.q_proj, a.k_proj, a.v_proj) for a in (layer.self_attn for layer in self._layers)]
        self._gate_up = [_side_by_side(layer.mlp.gate_proj, layer.mlp.up_proj) for layer in self._layers]
        self._qk_norm = [self._joint_norm(layer.self_attn) for layer in self._layers]
        self._written = 0
        self._own: list[tuple[Tensor, Tensor]] = []
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
        self._angles(width)
        order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
        last = torch.zeros(len(prompts), self._model.config.hidden_size, **like)
        step = max(1, PREFILL_TOKENS // width)
        for start in range(0, len(order), step):
            numbers = torch.tensor(order[start : start + step], device=device)
            ids = torch.zeros(len(numbers), len(prompts[order[min(start + step, len(order)) - 1]]), dtype=torch.long)
            for row, number in enumerate(numbers.tolist()):
                ids[row, : len(prompts[number])] = torch.tensor(prompts[number])
            last[numbers] = self._encode(ids.to(device), numbers)
        logits: Tensor = self._model.lm_head(last)
        return logits

    def _encode(self, ids: Tensor, numbers: Tensor) -> Tensor:
        """Reads prompts `[B, P]`, padded on the right, and stores their keys and values; last states `[B, H]`."""
        batch, length = ids.shape
        inner = self._model.model
        x = inner.embed_tokens(ids)
        cosine, sine = self._cosine[:length, None], self._sine[:length, None]
        for number, (keys, values) in enumerate(self._prompt):
            q, k, v = self._project(number, x, cosine, sine)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            keys[numbers, :, :length], values[numbers, :, :length] = k, v
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self._scale, enable_gqa=True)
            x = self._finish(number, x, mixed.transpose(1, 2).reshape(batch, length, -1))
        rows = torch.arange(batch, device=x.device)
        states: Tensor = inner.norm(x[rows, self._lengths[numbers] - 1])
        return states

    # ------------------------------------------------------------ one layer

    def _project(self, number: int, x: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values, `[..., heads, D]`, of states `[..., H]`."""
        h = self._layers[number].input_layernorm(x)
        qkv = self._qkv[number](h).view(*x.shape[:-1], -1, self._size)
        turning = self._heads + self._shared
        both, half = qkv[..., :turning, :], self._size // 2
        norm = self._qk_norm[number]
        if norm is not None:
            weight, epsilon = norm
            wide = both.float()
            both = weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(both.dtype)
        turned = torch.cat((both[..., half:], both[..., :half]), -1)
        both = torch.addcmul(both * cosine, turned, sine)
        return both[..., : self._heads, :], both[..., self._heads :, :], qkv[..., turning:, :]

    def _joint_norm(self, attention: Any) -> tuple[Tensor, float] | None:
        """The norms of queries and keys as one, weights `[heads, D]`; None where the architecture has none."""
        if not hasattr(attention, "q_norm"):
            return None
        q, k = attention.q_norm.weight, attention.k_norm.weight
        weight = torch.cat((q.expand(self._heads, -1), k.expand(self._shared, -1)))
        return weight, float(attention.q_norm.variance_epsilon)

    def _finish(self, number: int, x: Tensor, mixed: Tensor) -> Tensor:
        """States after attention's output and the feed-forward part."""
        layer = self._layers[number]
        x = x + layer.self_attn.o_proj(mixed)
        gate, up = self._gate_up[number](layer.post_attention_layernorm(x)).chunk(2, -1)
        fed: Tensor = layer.mlp.down_proj(layer.mlp.act_fn(gate) * up)
        return x + fed

    def _angles(self, positions: int) -> None:
        """Cosines, and sines with the sign of the rotated half, for positions below `positions`; each `[S, D]`."""
        device = self._model.device
        places = torch.arange(positions, device=device)[None]
        cosine, sine = self._model.model.rotary_emb(torch.zeros(1, dtype=self._model.dtype, device=device), places)
        half = self._size // 2
        self._cosine: Tensor = cosine[0]
        self._sine: Tensor = torch.cat((-sine[0, :, :half], sine[0, :, half:]), -1)

    # ------------------------------------------------------------ rows

    def step(self, tokens: Tensor) -> None:
        if self._written == self._capacity:
            self._grow()
        inner = self._model.model
        position = self._start + self._written
        cosine, sine = self._cosine[position][:, None], self._sine[position][:, None]
        x = inner.embed_tokens(tokens)
        for number in range(len(self._layers)):
            q, k, v = self._project(number, x, cosine, sine)
            x = self._finish(number, x, self._attend(number, q, k, v))
        self._written += 1
        self.logits = self._model.lm_head(inner.norm(x))

    def _attend(self, number: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of one new token per cell, `[R, heads * D]`: to its group's prompt and to what the cell wrote."""
        groups, width, shared, size = self._groups, self._width, self._shared, self._size
        repeat, now = self._heads // shared, self._written + 1
        own_k, own_v = self._own[number]
        own_k[:, :, :, self._written] = k.view(groups, width, shared, size).transpose(1, 2)
        own_v[:, :, :, self._written] = v.view(groups, width, shared, size).transpose(1, 2)
        seen_k, seen_v = own_k.flatten(0, 2)[:, :now], own_v.flatten(0, 2)[:, :now]
        prompt_k, prompt_v = (part.flatten(0, 1) for part in self._prompt[number])
        torch.mul(q.view(groups, width, shared, repeat, size).transpose(1, 2), self._scale, out=self._query)
        far = torch.bmm(self._query.view(groups * shared, width * repeat, size), prompt_k.transpose(1, 2))
        near = torch.bmm(self._query.view(-1, repeat, size), seen_k.transpose(1, 2))
        far = far.view(groups, shared, width * repeat, -1)
        if self._mask is not None:
            far += self._mask
        scores = torch.cat((far, near.view(groups, shared, width * repeat, now)), -1)
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
        columns = far.shape[-1]
        mixed = torch.bmm(weights[..., :columns].flatten(0, 1), prompt_v)
        mixed = torch.baddbmm(mixed.view(-1, repeat, size), weights[..., columns:].reshape(-1, repeat, now), seen_v)
        return mixed.view(groups, shared, width, repeat * size).transpose(1, 2).reshape(groups * width, -1)

    def keep(self, alive: Tensor) -> None:
        chosen = torch.nonzero(alive).flatten()
        self._arrange(self._group_of_cell[chosen], self.rows[chosen], chosen)

    def _grow(self) -> None:
        """Doubles the room for what rows write."""
        more = self._capacity
        self._own = [(F.pad(keys, (0, 0, 0, more)), F.pad(values, (0, 0, 0, more))) for keys, values in self._own]
        self._capacity += more
        self._angles(int(self._lengths.max()) + self._capacity)

    def _arrange(self, group: Tensor, rows: Tensor, cells: Tensor | None = None) -> Tensor:
        """Lays rows out anew: row i, of group `group[i]`, continues request `rows[i]` and stood in cell `cells[i]`.

        Returns which of the old groups each new group was, `[G]`.
        """
        device = self._model.device
        members: dict[int, list[int]] = {}
        for place, number in enumerate(group.tolist()):
            members.setdefault(number, []).append(place)
        width = _best_width([len(places) for places in members.values()], self._prompt[0][0].shape[2], self._written)
        parts = [
            (number, places[start : start + width])
            for number, places in members.items()
            for start in range(0, len(places), width)
        ]
        # A place to fill repeats the first row of its part, under a number that nobody listens to.
        layout = torch.tensor([places + places[:1] * (width - len(places)) for _, places in parts])
        vacant = torch.tensor([[column >= len(places) for column in range(width)] for _, places in parts])
        origin = torch.tensor([number for number, _ in parts], device=device)
        self._groups, self._width = len(parts), width
        self.rows = torch.where(vacant, self._total, rows.cpu()[layout]).flatten().to(device)
        self._share_prompts(origin)
        self._group_of_cell = torch.arange(len(parts), device=device).repeat_interleave(width)
        self._start = self._lengths[self._group_of_cell]
        self._query = torch.empty(
            len(parts), self._shared, width, self._heads // self._shared, self._size,
            dtype=self._model.dtype, device=device,
        )  # fmt: skip
        self._move(None if cells is None else cells.cpu()[layout].to(device))
        return origin

    def _share_prompts(self, origin: Tensor) -> None:
        """Keeps the prompts of the groups `origin` `[G]`, in this order, with the mask of their padding."""
        if not torch.equal(origin, torch.arange(len(self._lengths), device=origin.device)):
            self._prompt = [(keys[origin], values[origin]) for keys, values in self._prompt]
            self._lengths = self._lengths[origin]
        width = self._prompt[0][0].shape[2]
        beyond = torch.arange(width, device=origin.device) >= self._lengths[:, None]
        mask = torch.zeros(beyond.shape, dtype=self._model.dtype, device=origin.device)
        self._mask = mask.masked_fill(beyond, -torch.inf)[:, None, None] if bool(beyond.any()) else None

    def _move(self, cells: Tensor | None) -> None:
        """Gathers what rows wrote from their old cells `[G, W]`, or makes room for the first time."""
        shape = (self._groups, self._shared, self._width)
        like = {"dtype": self._model.dtype, "device": self._model.device}
        if cells is None:
            self._capacity = 4 * _BLOCK
            empty = (*shape, self._capacity, self._size)
            self._own = [(torch.zeros(empty, **like), torch.zeros(empty, **like)) for _ in self._layers]
            self._angles(int(self._lengths.max()) + self._capacity)
            return
        old = self._own[0][0].shape[2]
        group, column = cells // old, cells % old
        for number, pair in enumerate(self._own):
            moved = []
            for part in pair:
                room = torch.zeros(*shape, self._capacity, self._size, **like)
                room[:, :, :, : self._written] = part[group, :, column, : self._written].transpose(1, 2)
                moved.append(room)
            self._own[number] = (moved[0], moved[1])


def _side_by_side(*layers: Any) -> Callable[[Tensor], Tensor]:
    """Linear layers on one input as one function, outputs side by side.

    Small plain layers are joined into one matrix for the session, whose weights do not change; adapted or large ones
    are called one by one.
    """
    plain = all(type(layer) is nn.Linear for layer in layers)
    if not plain or sum(layer.weight.numel() for layer in layers) > _SMALL:
        return lambda x: torch.cat([layer(x) for layer in layers], -1)
    weight = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    return lambda x: F.linear(x, weight, bias)


def _best_width(sizes: list[int], prompt: int, written: int) -> int:
    """Cells per group that make a step cheapest: few vacant cells against few repeated prompts."""

    def cost(width: int) -> int:
        groups = sum(-(-size // width) for size in sizes)
        return groups * (prompt + width * (_ROW_COST + written))

    return min(range(1, max(sizes) + 1), key=cost)
