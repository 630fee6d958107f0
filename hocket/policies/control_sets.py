"""Networks over others that are seen row by row, in any order and any number; also such as turn with their world.

An equivariant layer is `W = mean_g K_g^-1 W L_g`, g over the quarter turns of the plane, with L_g and K_g what they do
to its inputs and outputs: then `W L_g = K_g W` for every g, whatever W is (van der Pol et al., arXiv:2006.16908, who
call this the symmetriser). Hidden units come in fours that a turn permutes, so that tanh turns with them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import Plane, Slots

TURNS = 4
"""Quarter turns, among them none at all."""


def turned(size: int, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """What the turns do to `size` numbers of which these pairs are vectors, `[4, size, size]`."""
    turns, quarter = [torch.eye(size)], torch.eye(size)
    for x, y in pairs:
        quarter[x, x] = quarter[y, y] = 0.0
        quarter[x, y], quarter[y, x] = -1.0, 1.0
    while len(turns) < TURNS:
        turns.append(quarter @ turns[-1])
    return torch.stack(turns)


def turned_moves(moves: Sequence[tuple[int, int]]) -> Tensor:
    """What the turns do to actions in these directions, `[4, A, A]`: where one stands, the other then stands.

    Raises:
        ConfigurationError: when a turned direction is that of no action.
    """
    quarter, places = torch.zeros(len(moves), len(moves)), {move: place for place, move in enumerate(moves)}
    for place, (x, y) in enumerate(moves):
        if (-y, x) not in places:
            raise ConfigurationError(f"a turn takes move {(x, y)} to {(-y, x)}, which is none; give it all directions")
        quarter[places[-y, x], place] = 1.0
    return torch.stack([torch.linalg.matrix_power(quarter, turn) for turn in range(TURNS)])


def in_fours(units: int) -> Tensor:
    """What the turns do to hidden units, `[4, units, units]`.

    Raises:
        ConfigurationError: when they are no fours.
    """
    if units % TURNS:
        raise ConfigurationError(
            f"network.hidden = {units}: the units of an equivariant body come in fours, one for each quarter turn; "
            f"write {TURNS * math.ceil(units / TURNS)}"
        )
    cycle = torch.eye(TURNS).roll(1, 0)
    return torch.stack(
        [torch.kron(torch.linalg.matrix_power(cycle, turn), torch.eye(units // TURNS)) for turn in range(TURNS)]
    )


def unturned(size: int) -> Tensor:
    """Numbers that no turn changes, `[4, size, size]`."""
    return torch.eye(size).repeat(TURNS, 1, 1)


def beside(*parts: Tensor) -> Tensor:
    """Numbers that stand one behind the other, each part turned as it is."""
    blocks: list[Tensor] = [torch.block_diag(*matrices) for matrices in zip(*parts, strict=True)]  # type: ignore[no-untyped-call]
    return torch.stack(blocks)


class Turning(nn.Module):
    """A linear layer `[.., I]` to `[.., O]` with `f(L_g x) = K_g f(x)` for every g; of a group of one, any layer.

    Weights begin as equivariant ones with orthogonal rows or columns, times `gain`, and biases at 0.

    Args:
        into, onto: L `[G, I, I]` and K `[G, O, O]`, orthogonal matrices.
    """

    into: Tensor
    onto: Tensor

    def __init__(self, into: Tensor, onto: Tensor, *, gain: float, key: Key) -> None:
        super().__init__()
        self.register_buffer("into", into, persistent=False)
        self.register_buffer("onto", onto, persistent=False)
        drawn = torch.randn(onto.shape[1], into.shape[1], generator=key.torch())
        self.weight, self.bias = nn.Parameter(drawn), nn.Parameter(torch.zeros(onto.shape[1]))
        with torch.no_grad():
            left, sizes, right = torch.linalg.svd(self.even()[0], full_matrices=False)
            reached = (sizes > 1e-5 * sizes[0]).to(sizes)  # What no equivariant weight reaches stays at 0.
            self.weight.copy_(gain * (left * reached) @ right)

    def even(self) -> tuple[Tensor, Tensor]:
        """The equivariant weight and bias."""
        if len(self.into) == 1:
            return self.weight, self.bias
        weight = torch.einsum("gpo,pi->goi", self.onto, self.weight) @ self.into
        return weight.mean(0), (self.bias @ self.onto).mean(0)

    @property
    def free(self) -> int:
        """How many of its numbers may be chosen: dimensions of the equivariant weights and biases."""
        onto = self.onto.diagonal(dim1=1, dim2=2).sum(1)
        return round(float((onto * (self.into.diagonal(dim1=1, dim2=2).sum(1) + 1)).mean()))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, *self.even())


class OverSets(nn.Module):
    """The agent's own numbers, and the mean of what a layer with tanh makes of each row where anybody is.

    Both have `hidden[0]` units; layers with tanh of `hidden[1:]` follow, and a linear one. Own are also the numbers
    before what is seen, `offset` of them, and those behind it. With a `plane` it turns with its world: `f(L_g x)` is
    `K_g f(x)`, where K permutes actions when it `acts`, and leaves all else as it is.

    Raises:
        ConfigurationError: without hidden units, or with units that are no fours in a plane.
    """

    def __init__(
        self,
        slots: Slots,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        plane: Plane | None = None,
        acts: bool = False,
        offset: int = 0,
        last_gain: float,
        key: Key,
    ) -> None:
        super().__init__()
        if not hidden:
            raise ConfigurationError("network.hidden is empty, and rows are read by its first layer; name one")
        self.slots, self.offset = slots, offset
        first, *rest = hidden
        own_size = inputs - slots.count * slots.size
        group = 1 if plane is None else TURNS
        own_turns = turned(own_size, [(offset + x, offset + y) for x, y in plane.own] if plane else ())[:group]
        row = turned(slots.size, plane.others if plane else ())[:group]
        last = turned_moves(plane.moves) if plane and acts else unturned(outputs)[:group]
        units = [in_fours(size) if plane else unturned(size)[:1] for size in (first, *rest)]
        gain = math.sqrt(2)
        self.own = Turning(own_turns, units[0], gain=gain, key=key.derive("own"))
        self.others = Turning(row, units[0], gain=gain, key=key.derive("others"))
        ways = [beside(units[0], units[0]), *units[1:], last]
        self.after = nn.ModuleList(
            Turning(into, onto, gain=gain if place < len(rest) else last_gain, key=key.derive("layer", place))
            for place, (into, onto) in enumerate(itertools.pairwise(ways))
        )

    def forward(self, inputs: Tensor) -> Tensor:
        slots, start = self.slots, self.offset + self.slots.own
        end = start + slots.count * slots.size
        rows = inputs[:, start:end].reshape(-1, slots.count, slots.size)
        there = rows[..., :1]
        read = (torch.tanh(self.others(rows)) * there).sum(1) / there.sum(1).clamp(min=1)
        x = torch.cat([torch.tanh(self.own(torch.cat([inputs[:, :start], inputs[:, end:]], 1))), read], 1)
        for place, layer in enumerate(self.after):
            x = layer(x)
            if place < len(self.after) - 1:
                x = torch.tanh(x)
        return x

    @property
    def free(self) -> int:
        """How many of its numbers may be chosen."""
        return sum(layer.free for layer in self.modules() if isinstance(layer, Turning))
