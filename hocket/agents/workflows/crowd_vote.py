"""Majority vote: several models answer the same question independently."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import InfoColumn
from hocket.types import Scenario

ANSWERS = InfoColumn("answers", "The answer of each role, by role.")


@dataclass(frozen=True)
class CrowdVote(Workflow):
    """`voters` answer once each without reading each other; the most frequent answer wins, of equals the first.

    It has no reward: the column `answers` holds the final answer of each role, from which `hocket.rewards.CrowdReward`
    rewards agreement over all samples of a question, as in RLCCF (arXiv 2508.12338).
    """

    name = "crowd-vote"
    description = "several answer alone, the most frequent answer counts (RLCCF)"

    voters: int = 3

    scores = True

    def __post_init__(self) -> None:
        if self.voters < 1:
            raise ValueError(f"voters must be at least 1, not {self.voters}")

    @property
    def roles(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"voter_{number}" for number in range(1, self.voters + 1))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        replies = await asyncio.gather(*(team[role](question) for role in self.roles))
        answers = [team.label(reply) for reply in replies]
        counts = Counter(answer for answer in answers if answer is not None)
        chosen = answers.index(max(counts, key=lambda answer: counts[answer])) if counts else 0
        info = {ANSWERS.name: dict(zip(self.roles, answers, strict=True))}
        return Outcome(answer=str(replies[chosen]), info=info)
