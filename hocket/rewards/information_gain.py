"""A turn is worth what it adds to the policy's belief in the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hocket.core.method_columns import BELIEFS
from hocket.rewards.shaping import added
from hocket.stages import Shaping
from hocket.types import Batch, Level


def gains(beliefs: Sequence[float | None], agents: Sequence[int]) -> list[float]:
    """What each turn added, `[T]`: the belief when its agent spoke next minus that when it spoke.

    0 for an agent's last turn, whose worth the outcome tells, and where one of the two beliefs is unknown. So an
    agent's gains sum to its last belief minus its first.
    """
    found = [0.0] * len(beliefs)
    last: dict[int, int] = {}
    for place, agent in enumerate(agents):
        if agent in last:
            before, after = beliefs[last[agent]], beliefs[place]
            found[last[agent]] = 0.0 if before is None or after is None else after - before
        last[agent] = place
    return found


@dataclass(frozen=True)
class InformationGain(Shaping):
    """`r_t += weight (b_t - b_{t-1})` for every turn but an agent's last: IGPO (arXiv 2510.14967).

    b_t is the belief in the right answer after turn t and what it led to, as `hocket.rollout.WithBeliefs` measures it
    and writes it into the column `beliefs`. A turn shared by several trajectories keeps the gain of the first.

    Raises:
        ConfigurationError: on a call, without that column.
    """

    weight: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        known = BELIEFS.read(batch, "InformationGain")
        values = torch.zeros(batch.turns, dtype=torch.float64)
        given = torch.zeros(batch.turns, dtype=torch.bool)
        for number, path in enumerate(_paths(batch)):
            beliefs = known[number]
            if beliefs is None:
                continue
            held = [beliefs[place] if place < len(beliefs) else None for place in batch.index[path].tolist()]
            own = torch.tensor(gains(held, batch.agent[path].tolist()), dtype=torch.float64)
            fresh = ~given[path]
            values[path[fresh]] = own[fresh]
            given[path] = True
        return added(batch, Level.TURN, self.weight * values)


def _paths(batch: Batch) -> list[torch.Tensor]:
    """The turns of each trajectory in time order."""
    seen = batch.occurrences
    found = []
    for number in range(batch.trajectories):
        turns = batch.turn[seen.decision[seen.trajectory == number]]
        found.append(torch.unique_consecutive(turns))
    return found
