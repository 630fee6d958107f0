"""How many turns an episode may have, and when."""

from __future__ import annotations

from hocket.hooks import TurnHorizon
from hocket.recipes.group_relative import GRPO

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
    hooks=(TurnHorizon(turns=(10, 20, 30), until=(100, 200)),),
)
