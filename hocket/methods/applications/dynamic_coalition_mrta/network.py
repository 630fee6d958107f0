"""Networks over maps: a robot's scores of the cells around it, and a critic that reads the whole arena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_parts import ControlPart, NetworkRequest, PartHost
from hocket.policies.settings import NetworkSettings


@dataclass(frozen=True)
class TaskMaps:
    """A `SightForm`: square maps around a robot, `channels` numbers a cell, of which one is the others' intentions.

    An action is a cell. The joint state that a critic reads is a map of the arena, with a channel less, and the critic
    reads that alone; where it reads none, the map around the robot. Weights know no size of either, and no robots.

    Attributes:
        intentions: the channel.
    """

    channels: int
    intentions: int

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that weights depend on."""
        return {"channels": self.channels}

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> nn.Module:
        cells, rest = divmod(wanted.inputs - wanted.offset, self.channels)
        if settings.body != "perceptron" or settings.normalise or not hidden or rest or math.isqrt(cells) ** 2 != cells:
            raise ConfigurationError(
                "maps of tasks are read alone, by a network whose channels are network.hidden, one number at least; "
                "drop network.body, network.normalise, ids and wrappers of the task"
            )
        if wanted.actor:  # One channel more: how far cells are.
            return CellScores(MapLayers((self.channels + 1, *hidden, 1), wanted.gain, key), self.intentions)
        channels = self.channels - bool(wanted.offset)
        return ArenaValue(MapLayers((channels, *hidden, wanted.outputs), wanted.gain, key), wanted.offset)

    def config(self) -> Mapping[str, Any]:
        """A joint state is a map, and no weight depends on its size, which a policy would state otherwise."""
        return {"joint": "map"}


class MapLayers(nn.Module):
    """Square maps `[B, sizes[0], S, S]` to `[B, sizes[-1], S, S]`, for any S.

    A layer is 3 x 3 filters over zeros outside, beside a linear map of the mean over cells, rectified; the last one is
    linear, cell by cell. Weights are orthogonal with gain sqrt(2), the last with `last_gain`; biases are 0.
    """

    def __init__(self, sizes: Sequence[int], last_gain: float, key: Key) -> None:
        super().__init__()
        self.filters, self.means, self.shifts = nn.ParameterList(), nn.ParameterList(), nn.ParameterList()
        last = len(sizes) - 2
        for number, (into, onto) in enumerate(itertools.pairwise(sizes)):
            span, gain = (1, last_gain) if number == last else (3, math.sqrt(2))
            part, mean = torch.zeros(onto, into, span, span), torch.zeros(onto, into)
            nn.init.orthogonal_(part, gain, generator=key.derive("filter", number).torch())
            nn.init.orthogonal_(mean, gain, generator=key.derive("mean", number).torch())
            self.filters.append(part)
            self.shifts.append(torch.zeros(onto))
            if number < last:
                self.means.append(mean)

    def forward(self, maps: Tensor) -> Tensor:
        for part, mean, shift in zip(self.filters, self.means, self.shifts, strict=False):
            every = functional.linear(maps.mean((2, 3)), mean)
            maps = torch.relu(functional.conv2d(maps, part, shift, padding=1) + every[..., None, None])
        return functional.conv2d(maps, self.filters[-1], self.shifts[-1])


class CellScores(nn.Module):
    """A score for every cell of a map, `[B, C * cells]` to `[B, cells]`; it reads intentions where it is `sharing`.

    Besides it reads how many steps every cell is from the robot, over 8.
    """

    def __init__(self, layers: MapLayers, intentions: int) -> None:
        super().__init__()
        self.layers, self.intentions, self.sharing = layers, intentions, False

    def forward(self, inputs: Tensor) -> Tensor:
        maps = _square(inputs, self.layers.filters[0].shape[1] - 1)
        if not self.sharing:
            maps = maps.clone()
            maps[:, self.intentions] = 0.0
        away = (torch.arange(maps.shape[-1], device=maps.device) - maps.shape[-1] // 2).abs()
        steps = (torch.maximum(away[:, None], away) / 8).to(maps).expand(len(maps), 1, -1, -1)
        scores: Tensor = self.layers(torch.cat([maps, steps], 1)).flatten(1)
        return scores


class ArenaValue(nn.Module):
    """The mean over cells of what layers give: of the first `offset` numbers, or of all where it is 0."""

    def __init__(self, layers: MapLayers, offset: int) -> None:
        super().__init__()
        self.layers, self.offset = layers, offset

    def forward(self, inputs: Tensor) -> Tensor:
        read = inputs[:, : self.offset] if self.offset else inputs
        value: Tensor = self.layers(_square(read, self.layers.filters[0].shape[1])).mean((2, 3))
        return value


def _square(rows: Tensor, channels: int) -> Tensor:
    """Rows `[B, C * S * S]` as maps `[B, C, S, S]`."""
    side = math.isqrt(rows.shape[1] // channels)
    return rows.reshape(len(rows), channels, side, side)


@dataclass(frozen=True)
class SharedIntentions(ControlPart):
    """The actor reads the channel of what others intend."""

    needed: ClassVar[str] = "maps with a channel of what others intend"
    advice: ClassVar[str] = "choose the task coalitions"

    def begin(self, host: PartHost) -> None:
        actor = host.module.actor
        if not isinstance(actor, CellScores):
            raise ConfigurationError(f"policy {host.name!r} needs {self.needed}; {self.advice}")
        actor.sharing = True

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {type(self).__name__: True}
