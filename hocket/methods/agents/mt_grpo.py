"""Multi-turn GRPO: turns before the last get an advantage of their own (Zeng et al., arXiv:2505.11821).

Turn rewards and outcome are normalised apart; decisions before the tool's result get both, those after it the outcome's
alone: `TurnAndOutcome` of `hocket.credit.turn_level`. A turn earns by its calls, at once (`RewardedCalls`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_use import ToolUse
from hocket.agents.workflows.workflow import Outcome
from hocket.core.columns import CALLS
from hocket.core.requirements import Requirement
from hocket.credit.turn_level import TurnAndOutcome
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO
from hocket.rewards.verifiers import allowed_answers
from hocket.types import Scenario


@dataclass(frozen=True)
class RewardedCalls(ToolUse):
    """Tools as in `ToolUse`, and a turn earns at once by what its calls brought: the turn reward of MT-GRPO.

    The last turn, which answers, earns 0: what it is worth is the outcome.

    Attributes:
        executed: what a turn earns whose calls could all be carried out.
        found: what it earns more where the right answer stands in a result. Of a scenario without a known answer
            nothing is found.
    """

    name = "rewarded-calls"
    description = "tools whose calls earn at once (MT-GRPO)"

    executed: float = 0.2
    found: float = 0.5

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        outcome = await super().play(scenario, team)
        made = outcome.info[CALLS.name]
        turns = [0.0] * (made[-1]["turn"] + 2 if made else 1)
        for place in {call["turn"] for call in made}:
            calls = [call for call in made if call["turn"] == place]
            turns[place] += self.executed * all(call["worked"] for call in calls)
            turns[place] += self.found * any(call["worked"] and _holds(call["result"], scenario) for call in calls)
        return replace(outcome, turn_rewards={"call": turns})


def _holds(result: str, scenario: Scenario) -> bool:
    """Whether a right answer stands in a tool's result, in any case."""
    wholly = (rf"(?<!\w){re.escape(one)}(?!\w)" for one in allowed_answers(scenario.answer) if one)
    return any(re.search(one, result, re.IGNORECASE) for one in wholly)


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
        "turn reward": "0.2 for calls that could be carried out and 0.5 where the right answer stands in a result, "
        "chosen here: workflow settings executed and found; 0 for the turn that answers",
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
    task="calculator?digits=5",
    requires=(Requirement.TURNS, Requirement.TURN_REWARDS),
    workflow="rewarded-calls",
    credit=TurnAndOutcome(),
)
