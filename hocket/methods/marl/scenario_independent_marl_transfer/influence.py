"""Skirmishes that are seen and acted in alike, whatever the number of soldiers and foes (arXiv:2402.08184).

Influence maps stand in place of lists of units, and one action, an attack at the nearest foe, in place of one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.core.wrappers import WorldWrapper
from hocket.zoo.joint.skirmish import ATTACK, Battlefield, Bools, Ints, Skirmish

Floats = NDArray[np.float64]

DECAY = 0.5
"""What is left of an influence a cell further off."""
OWN = 4
"""Numbers of an agent itself: row, column, health, and whether it stands."""


@dataclass(frozen=True)
class InfluenceMaps(WrappedWorld):
    """A `Skirmish` whose observations, joint state and actions have sizes that depend on `cells` alone.

    A unit's influence at a cell is its share of health times `DECAY` to the power of its distance. An agent sees its
    own numbers, and two maps of `cells` by `cells` around itself: the sums of the influences of the other soldiers and
    of the foes that it knows of. The joint state is two maps of as many points, spread evenly over the ground, of all
    soldiers and of all foes. Actions are the five moves, and an attack at the nearest foe in reach; of equals the
    weakest, then the first by row and column.

    Attributes:
        cells: of a side of a map; odd, so that the agent is in the middle.
    """

    cells: int = 7

    def __post_init__(self) -> None:
        if not isinstance(self.world, Skirmish):
            raise ConfigurationError(
                f"task {self.world.name}: influence = {self.cells} is for skirmishes; use skirmish:3v3, or drop it"
            )
        if self.cells < 3 or self.cells % 2 == 0:
            raise ConfigurationError(
                f"task {self.world.name}: influence = {self.cells}; a map has an odd number of cells, 3 at least"
            )

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(OWN + 2 * self.cells**2, ATTACK + 1),) * len(self.agents)

    @property
    def joint(self) -> int:
        return 2 * self.cells**2

    def open(self, width: int) -> JointEnvironment:
        return _InfluencedField(self, width)


class _InfluencedField(WrappedCourse):
    """The copies."""

    def __init__(self, world: InfluenceMaps, width: int) -> None:
        self._field = cast(Battlefield, world.world.open(width))
        super().__init__(self._field)
        self.world = world

    def step(self, actions: Sequence[NDArray[Any]], live: Bools) -> Moved:
        chosen, target = np.stack(actions, 1).astype(int), nearest(self._field)
        return self._course.step(list(np.where(chosen == ATTACK, ATTACK + target, chosen).T), live)

    def allowed(self) -> list[Bools]:
        masks = np.stack(self._field.allowed(), 1)
        alike = np.concatenate([masks[..., :ATTACK], masks[..., ATTACK:].any(-1, keepdims=True)], -1)
        return list(alike.transpose(1, 0, 2))

    def seen(self) -> list[NDArray[np.float32]]:
        field, n = self._field, self._field.n
        side = np.arange(self.world.cells) - self.world.cells // 2
        offsets = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
        shares, knows = _shares(field), field.knows()
        result = []
        for number, plain in enumerate(field.seen()):
            weight = shares * knows[:, number]
            weight[:, number] = 0.0
            maps = influence(field.place, weight, field.place[:, number, None] + offsets, n)
            shown = maps.reshape(len(plain), -1) * field.standing[:, number, None]
            result.append(np.concatenate([plain[:, :OWN], shown], 1).astype(np.float32))
        return result

    def state(self) -> NDArray[np.float32]:
        field, cells = self._field, self.world.cells
        points = np.linspace(0, field.world.size - 1, cells)
        grid = np.stack(np.meshgrid(points, points, indexing="ij"), -1).reshape(1, -1, 2)
        maps = influence(
            field.place, _shares(field), np.broadcast_to(grid, (len(field.time), *grid.shape[1:])), field.n
        )
        return maps.reshape(len(field.time), -1).astype(np.float32)


def _shares(field: Battlefield) -> Floats:
    """The health of every unit over what it began with, `[B, n + m]`."""
    full = np.where(np.arange(field.health.shape[1]) < field.n, field.world.health, field.world.strength)
    share: Floats = field.health / full
    return share


def influence(place: Ints, weight: Floats, points: NDArray[Any], soldiers: int) -> Floats:
    """Sums of influences at points `[B, P, 2]`, `[B, 2, P]`: of the first `soldiers` units, and of the others.

    Args:
        place: of units, `[B, K, 2]`. weight: what each weighs at its place, `[B, K]`.
    """
    away = np.abs(points[:, None] - place[:, :, None]).max(-1)  # [B, K, P]
    strength = weight[..., None] * np.power(DECAY, away)
    return np.stack([strength[:, :soldiers].sum(1), strength[:, soldiers:].sum(1)], 1)


def nearest(field: Battlefield) -> Ints:
    """The foe that each soldier attacks, `[B, n]`, by number; 0 where none is in reach."""
    n, size = field.n, field.world.size
    away, reach = field.away()[:, :n, n:], field.in_reach()[:, :n, n:]
    row, column = field.place[:, None, n:, 0], field.place[:, None, n:, 1]
    order = ((away * (field.world.strength + 1) + field.health[:, None, n:]) * size + row) * size + column
    first: Ints = np.where(reach, order, np.iinfo(np.int64).max).argmin(-1)
    return first


INFLUENCE = WorldWrapper(
    name="influence=CELLS",
    description="soldiers see maps of so many cells a side, whatever the number of units, and attack the nearest foe",
    settings={"influence": int},
    layer=1,
    wrap=lambda world, influence: InfluenceMaps(world, influence),
    suggested={"curriculum.prompts": 32, "update.lr": 3e-3, "steps": 40},
)
