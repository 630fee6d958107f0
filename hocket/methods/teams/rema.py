"""ReMA: GRPO for a meta-thinker who advises and a reasoner who answers (Wan et al., arXiv:2503.09501).

Both earn the verdict on the last answer (`MetaReasoner`) and learn alternately. The ratio is one per turn, capped and
with a second clip for negative advantages, and turns rather than tokens are averaged: `TurnSurrogate` of
`hocket.objectives.turn_ratio`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.casting import Alternating
from hocket.core.columns import InfoColumn
from hocket.methods.base.grpo import GRPO
from hocket.objectives.turn_ratio import TurnSurrogate
from hocket.types import Scenario

ROUNDS = InfoColumn("rounds", "How many answers were given.")


META = "Say how to go about it, not the answer."
REASONER = "Follow the advice and answer."


@dataclass(frozen=True)
class MetaReasoner(Workflow):
    """A meta-thinker advises, a reasoner answers, up to `rounds` times: ReMA (arXiv 2503.09501).

    The meta-thinker reads each answer before it advises again, and may end with a message that contains `stop`. Both
    earn the verdict on the last answer; each besides the share of its own messages that are well formed, weighted.

    Attributes:
        rounds: advice and answer at most. stop: ends the exchange; empty, and it goes on to the last round.
        format_weight: of the share of well-formed messages. longest: characters of well-formed advice.
        shuffled: the reasoner is given the advice of another scenario's words instead (an ablation): a fixed one.
        system: system prompts for both roles; without, they are told apart by what they are shown.
    """

    name = "meta-reasoner"
    description = "one advises, the other carries out (ReMA)"

    rounds: int = 1
    stop: str = "[FINISH]"
    format_weight: float = 0.0
    longest: int = 200
    shuffled: str | None = None
    system: bool = True

    roles = ("meta", "reasoner")
    scores = True

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"meta": META, "reasoner": REASONER} if self.system else {}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        advice = await team.meta(question)
        answer = await team.reasoner(with_line(question, self._told(advice)))
        advised, answered = [advice], [answer]
        for _ in range(self.rounds - 1):
            advice = await team.meta(f"The answer was: {answer}")
            advised.append(advice)
            if self.stop and self.stop in str(advice):
                break
            answer = await team.reasoner(self._told(advice))
            answered.append(answer)
        formed = {one: self.format_weight * self._formed(one) / len(advised) for one in advised}
        formed |= {one: self.format_weight * float(one.finish == "stop") / len(answered) for one in answered}
        extra = {"format": formed} if self.format_weight else {}
        return Outcome(
            answer=str(answer),
            rewards={"team": team.verify(answer)},
            turn_rewards=extra,
            info={ROUNDS.name: len(answered)},
        )

    def _told(self, advice: Reply) -> str:
        return f"Advice: {advice if self.shuffled is None else self.shuffled}"

    def _formed(self, advice: Reply) -> float:
        return float(advice.finish == "stop" and 0 < len(str(advice)) <= self.longest)


REMA = GRPO.but(
    name="rema",
    title="Reinforced Meta-thinking Agents",
    source="Wan et al., arXiv:2503.09501, and the authors' code",
    family="teams",
    catalogue_ids=("rema",),
    axes=("team", "credit", "objective"),
    formula="L = -1/N sum_i 1/K_i sum_k max(min(rho_k A, clip(rho_k) A), [A < 0] c A),  "
    "rho_k = exp(min(1/|y_k| sum_j log r_kj, 3))",
    conventions={
        **GRPO.conventions,
        "ratio": "one per turn: the geometric mean of its token ratios; objective.mean = arithmetic is the paper's",
        "cap": "3 on a turn's mean log-ratio, no gradient above",
        "clipping side": "both, 0.2; dual clip at 3 for negative advantages",
        "aggregation": "mean over the turns of a trajectory, then over trajectories",
        "rewards": "one reward of the trajectory for both levels; format rewards are the workflow's",
        "who learns": "one policy per role, 10 steps each in turn; with --cast shared both prompts train one policy",
    },
    workflow="meta-reasoner",
    cast=Alternating(every=10),
    objective=TurnSurrogate(low=0.2, high=0.2, dual=3.0, cap=3.0, mean="geometric", aggregate="sequence-turn-mean"),
)
