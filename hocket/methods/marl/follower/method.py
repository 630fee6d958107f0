"""Learn to Follow: plan a path, and learn only to keep to it among others (Skrynnik et al., arXiv:2310.01207).

In `mapf:planned` every agent plans for itself at each step, on costs that lead around the middle of a map and around
cells where it has seen others (`PlannedPaths` of `hocket.methods.marl.follower.guided_paths`), and sees its path. A
shared network chooses the move, trained by PPO, and its only reward is a small constant whenever the path's next cell
was entered (`FollowedPath`): goals lie behind paths, so what is left to learn is how to get past others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.signals import paid_at_decisions
from hocket.methods.marl.ippo import IPPO
from hocket.stages import Shaping


def followed(batch: Batch) -> NDArray[np.bool_]:
    """Whether each decision's agent entered the next cell of the path that it had planned before, `[T]`.

    Read from joint states that tell every agent's cell, goal and next cell, two numbers each (`mapf:planned`).
    """
    parts = batch.parts
    if parts is None or not batch.joint or any(one is None or one.shape[1] % 6 for one in batch.joint):
        raise ConfigurationError(
            "follower rewards steps along a path that was planned, which this task does not tell; use mapf:planned"
        )
    found = []
    for turn, states in enumerate(batch.joint):
        assert states is not None
        own = 6 * int(batch.index[turn])
        last = parts.final_joint[turn]
        assert last is not None
        after = np.concatenate([states[1:], np.asarray(last, states.dtype)[None]])
        found.append((after[:, own : own + 2] == states[:, own + 4 : own + 6]).all(1))
    return np.concatenate(found)


@dataclass(frozen=True)
class FollowedPath(Shaping):
    """`reward` for every step along the planned path, in place of all that the world pays.

    Attributes:
        reward: of a step; the paper's code has 0.01.
    """

    reward: float = 0.01

    def __call__(self, batch: Batch) -> Batch:
        paid = self.reward * torch.from_numpy(followed(batch)).double()[batch.occurrences.decision]
        return paid_at_decisions(batch, paid)


FOLLOWER = IPPO.but(
    name="follower",
    title="Learn to Follow: planning with learnt avoidance",
    source="Skrynnik et al., Learn to Follow, arXiv:2310.01207",
    catalogue_ids=("follower",),
    axes=("team", "policy", "search"),
    formula="path_i = cheapest on max mean distance / mean distance + times seen there,  "
    "r = 0.01 [the next cell of path_i was entered],  then IPPO",
    conventions={
        **IPPO.conventions,
        "rewards": "0.01 for a step along the path, and nothing else; success is goals reached",
        "static cost": "the largest mean distance of all cells over a cell's own, as in the authors' planner",
        "dynamic cost": "1 for each time that another was seen in a cell since the goal was set, as there",
        "history": "none; the paper's network is recurrent",
        "agents": "one network, not told apart",
    },
    task="mapf:planned",
    requires=(Requirement.AGENTS,),
    shaping=(FollowedPath(),),
)
