"""Multi-turn GRPO: turns before the last get an advantage of their own (Zeng et al., arXiv:2505.11821).

Turn rewards and outcome are normalised apart; decisions before the tool's result get both, those after it the outcome's
alone: `TurnAndOutcome` of `hocket.credit.turn_level`.
"""

from __future__ import annotations

from hocket.credit.turn_level import TurnAndOutcome
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO

MT_GRPO = GRPO.but(
    name="mt-grpo",
    title="Multi-turn GRPO with turn-level advantages",
    source="Zeng et al., arXiv:2505.11821",
    family="agents",
    catalogue_ids=("mt-grpo",),
    axes=("credit", "reward"),
    formula="A = N(R_O) + c N(R_T) before the tool's result, N(R_O) after it,  N(x) = (x - mean x)/(std x + eps)",
    conventions={
        **GRPO.conventions,
        "R_O and R_T": "the reward of the trajectory, and the sum of its turns' rewards from the turn on",
        "before the result": "every turn but the last; a trajectory of one turn never called the tool",
        "no tool result": "N(R_O + c R_T) throughout (the authors weigh this sum by weights of their own)",
        "more than two turns": "each turn before the last has N of the turn rewards from it on, 0 for those who never "
        "come there; the paper has two turns",
        "c": "credit.coefficient = 1",
        "variant": "credit.form = cumulative: N(R_T + gamma R_O) before the result",
        "aggregation": "mean over a trajectory's decisions, then over trajectories (the authors: over all decisions)",
        "tool output": TURNS["tool output"],
        "bias": "with scale null, c = 1 and sums over decisions the expected step is (G - 1)/G of the policy gradient, "
        "however long the policy plays, because everyone enters the mean",
    },
    credit=TurnAndOutcome(),
)
