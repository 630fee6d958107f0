"""ScalingInter-RL: GRPO on episodes of few turns first, of more turns later (AgentGym-RL, Xi et al., arXiv:2509.08755).

A hook (`TurnHorizon`) bounds the turns of an episode by a schedule over steps, 10, then 20, then 30 as the authors'
code has it; credit and loss are GRPO's, and any other recipe can list the hook as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.stages import Hook
from hocket.types import Assignment


@dataclass(frozen=True)
class TurnHorizon(Hook):
    """At most `turns[0]` turns per episode up to step `until[0]`, then `turns[1]` up to `until[1]`, and so on.

    ScalingInter-RL (arXiv 2509.08755). It depends on the step alone. A turn is one call of an agent, whichever agent's;
    the run's own limits hold besides. An episode of control is one turn.

    Attributes:
        turns: one more than `until`; a single one is a fixed horizon.
        until: the last steps (from 1) of all horizons but the last, rising.
    """

    turns: tuple[int, ...] = (10, 20, 30)
    until: tuple[int, ...] = (100, 200)

    def __post_init__(self) -> None:
        if len(self.turns) != len(self.until) + 1:
            raise ValueError(f"{len(self.until)} steps in until need {len(self.until) + 1} turns, not {self.turns}")
        if min(self.turns) < 1:
            raise ValueError(f"turns must be at least 1, not {self.turns}")
        if any(left >= right for left, right in pairwise((0, *self.until))):
            raise ValueError(f"until must be at least 1 and rise, not {self.until}")

    def at(self, step: int) -> int:
        """The most turns of an episode at `step` (from 1)."""
        return self.turns[sum(step > last for last in self.until)]

    def assign(self, assignment: Assignment, step: int) -> Assignment:
        return replace(assignment, turns=self.at(step))


AGENTGYM_RL = GRPO.but(
    name="agentgym-rl",
    title="ScalingInter-RL: episodes of few turns first, of more turns later",
    source="Xi et al., AgentGym-RL, arXiv:2509.08755, and the authors' code",
    family="agents",
    catalogue_ids=("agentgym-rl",),
    axes=("curriculum", "rollout"),
    formula=f"{GRPO.formula};  at most h(t) turns at step t: 10 up to step 100, 20 up to step 200, then 30",
    conventions={
        **GRPO.conventions,
        "horizon": "10, 20, 30 turns, those of the released configurations for household science and crafting; others: "
        "hooks.0.turns = [6, 13, 20] BabyAI, [8, 12, 15] web pages, [5, 8, 10] search",
        "which step": "steps count from 1; step 100 still has the first horizon",
        "what a turn is": "one call of an agent, all agents' counted together; tools and environments take none",
        "at the horizon": "the episode ends and keeps what it has earned; one whose workflow gives rewards at its end "
        "alone gets none",
        "evaluation": "has the run's own limits, not the horizon",
        "after a resume": "the horizon is a function of the step alone",
        "objective": "GRPO, as in the released scripts; any recipe takes a horizon: .but(hooks=(TurnHorizon(...),))",
    },
    task="maze?width=3&height=3&reading=number",
    requires=(Requirement.TURNS,),
    hooks=(TurnHorizon(turns=(10, 20, 30), until=(100, 200)),),
)
