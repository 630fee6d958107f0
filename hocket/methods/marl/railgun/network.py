"""A convolutional network over a whole map, and actions that are a move for every cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_heads import NEVER
from hocket.policies.control_parts import Links, NetworkRequest
from hocket.policies.settings import NetworkSettings


@dataclass(frozen=True)
class CellMoves:
    """An `ActionForm` of a move for every cell, drawn independently; actions are `[B, cells]` long.

    Attributes:
        cells: how many. moves: choices of each.
    """

    cells: int
    moves: int

    @property
    def draws(self) -> int:
        return self.cells

    def actor(self, link: Links) -> nn.Module:
        return link(self.cells * self.moves, "actor", 0)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> MoveOdds:
        logits = outputs if allowed is None else outputs.masked_fill(~allowed, NEVER)
        return MoveOdds(logits.reshape(len(outputs), -1, self.moves))

    def config(self) -> Mapping[str, Any]:
        return {"moves": self.moves}


@dataclass(frozen=True)
class MoveOdds:
    """Independent choices at all cells, a `Head`: `logits` `[B, cells, moves]`; log-probs, entropies and KLs add up."""

    logits: Tensor

    def tempered(self, temperature: Tensor) -> MoveOdds:
        return MoveOdds(self.logits / temperature[:, None, None])

    def _all(self) -> Tensor:
        return torch.log_softmax(self.logits, -1)

    def logp(self, action: Tensor) -> Tensor:
        return self._all().gather(-1, action.long()[..., None]).sum((1, 2))

    def entropy(self) -> Tensor:
        logp = self._all()
        return -(logp.exp() * logp).sum((1, 2))

    def kl(self, other: MoveOdds) -> Tensor:
        logp = self._all()
        return (logp.exp() * (logp - other._all())).sum((1, 2))

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def draw(self, uniforms: Tensor) -> Tensor:
        """At every cell the choice at its quantile, `uniforms` `[B, cells]`."""
        mass = torch.softmax(self.logits.double(), -1).cumsum(-1)
        drawn = (uniforms.double()[..., None] * mass[..., -1:] >= mass).sum(-1)
        return drawn.clamp(max=self.logits.shape[-1] - 1)


@dataclass(frozen=True)
class MapSight:
    """A `SightForm`: square maps, `channels` numbers a cell, read by a `MapNetwork`, which no map is too large for.

    Attributes:
        moves: choices at each cell.
    """

    channels: int
    moves: int

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that weights depend on."""
        return {"channels": self.channels, "moves": self.moves}

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        if settings.body != "perceptron" or settings.normalise or wanted.offset or not hidden:
            raise ConfigurationError(
                "a whole map is read by a network of its own, whose channels are network.hidden, one number at least; "
                "drop network.body, network.normalise, and critics of joint states"
            )
        outputs = self.moves if wanted.actor else wanted.outputs
        return MapNetwork(self.channels, hidden, outputs, mean=not wanted.actor, last_gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {}


class MapNetwork(nn.Module):
    """A U-Net (Ronneberger et al. 2015): `outputs` numbers for every cell of a square map of any size.

    At each level two layers of 3 x 3 filters, rectified; the next level reads the largest of every 2 x 2 cells. On the
    way back each level reads what the level below gives, every cell twice, beside what it gave before. Maps are
    extended by zeros to a multiple of `2^(levels - 1)` cells. So shifting all but empty border by that many cells
    shifts the outputs.

    Args:
        hidden: channels of each level. mean: whether the result is the mean over cells, `[B, outputs]`, in place of
            `[B, cells * outputs]`.
    """

    def __init__(
        self, channels: int, hidden: Sequence[int], outputs: int, *, mean: bool, last_gain: float, key: Key
    ) -> None:
        super().__init__()
        self.channels, self.mean, self.levels = channels, mean, len(hidden)
        self.filters, self.shifts = nn.ParameterList(), nn.ParameterList()
        self.key, before = key, channels
        for wide in hidden:
            self._add(before, wide)
            self._add(wide, wide)
            before = wide
        for wide in reversed(hidden[:-1]):
            self._add(before + wide, wide)
            before = wide
        self._add(before, outputs, 1, last_gain)

    def _add(self, into: int, onto: int, span: int = 3, gain: float = math.sqrt(2)) -> None:
        part = torch.zeros(onto, into, span, span)
        nn.init.orthogonal_(part, gain, generator=self.key.derive("filter", len(self.filters)).torch())
        self.filters.append(part)
        self.shifts.append(torch.zeros(onto))

    def _layer(self, number: int, grid: Tensor) -> Tensor:
        part: Tensor = self.filters[number]
        return functional.conv2d(grid, part, self.shifts[number], padding=part.shape[-1] // 2)

    def forward(self, inputs: Tensor) -> Tensor:
        side = math.isqrt(inputs.shape[1] // self.channels)
        grid = inputs.reshape(len(inputs), self.channels, side, side)
        room = -side % 2 ** (self.levels - 1)
        grid = functional.pad(grid, (0, room, 0, room))
        number, passed = 0, list[Tensor]()
        for level in range(self.levels):
            if level:
                passed.append(grid)
                grid = functional.max_pool2d(grid, 2)
            for _ in range(2):
                grid = torch.relu(self._layer(number, grid))
                number += 1
        while passed:
            wider = functional.interpolate(grid, scale_factor=2.0, mode="nearest")
            grid = torch.relu(self._layer(number, torch.cat([wider, passed.pop()], 1)))
            number += 1
        cells = self._layer(number, grid)[..., :side, :side]
        return cells.mean((2, 3)) if self.mean else cells.permute(0, 2, 3, 1).flatten(1)
