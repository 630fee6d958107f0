"""CORY: PPO for two copies of a model, the second of which reads the first one's answer (Ma et al., arXiv:2410.06101).

Pioneer and observer both earn the sum of their two verdicts (`PioneerObserver`), keep advantages and KL penalties apart
(`EachAgent` of `hocket.credit.each_agent`) and exchange roles every few steps. The pioneer alone is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.casting import Swapping
from hocket.core.columns import InfoColumn
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.ppo import PPO_RLHF
from hocket.types import Scenario

PIONEER = InfoColumn("pioneer", "What the first answer is worth.")
OBSERVER = InfoColumn("observer", "What the second answer is worth.")


@dataclass(frozen=True)
class PioneerObserver(Workflow):
    """The pioneer answers alone, the observer after reading it: CORY (arXiv 2410.06101). The answer is the pioneer's.

    Attributes:
        shared: both earn the sum of the two verdicts; otherwise each its own.
        shown: the observer sees the pioneer's answer; otherwise it is asked as the pioneer was.
        intro: what stands before that answer.
    """

    name = "pioneer-observer"
    description = "a second answer after reading the first (CORY)"

    shared: bool = True
    shown: bool = True
    intro: str = "Another answer:"

    roles = ("pioneer", "observer")
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        first = await team.pioneer(question)
        second = await team.observer(with_line(question, f"{self.intro} {first}") if self.shown else question)
        pioneer, observer = team.verify(first), team.verify(second)
        info = {PIONEER.name: pioneer, OBSERVER.name: observer}
        if self.shared:
            return Outcome(answer=str(first), rewards={"both": pioneer + observer}, info=info)
        return Outcome(answer=str(first), turn_rewards={"own": {first: pioneer, second: observer}}, info=info)


CORY = PPO_RLHF.but(
    name="cory",
    title="Coevolving with the Other You",
    source="Ma et al., arXiv:2410.06101, and the authors' code",
    family="teams",
    catalogue_ids=("cory",),
    axes=("team", "reward", "objective"),
    formula="a1 ~ pi_1(.|q), a2 ~ pi_2(.|q, a1); each: PPO on r(q, a1) + r(q, a2) - its own beta KL(pi || ref)",
    conventions={
        **PPO_RLHF.conventions,
        "reward": "the sum of both verdicts for both, at the last decision of each; workflow setting shared = false "
        "gives each its own",
        "value, GAE and whitening": "each agent's own; the other is part of its environment",
        "role exchange": "every 5 steps (the released script's), cast.every",
        "deployment": "the pioneer's answer alone is the team's",
    },
    note="on tables the pioneer's reward at equal KL lies on PPO's curve, not above it as the paper reports",
    workflow="pioneer-observer",
    cast=Swapping(every=5),
    credit=EachAgent(PPO_RLHF.credit, by="policy"),
)
