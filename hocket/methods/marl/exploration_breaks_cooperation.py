"""How exploration breaks cooperation where agents share parameters: a repeated stag hunt in groups of unequal size.

Agents hunt a stag in their group: who joins earns 4 if all of the group do, and 0 else; who stays away earns `safe`.
All joining is stable and pays most. Agents act epsilon-greedily, so in a large group somebody stays away too often, and
there staying away is the better answer to noise; in a pair it is not. An agent sees whether its group's last hunt
succeeded, and not how large the group is. So a table of action values that all agents share mixes both situations, and
cooperation ends in pairs too; with a table of its own, or if it sees the size, a pair goes on.

The paper (of which the abstract was at hand) shows this with networks of value-based agents in dynamic dilemmas. Here
values are tables, learnt by Q-learning from a population that cooperates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.keys import Key

Array = NDArray[np.float64]
Parameters = Literal["shared", "separate", "identified"]
"""One table for all; a table for each; one table whose rows tell the size of the group as well."""

STAG = 4.0


@dataclass(frozen=True)
class GroupHunt:
    """Groups that hunt again and again.

    Attributes:
        sizes: of the groups. safe: what staying away pays. discount: of later hunts.
    """

    sizes: tuple[int, ...] = (2, 2, 4)
    safe: float = 3.4
    discount: float = 0.5

    @property
    def group(self) -> NDArray[np.int64]:
        """The group of each agent, `[n]`."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def joined(self, joins: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether all of an agent's group join, `[.., n]`."""
        missing = ~joins
        away = np.stack([missing[..., self.group == item].any(-1) for item in range(len(self.sizes))], -1)
        entire: NDArray[np.bool_] = ~away[..., self.group]
        return entire

    def paid(self, joins: NDArray[np.bool_]) -> Array:
        """What each agent earns, `[.., n]`."""
        earned: Array = np.where(joins, STAG * self.joined(joins), self.safe)
        return earned


@dataclass(frozen=True)
class HuntCurves:
    """What was learnt: `joining` `[hunts, seeds, n]`, whether an agent would join; the tables `[seeds, T, O, 2]`."""

    joining: NDArray[np.bool_]
    tables: Array

    def rate(self, last: int) -> Array:
        """The share of agents that would join, over the last hunts, by seed."""
        share: Array = self.joining[-last:].mean((0, 2))
        return share


def learnt(
    hunt: GroupHunt,
    parameters: Parameters,
    *,
    epsilon: float,
    hunts: int = 3000,
    rate: float = 0.004,
    seeds: int = 12,
    falls: bool = False,
    key: Key | None = None,
) -> HuntCurves:
    """Q-learning of all agents at once, from values by which all join; agents that share rows move them by the mean.

    Args:
        epsilon: the chance of a random action; with `falls` it falls to 0 in a line.
    """
    rng, group = (key or Key.of(0)).numpy(), hunt.group
    count, sizes = len(group), np.array(hunt.sizes)[group]
    kinds = np.unique(sizes, return_inverse=True)[1]
    table = np.arange(count) if parameters == "separate" else np.zeros(count, np.int64)
    kind = kinds if parameters == "identified" else np.zeros(count, np.int64)
    alike = (table[:, None] == table) & (kind[:, None] == kind)
    step = rate / alike.sum(-1)
    values = np.empty((seeds, table.max() + 1, 2 * (kind.max() + 1), 2))
    values[..., 0], values[..., 1] = hunt.safe / (1 - hunt.discount), STAG / (1 - hunt.discount)
    each = np.arange(seeds)[:, None]
    sight = np.broadcast_to(2 * kind + 1, (seeds, count))
    joining = np.zeros((hunts, seeds, count), bool)
    for number in range(hunts):
        chance = epsilon * (1 - number / hunts) if falls else epsilon
        present = values[each, table, sight]
        joining[number] = present[..., 1] > present[..., 0]
        wild = rng.random((seeds, count)) < chance
        joins = np.where(wild, rng.random((seeds, count)) < 0.5, joining[number])
        onward = 2 * kind + hunt.joined(joins)
        target = hunt.paid(joins) + hunt.discount * values[each, table, onward].max(-1)
        place = each, table, sight, joins.astype(np.int64)
        np.add.at(values, place, step * (target - values[place]))
        sight = onward
    return HuntCurves(joining, values)


EXPLORATION_BREAKS_COOPERATION = Analysis(
    name="exploration-breaks-cooperation",
    title="How exploration breaks cooperation in shared-policy multi-agent reinforcement learning",
    where="docs/control.md, exploration and shared parameters",
)
