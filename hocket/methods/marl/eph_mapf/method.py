"""EPH: action values with selective messages, and what makes them paths (Tang et al., arXiv:2403.07559).

Agents share a network of action values in `mapf:neighbours`, trained by DQN with the pay of `StepPay`. An agent hears
the neighbours without which it would act otherwise, and no others, by attention and two gated steps (`MessagedValues`).
In play (`hocket.methods.marl.eph_mapf.play`) four things are added, none of which is trained: of agents that would
collide the one with the highest value moves, and the others take their next best action; who has nobody under way near
it follows a shortest path; who is stuck between two cells plans around the others; and of several such players the best
solution is taken.

Pay, values, messages and additions follow the authors' code (ai4co/eph-mapf). Ours are: no memory of what was seen
before, but the last action; one round of messages, where theirs has a request and a reply; a perceptron of a window of
5 x 5 in place of a convolution of 9 x 9, and attention with one head; double backups; maps of 6 x 6, and in the place
of the curriculum, which begins with one agent, episodes in which some agents begin on their goals.
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
from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.methods.marl.eph_mapf.network import MessagedValues
from hocket.objectives.action_values import CriticLoss
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.stages import Shaping
from hocket.update.following import FollowingStep


@dataclass(frozen=True)
class StepPay(Shaping):
    """What every step of path finding pays its agent, in place of what the world pays.

    Read from joint states of every agent's cell and goal, and from actions, of which 0 is to stay.

    Attributes:
        step: of a move, and of staying elsewhere than on the goal; staying there pays 0. collision: of a move that a
            wall or another prevented. finish: of everybody's last step, where all stand on their goals after it.
    """

    step: float = -0.075
    collision: float = -0.5
    finish: float = 3.0

    def __call__(self, batch: Batch) -> Batch:
        parts = batch.parts
        if parts is None or not batch.joint or any(states is None or states.shape[1] % 4 for states in batch.joint):
            raise ConfigurationError(
                "eph-mapf pays by cells and goals, which this task does not state; use mapf:neighbours"
            )
        paid, start = list[NDArray[np.float64]](), 0
        for turn, states in enumerate(batch.joint):
            last = parts.final_joint[turn]
            assert states is not None
            assert last is not None
            cells = np.concatenate([states, np.asarray(last, states.dtype)[None]]).reshape(len(states) + 1, -1, 4)
            action = batch.action[start : start + len(states)].numpy()
            start += len(states)
            paid.append(self.of_steps(cells, int(batch.index[turn]), action))
        return paid_at_decisions(batch, torch.from_numpy(np.concatenate(paid))[batch.occurrences.decision])

    def of_steps(self, cells: NDArray[np.float32], agent: int, action: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of one agent's actions `[L]`, with all cells and goals before and after them, `[L + 1, n, 4]`."""
        there = (cells[..., :2] == cells[..., 2:]).all(-1)
        stood = (cells[1:, agent, :2] == cells[:-1, agent, :2]).all(-1)
        paid = np.where(stood & (action != 0), self.collision, self.step)
        paid[there[:-1, agent] & (action == 0)] = 0.0
        if there[-1].all():
            paid[-1] = self.finish
        return paid


EPH_MAPF = Recipe(
    name="eph-mapf",
    title="EPH: values with selective messages, and priorities, paths and escapes in play",
    source="Tang et al., Ensembling Prioritized Hybrid Policies for Multi-agent Pathfinding, arXiv:2403.07559",
    family="multi-agent",
    catalogue_ids=("eph-mapf",),
    axes=("policy", "search", "team"),
    formula="h_i = e(o_i),  j asked iff argmax Q(o_i) != argmax Q(o_i without j),  y_i = GRU(attention of asked h_j, "
    "h_i),  h'_i = GRU(f(y_i), y_i),  Q = V(h') + A(h') - mean A(h'),  L = (Q - y)^2,  y = r_2 + gamma^2 Q-(s'', "
    "argmax Q(s'', a))",
    conventions={
        **STORED,
        "updates": "a gradient for every ten decisions, each on 64 rows drawn by their errors",
        "pay": "-0.075 a step, 0 on the goal, -0.5 for a collision, 3 when all have arrived, as in the authors' code",
        "backups": "of two steps, and double; the authors' take the slow network's best action",
        "messages": "one round, of what neighbours see now; the authors' has a request and a reply, of memories",
        "memory": "none; the last action is seen",
        "slow copies": "of the network, rate 0.02 after every gradient; the authors' is copied every 1,750",
        "collisions in training": "all that would enter a cell stay; the authors let one of them in",
        "play": "hocket.methods.marl.eph_mapf.play; evaluation plays the values alone",
        "agents": "four, with one network and without numbers",
        "curriculum": "how many agents have a way to go is drawn for each episode; the authors begin with one agent",
        "discount": "0.95 a step; the authors' is 0.99, with 150,000 gradients",
    },
    task="mapf:neighbours",
    requires=(Requirement.AGENTS,),
    shaping=(StepPay(),),
    store=Transitions(size=100_000, rows=64, gamma=0.95, steps=2, take="prioritised", ratio=0.1, begin=2000),
    credit=Uniform(),
    objective=CriticLoss(MessagedValues(over=20_000), coefficient=1.0),
    update=FollowingStep(lr=2e-3, clip_norm=10.0, schedule="linear", rate=0.02),
)
