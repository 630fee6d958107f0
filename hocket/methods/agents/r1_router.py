"""R1-Router: at each step a model says whether it needs knowledge, and from which base (Peng et al., arXiv:2505.22095).

A step earns by itself: a call whose result brings an article that is still needed, the last reply by being right
(`RoutedCalls`). Step-GRPO normalises each step's reward among the samples' steps of the same number, in place of one
advantage of the outcome for all steps (`TurnRelative` with nothing to come). The paper's bases hold texts, pictures and
tables; here they hold texts. Its abstract does not list the rewards of steps, which are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_use import ToolUse
from hocket.agents.workflows.workflow import Outcome
from hocket.core.batch import GroupBy
from hocket.core.columns import CALLS
from hocket.core.requirements import Requirement
from hocket.credit.turn_level import TurnRelative
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO
from hocket.types import Scenario


@dataclass(frozen=True)
class RoutedCalls(ToolUse):
    """Tools as in `ToolUse`, and a turn earns at once where its calls bring an article that is needed and new.

    Needed are the titles in `metadata["gold"]`; an article stands in a result as a line `title: text`. A turn whose
    calls bring nothing needed, or what an earlier turn has brought, earns 0, and so does the turn that answers: what it
    is worth is the outcome.

    Attributes:
        useful: what such a turn earns.
    """

    name = "routed-calls"
    description = "tools whose calls earn by what they bring that is needed (R1-Router)"

    useful: float = 1.0

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        outcome = await super().play(scenario, team)
        made: Sequence[Mapping[str, Any]] = outcome.info[CALLS.name]
        turns, left = [0.0] * (made[-1]["turn"] + 2 if made else 1), list(scenario.metadata.get("gold", ()))
        for call in made:
            lines = str(call["result"]).split("\n")
            found = [title for title in left if any(line.startswith(f"{title}: ") for line in lines)]
            if found:
                turns[call["turn"]] = self.useful
                left = [title for title in left if title not in found]
        return replace(outcome, turn_rewards={"step": turns})


R1_ROUTER = GRPO.but(
    name="r1-router",
    title="R1-Router: Step-GRPO over which base of knowledge to ask",
    source="Peng et al., Learning to Route Queries Across Knowledge Bases, arXiv:2505.22095",
    family="agents",
    catalogue_ids=("r1-router",),
    axes=("credit", "reward", "environment"),
    formula="A_ik = (r_ik - mean_k r)/(std_k r + eps), the statistics over the samples' steps number k;  r of a call: "
    "whether it brought what is needed, of the answer: whether it is right",
    conventions={
        **GRPO.conventions,
        **TURNS,
        "reward of a step": "1 where a call brings an article that is needed and new, 0 otherwise; 1 for a right "
        "answer; chosen here, and a malformed call brings nothing",
        "samples that end before step k": "are not in its statistics",
        "bases": "texts alone; the paper asks bases of texts, pictures and tables",
    },
    task="lookup?bases=3&hops=2",
    requires=(Requirement.TOOLS, Requirement.TURN_REWARDS),
    workflow="routed-calls?turns=8&listed=false",
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="mean", scale="std", gamma=0.0),
)
