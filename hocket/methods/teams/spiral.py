"""SPIRAL: self-play in which every role has a baseline of its own (Liu et al., arXiv:2506.24119).

In a two-player game who moves first, or holds which role, decides what may be expected; a baseline shared by the roles
makes one of them praise bad play. Role-conditioned advantage estimation (`RoleBaselines`) subtracts from what a role
earned the running mean of what that role earned in earlier games.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_count
from hocket.credit.units import agent_returns, turn_units
from hocket.methods.base.reinforce import REINFORCE_BASELINE
from hocket.stages import Credit, State


@dataclass(frozen=True)
class RoleBaselines(Credit):
    """`A = R_p - b_p` at every turn of role p: what its player earned in the game less the role's running mean.

    Stateful. Games come in the order in which they were asked for; each is credited with the baselines as the games
    before it left them, which then move, `b_p <- decay b_p + (1 - decay) R_p`. So a game's own outcome is not in its
    baseline and the gradient stays unbiased. Baselines begin at `start`. R_p is what the role's player earned in its
    turns and decisions; the reward of the whole trajectory is every player's. Players none of whose decisions counts
    leave their role's baseline alone.

    Attributes:
        decay: 0.95 in the release. start: the baseline before a role's first game, 0 there.
    """

    decay: float = 0.95
    start: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must lie in [0, 1), not {self.decay}")

    def init(self) -> State:
        """No role has played."""
        return {"baselines": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        """The batch's occurrences with advantages `[E]` float64, and the state after these games."""
        seen, baselines = batch.occurrences, dict(state["baselines"])
        units = turn_units(batch)
        assert units.turn is not None
        earned = agent_returns(batch, units, gamma=1.0)
        counted = segment_count(units.member[seen.weight != 0], len(earned)) > 0
        roles, agents = batch.role[units.turn].tolist(), batch.agent[units.turn].tolist()
        players: dict[tuple[int, int], list[int]] = {}
        for visit, trajectory in enumerate(units.trajectory.tolist()):
            players.setdefault((trajectory, agents[visit]), []).append(visit)
        credit = torch.zeros(len(earned), dtype=torch.float64)
        for visits in sorted(players.values(), key=lambda visits: int(batch.order[units.trajectory[visits[0]]])):
            if counted[visits].any():
                role, whole = batch.names["role"][roles[visits[0]]], float(earned[visits[0]])
                before = baselines.get(role, self.start)
                credit[visits] = whole - before
                baselines[role] = self.decay * before + (1 - self.decay) * whole
        advantage = torch.where(seen.weight != 0, credit[units.member], 0.0)
        return replace(seen, advantage=advantage), {"baselines": baselines}


SPIRAL = REINFORCE_BASELINE.but(
    name="spiral",
    title="Self-play with role-conditioned advantages",
    source="Liu et al., SPIRAL, arXiv:2506.24119, and the released code",
    family="teams",
    axes=("team", "credit", "environment"),
    formula="L = -1/N sum_i sum_t (R_i,p(t) - b_p(t)) log pi(a_it | s_it),  b_p <- 0.95 b_p + 0.05 R_p after each game",
    conventions={
        **REINFORCE_BASELINE.conventions,
        "baseline": "of the role, 0.95 of the old and 0.05 of the new, from 0; games in order, before their own "
        "outcome enters",
        "several games": "share the roles' baselines, as in the release; the paper keeps one per game and role",
        "aggregation": f"{REINFORCE_BASELINE.conventions['aggregation']}; in the release a turn is a sample: its sum "
        "over the limit of a reply, mean over the turns with an advantage, clipped at 0.2, two epochs",
        "reward": "all that a role's player earned in the game, at each of its turns",
        "who learns": "one policy plays all roles",
        "malformed moves": "the environment's: they lose the game at once",
    },
    note="not seen to act with the shipped model, which loses games by its first illegal move, before the second role",
    task="openspiel:kuhn_poker",
    requires=(Requirement.AGENTS,),
    credit=RoleBaselines(),
)
