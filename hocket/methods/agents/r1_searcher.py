"""R1-Searcher: REINFORCE++ in two stages, first for searching at all, then for answers (Song et al., arXiv:2503.05592).

Searches are made within a response and what they find carries no loss (`SearchWithin` of
`hocket.agents.workflows.inline_search`). The first stage pays half a point for a search and half for the form, whatever
the answer (`RetrievalReward`); the second pays the answer's F1 and takes two points for a broken form (`AnswerReward`).
They are the recipes `r1-searcher-retrieval` and `r1-searcher` of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.columns import TOOL_CALLS
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.requirements import Requirement
from hocket.methods.base.reinforce_plus_plus import REINFORCE_PLUS_PLUS
from hocket.rewards.opinions import Opinions
from hocket.rewards.tool_answer import well_tagged
from hocket.rewards.verifiers import allowed_answers, token_match
from hocket.rollout.independent import Independent
from hocket.stages import Reward
from hocket.types import Trajectory


def well_formed(text: str) -> bool:
    """Whether thoughts, searches and the answer are closed before others open, and the answer ends the response."""
    return well_tagged([text.replace("<search>", "<tool_call>").replace("</search>", "</tool_call>")])


@dataclass(frozen=True)
class RetrievalReward(Reward):
    """Stage 1: `searched` if there was a search at all, and `form` for a response that is `well_formed`."""

    searched: float = 0.5
    form: float = 0.5
    name: str = "retrieval"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(one) for one in trajectories)

    def judge(self, trajectory: Trajectory) -> float:
        """What one attempt earns; its answer does not matter."""
        searched = bool(TOOL_CALLS.get(trajectory, 0))
        return self.searched * searched + self.form * well_formed(trajectory.answer)


@dataclass(frozen=True)
class AnswerReward(Reward):
    """Stage 2: the F1 of the answer's words, and `malformed` besides for a response that is not `well_formed`.

    No opinion without a known answer; of several the best fitting counts.
    """

    malformed: float = -2.0
    name: str = "correct"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.malformed > 0:
            raise ValueError(f"malformed must be at most 0, not {self.malformed:g}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(one) for one in trajectories)

    def judge(self, trajectory: Trajectory) -> float | None:
        """What one attempt earns; searching by itself earns nothing."""
        known = trajectory.scenario.answer
        if known is None:
            return None
        given = (tagged(trajectory.answer) or "").casefold()
        worth = max((token_match(given, one.casefold()) for one in allowed_answers(known)), default=0.0)
        return worth if well_formed(trajectory.answer) else worth + self.malformed


R1_SEARCHER_RETRIEVAL = REINFORCE_PLUS_PLUS.but(
    name="r1-searcher-retrieval",
    title="R1-Searcher, first stage: paid for searching and for the form",
    source="Song et al., R1-Searcher, arXiv:2503.05592",
    family="agents",
    catalogue_ids=("r1-searcher",),
    axes=("reward", "data", "environment"),
    formula=f"R = 1/2 [searched] + 1/2 [well formed];  {REINFORCE_PLUS_PLUS.formula}",
    conventions={
        **REINFORCE_PLUS_PLUS.conventions,
        "samples": "8 per question, normalised over the whole batch; the paper has 16",
        "stages": "a plan: r1-searcher-retrieval, then r1-searcher",
        "form": "thoughts, searches and the answer closed before others open, an answer at the end; no thought is "
        "asked for",
        "retrieved tokens": "imposed decisions of weight 0: in no ratio, no denominator, no statistic and no KL",
        "questions": "the paper chooses them by how many attempts a right answer takes; here the task says how many "
        "searches they need",
    },
    task="lookup?tags=true",
    requires=(Requirement.TOOLS,),
    workflow="search-within",
    rollout=Independent(samples=8),
    rewards=(RetrievalReward(),),
)


R1_SEARCHER = R1_SEARCHER_RETRIEVAL.but(
    name="r1-searcher",
    title="R1-Searcher, second stage: paid for answers, with a large penalty on the form",
    formula=f"R = F1 - 2 [malformed];  {REINFORCE_PLUS_PLUS.formula}",
    rewards=(AnswerReward(),),
)
