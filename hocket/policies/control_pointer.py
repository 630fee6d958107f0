"""A network that reads rows by attention and whose action is a row, or several at once.

Rows are encoded once in an episode, by blocks of attention over what stays of them (Kool et al., arXiv:1803.08475).
At every decision each pointer's query reads the encoding by attention, and scores rows by

    u = C tanh( q h / sqrt(D) ),

with what changes of a row added to its encoding by a linear map. All products with the encoding are folded into the
query, so a decision costs D numbers a row and head. No weight depends on how many rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import Slots
from hocket.policies.control_attention import AttentionBlock, layers_of, linear
from hocket.policies.control_bodies import Carrying
from hocket.policies.control_choices import Choices, Product
from hocket.policies.control_heads import NEVER, Categorical
from hocket.policies.control_parts import ControlPart, PartHost

LARGEST_SCORE = 10.0
"""C: what scores of rows are kept within."""

HEADS = 4
"""Ways in which a query reads the rows."""

BLOCK = 16
"""Episodes that are encoded together when they begin, so that their bits do not depend on how many do."""


class Pointer(Carrying):
    """A body for `Slots` with pointers: scores `[.., pointers * count]` where it `acts`, else a value `[.., 1]`.

    It carries the rows' encoding, `[profiles, count, D]`, behind a 1. Own are also the numbers behind what is seen.
    Parts may give it `talk`, a layer in which pointers read each other's queries, or have it encode rows `apart`, once
    for each pointer by its own profile; else all profiles are read together.
    """

    talk: AttentionBlock | None

    def __init__(
        self, slots: Slots, inputs: int, hidden: Sequence[int], *, acts: bool, last_gain: float, key: Key
    ) -> None:
        super().__init__()
        width, self.blocks = layers_of(hidden, key)
        self.slots, self.acts, self.width, self.heads = slots, acts, width, HEADS if width % HEADS == 0 else 1
        self.talk, self.apart = None, False
        personal = inputs - slots.count * slots.size
        shared = personal - slots.pointers * slots.each
        self.moving = (slots.size - 1 - slots.fixed) // slots.pointers
        self.into, self.last = linear(slots.fixed, width, key.derive("into")), nn.LayerNorm(width)
        self.asks = linear(shared + slots.each - 1, width, key.derive("asks"))
        self.at, self.whole = linear(width, width, key.derive("at")), linear(width, width, key.derive("whole"))
        self.look = linear(width, self.heads * width, key.derive("look"))
        self.changes = nn.ModuleList(linear(self.moving, width, key.derive("changes", n)) for n in range(2))
        self.heard = linear(self.heads * width, width, key.derive("heard"))
        self.wide, self.narrow = linear(width, 4 * width, key.derive("wide")), linear(4 * width, width, key.derive("n"))
        self.final = nn.LayerNorm(width)
        self.scores = linear(width, width if acts else 1, key.derive("scores"))
        self.scores.weight.data *= last_gain

    @property
    def profiles(self) -> int:
        return self.slots.pointers if self.apart else 1

    @property
    def carries(self) -> int:  # type: ignore[override]
        """The number of numbers that are carried."""
        return 1 + self.profiles * self.slots.count * self.width

    def _rows(self, inputs: Tensor) -> Tensor:
        """The rows `[.., count, size]` of inputs `[.., I]`."""
        begin, (count, size) = self.slots.own, (self.slots.count, self.slots.size)
        return _parted(inputs[..., begin : begin + count * size], -1, (count, size))

    def encoded(self, rows: Tensor) -> Tensor:
        """The encoding `[U, profiles, count, D]` of rows `[U, count, size]`; 0 where nothing is."""
        slots, there = self.slots, rows[..., 0] > 0
        fixed = rows[..., 1 : 1 + slots.fixed]
        x = fixed[:, None]
        if self.apart:
            common = slots.fixed - slots.profile * slots.pointers
            parts = _parted(fixed[..., common:], -1, (slots.pointers, slots.profile)).transpose(1, 2)
            x = torch.cat([x[..., :common].expand(*parts.shape[:3], -1), parts], -1)
        x = self.into(x)
        there = there[:, None].expand(x.shape[:3]).flatten(0, 1)
        mask = _somewhere(there)[:, None, None]
        x = x.flatten(0, 1)
        for block in self.blocks:
            x = block(x, mask)
        return _parted(self.last(x) * there[..., None], 0, (len(rows), self.profiles))

    def _decided(self, inputs: Tensor, encoding: Tensor) -> Tensor:
        """Outputs `[U, L, outputs]` of inputs `[U, L, I]` by the encoding of each row of U."""
        slots, (steps, pointers) = self.slots, (inputs.shape[1], self.slots.pointers)
        end, mine = slots.own + slots.count * slots.size, slots.own - pointers * slots.each
        shared = torch.cat([inputs[..., :mine], inputs[..., end:]], -1)
        personal = _parted(inputs[..., mine : slots.own], -1, (pointers, slots.each))
        rows = self._rows(inputs)
        place = personal[..., 0].long().clamp(0, slots.count - 1)
        question = torch.cat([shared[:, :, None].expand(-1, -1, pointers, -1), personal[..., 1:]], -1)
        used = (encoding.abs().sum(-1) > 0).sum(2).clamp(min=1)
        middle = self.whole(encoding.sum(2) / used[..., None])
        query = self._in_profiles(self.asks(question)) + middle[:, :, None]
        index = self._in_profiles(place[..., None])
        query = query + self.at(encoding.gather(2, index.expand(*index.shape[:3], self.width)))
        if self.talk is not None:
            messages = self._together(query, steps).flatten(0, 1)
            everyone = torch.ones(1, 1, 1, pointers, dtype=torch.bool, device=inputs.device)
            query = self._in_profiles(_parted(self.talk(messages, everyone), 0, (len(inputs), steps)))
        there = rows[..., 0] > 0  # Below, V = U * profiles, and R the queries of each.
        there = self._in_profiles(there[:, :, None].expand(-1, -1, pointers, -1)).flatten(0, 1)
        changes = _parted(rows[..., 1 + slots.fixed :], -1, (pointers, self.moving)).transpose(2, 3)
        changes = _parted(self._in_profiles(changes.flatten(3)), -1, (slots.count, self.moving)).flatten(0, 1)
        x, rows_read = query.flatten(0, 1), encoding.flatten(0, 1)
        look = _parted(self.look(x), -1, (self.heads, self.width))
        first, second = self.changes
        score = _scored(look, rows_read, changes, first) / math.sqrt(self.width)
        share = torch.softmax(score.masked_fill(~_somewhere(there)[:, :, None], NEVER), -1)
        heard = _parted(share.flatten(1, 2) @ rows_read, 1, share.shape[1:3])
        heard = heard + (share @ changes) @ first.weight.T  # type: ignore[operator]
        x = x + self.heard(heard.flatten(2))
        x = x + self.narrow(torch.relu(self.wide(x)))
        outputs = self.scores(self.final(x))
        if self.acts:
            raw = _scored(outputs[:, :, None], rows_read, changes, second)[:, :, 0] / math.sqrt(self.width)
            # What all rows have in common would only drive tanh to its ends, where no gradient passes.
            some = _somewhere(there)
            common = (raw * some).sum(-1, keepdim=True) / some.sum(-1, keepdim=True)
            outputs = LARGEST_SCORE * torch.tanh(raw - common)
        answers = self._together(_parted(outputs, 0, (len(inputs), self.profiles)), steps)
        return answers.flatten(2) if self.acts else answers.mean(2)

    def _in_profiles(self, x: Tensor) -> Tensor:
        """`[U, L, pointers, ..]` by the encoding that each reads, `[U, profiles, L * pointers / profiles, ..]`."""
        return x.transpose(1, 2) if self.profiles > 1 else x.flatten(1, 2)[:, None]

    def _together(self, x: Tensor, steps: int) -> Tensor:
        """The inverse, `[U, L, pointers, ..]`."""
        return x.transpose(1, 2) if self.profiles > 1 else _parted(x[:, 0], 1, (steps, self.slots.pointers))

    def step(self, inputs: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        encoding = _parted(carried[:, 1:], 1, (self.profiles, self.slots.count, self.width)).clone()
        fresh = torch.nonzero(carried[:, 0] == 0).flatten()
        for part in torch.split(fresh, BLOCK) if len(fresh) else ():
            padded = torch.cat([part, part[:1].expand(BLOCK - len(part))])
            encoding[part] = self.encoded(self._rows(inputs[padded]))[: len(part)]
        outputs = self._decided(inputs[:, None], encoding)[:, 0]
        return outputs, torch.cat([torch.ones_like(carried[:, :1]), encoding.flatten(1)], 1)

    def forward(self, inputs: Tensor) -> Tensor:
        first = self._rows(inputs[:, 0])[..., : 1 + self.slots.fixed]
        # Samples of one scenario stand side by side and begin alike.
        other = torch.ones(len(first), dtype=torch.bool, device=first.device)
        other[1:] = (first[1:] != first[:-1]).flatten(1).any(1)
        return self._decided(inputs, self.encoded(first[other])[other.cumsum(0) - 1])


def _parted(x: Tensor, dimension: int, sizes: Sequence[int]) -> Tensor:
    """`x` with one of its dimensions as several."""
    parted: Tensor = x.unflatten(dimension, sizes)  # type: ignore[no-untyped-call]
    return parted


def _somewhere(there: Tensor) -> Tensor:
    """Where attention may go `[.., N]`: where something is, and everywhere if nothing is."""
    return there | ~there.any(-1, keepdim=True)


def _scored(query: Tensor, rows: Tensor, changes: Tensor, change: nn.Module) -> Tensor:
    """`q (h + W c)`, `[V, R, H, N]`, of queries `[V, R, H, D]`, rows `[V, N, D]` and what changes of them.

    Changes are `[V, R, N, d]`. The bias of `change` is left out: it is the same for all rows.
    """
    weight: Tensor = change.weight  # type: ignore[assignment]
    still = _parted(query.flatten(1, 2) @ rows.transpose(1, 2), 1, query.shape[1:3])
    return still + (query @ weight) @ changes.transpose(2, 3)


@dataclass(frozen=True)
class Pointers(Choices):
    """Several rows at once, drawn independently: a row for each pointer, then the rank of each pointer.

    Ranks say who is surest: 0 has drawn its row with the highest probability. A world may read them as priorities.
    Log-probs are of the rows, of which ranks are a function.
    """

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Product:
        return RankedRows(super().head(outputs, actor, allowed, taken).parts)

    def config(self) -> Mapping[str, Any]:
        return {}


@dataclass(frozen=True)
class RankedRows(Product):
    """A `Product` whose actions are followed by the ranks of their probabilities, `[B, 2 * parts]`."""

    parts: tuple[Categorical, ...]

    def tempered(self, temperature: Tensor) -> RankedRows:
        return RankedRows(super().tempered(temperature).parts)

    def mode(self) -> Tensor:
        return self._ranked(super().mode())

    def draw(self, uniforms: Tensor) -> Tensor:
        return self._ranked(super().draw(uniforms))

    def _ranked(self, action: Tensor) -> Tensor:
        surest = torch.stack([part.logp(action[:, place]) for place, part in enumerate(self.parts)], 1)
        order = torch.argsort(surest, dim=1, descending=True, stable=True)
        return torch.cat([action, torch.argsort(order, dim=1)], 1)


@dataclass(frozen=True)
class PointerPart(ControlPart):
    """A part that changes the actor of a policy with the body `pointer`; the critic stays as it is."""

    def begin(self, host: PartHost) -> None:
        actor = host.module.actor
        if not isinstance(actor, Pointer) or actor.slots.pointers < 2:
            raise ConfigurationError(f"policy {host.name!r} needs {self.needed}; {self.advice}")
        self.change(actor, host.key.derive("actor", type(self).__name__))

    def change(self, actor: Pointer, key: Key) -> None:
        """Gives the actor a layer."""
        raise NotImplementedError

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {type(self).__name__: True}


@dataclass(frozen=True)
class Communication(PointerPart):
    """Pointers read each other's queries before they choose, by a block of attention."""

    needed = "several pointers, which read each other's queries"
    advice = "choose a task such as routes:minmax, and leave network.body = pointer"

    def change(self, actor: Pointer, key: Key) -> None:
        actor.talk = AttentionBlock(actor.width, key=key)


@dataclass(frozen=True)
class Profiles(PointerPart):
    """Rows are encoded once for each pointer, with the numbers that are of its own profile."""

    needed = "several pointers with profiles of their own"
    advice = "choose a task such as routes:profiles, and leave network.body = pointer"

    def begin(self, host: PartHost) -> None:
        slots = getattr(host.spaces, "slots", None)
        if slots is None or not slots.profile:
            raise ConfigurationError(f"policy {host.name!r} needs {self.needed}; {self.advice}")
        super().begin(host)

    def change(self, actor: Pointer, key: Key) -> None:
        slots = actor.slots
        actor.into = linear(slots.fixed - slots.profile * (slots.pointers - 1), actor.width, key)
        actor.apart = True
