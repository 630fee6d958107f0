"""MATS-LP: every agent searches a tree of what it sees, by a learnt policy (Skrynnik et al., arXiv:2312.15908).

A light network is trained by PPO in lifelong path finding, and paid for progress alone: `PROGRESS` for a cell nearer
to the goal than any since the goal was set (`ProgressReward`). At inference (`hocket.methods.marl.mats_lp.play`) each
agent makes of its window a small problem of its own: itself and the nearest others that it sees, on the known map. It
searches that by AlphaZero's rule, agent by agent within a step (`StepwiseSearch`), with the network's odds as prior and
its values at leaves, makes the first move, and plans again.

Ours are: the goal of another is guessed where a straight line along its last move ends at a wall or at the edge of the
window, and where it stands if it stood; all in a problem earn the sum of what each is paid; an agent draws its move in
proportion to the root's visits, since two that plan alike can stand in each other's way.
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
from hocket.methods.marl.mats_lp.search import PROGRESS
from hocket.stages import Shaping
from hocket.zoo.joint.paths import MOVES


def nearer(batch: Batch) -> NDArray[np.bool_]:
    """Whether each decision brought its agent nearer to its goal than it ever was since the goal was set, `[T]`.

    Read from joint states of every agent's cell and goal, and from the four steps of the guide at the end of what is
    seen: a step is nearer by one or further by one.
    """
    parts = batch.parts
    if parts is None or not batch.joint or any(state is None or state.shape[1] % 4 for state in batch.joint):
        raise ConfigurationError(
            "mats-lp pays for steps nearer to a goal, which this task does not state; use mapf:lifelong"
        )
    progress, start = list[NDArray[np.bool_]](), 0
    for turn, states in enumerate(batch.joint):
        column, last = 4 * int(batch.index[turn]), parts.final_joint[turn]
        assert states is not None
        assert last is not None
        rows = np.concatenate([states, np.asarray(last, states.dtype)[None]])[:, column : column + 4]
        moved = (rows[1:, :2] != rows[:-1, :2]).any(1)
        action = batch.action[start : start + len(states)].numpy()
        start += len(states)
        guide = np.asarray(batch.observation[turn])[:, -(len(MOVES) - 1) :] > 0
        toward = moved & guide[np.arange(len(action)), np.maximum(action - 1, 0)]
        change = np.where(toward, -1, np.where(moved, 1, 0))
        renewed = (rows[1:, 2:] != rows[:-1, 2:]).any(1)
        progress.append(_below(change, renewed))
    return np.concatenate(progress)


def _below(change: NDArray[np.int64], renewed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where the running sum of changes falls below all before; after a renewal it begins at 0."""
    below, total, least = np.zeros(len(change), bool), 0, 0
    for step, (more, new) in enumerate(zip(change.tolist(), renewed.tolist(), strict=True)):
        total += more
        below[step] = total < least
        least = min(least, total)
        if new:
            total = least = 0
    return below


@dataclass(frozen=True)
class ProgressReward(Shaping):
    """`reward` for every step that is nearer to the goal than any before, in place of all that the world pays.

    Attributes:
        reward: of a step.
    """

    reward: float = PROGRESS

    def __call__(self, batch: Batch) -> Batch:
        paid = self.reward * torch.from_numpy(nearer(batch)).double()[batch.occurrences.decision]
        return paid_at_decisions(batch, paid)


MATS_LP = IPPO.but(
    name="mats-lp",
    title="MATS-LP: decentralised tree search with a light policy as prior",
    source="Skrynnik et al., Decentralized Monte Carlo Tree Search, arXiv:2312.15908",
    catalogue_ids=("mats-lp",),
    axes=("search", "team", "environment"),
    formula="r = 0.1 [nearer than ever to the goal],  then IPPO;  in play  a ~ N(root, a),  "
    "argmax Q + c P sqrt(N) / (1 + N_a)  agent by agent",
    conventions={
        **IPPO.conventions,
        "rewards": "0.1 for a step nearer to the goal than any before, and nothing else; success is goals reached",
        "search": "hocket.methods.marl.mats_lp.play; 30 leaves, the agent and the two nearest others that it sees",
        "Q": "as paid, not scaled; the sum over the agents of a problem",
        "map": "known to all, as the guide has it; the paper's agents know what they have seen",
        "agents": "one network, without identities",
    },
    note="the search reaches more goals than paths that ignore others, and fewer than the drawn moves of its prior, "
    "most of all in crowds: what breaks a standstill there is chance",
    task="mapf:lifelong",
    requires=(Requirement.AGENTS,),
    shaping=(ProgressReward(),),
)
