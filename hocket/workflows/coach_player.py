"""One agent writes problems for another, which learns from its own most frequent answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.core.columns import InfoColumn
from hocket.curriculum.invented import INVENT
from hocket.types import Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow, asked

SHARE = InfoColumn("share", "The share of attempts that were right.")
PROBLEM = InfoColumn("problem", "The problem that the coach set.")


def unique_majority(answers: Sequence[str | None]) -> list[float]:
    """1 for the most frequent answer if there is only one such, else -1; -1 for every tied or missing answer."""
    counts = Counter(answer for answer in answers if answer is not None)
    most = max(counts.values(), default=0)
    winners = {answer for answer, count in counts.items() if count == most}
    return [1.0 if answer in winners and len(winners) == 1 else -1.0 for answer in answers]


@dataclass(frozen=True)
class CoachPlayer(Workflow):
    """The coach writes a problem and the player solves it `solutions` times afresh: CPMobius (arXiv 2602.02979).

    Scenarios that ask for a problem (`hocket.curriculum.Invented`) are played so; any other the player answers once,
    which is how evaluation sees it. The player earns `unique_majority` of its answers, without a label; the column
    `share` is the share of attempts that earned 1. The coach earns nothing here (`hocket.rewards.LearningProgress` pays
    it once the player has learnt), or with `adversarial` at once 1 - share, how often the player failed.

    Subclass it for problems that are not the coach's own words: `problem` makes one of what it said, `attempt` asks
    the player.

    Attributes:
        alike: the coach draws alike in all samples of a scenario, so that these share one choice of the coach.
    """

    name = "coach-player"
    description = "one writes problems from which another learns (CPMobius)"

    solutions: int = 16
    alike: bool = False
    adversarial: bool = False

    roles = ("coach", "player")
    scores = True

    def __post_init__(self) -> None:
        if self.solutions < 2:
            raise ValueError(f"solutions must be at least 2, not {self.solutions}")

    def problem(self, said: str, team: Team) -> str:
        """The problem that the coach means; draws come from `team.key`."""
        return said

    def attempt(self, problem: str, team: Team) -> Coroutine[Any, Any, Reply]:
        """One solution, in a conversation of its own."""
        return team.player.fresh()(problem, state=problem)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        if not scenario.metadata.get(INVENT):
            answer = await team.player(asked(team.assignment))
            return Outcome(answer=str(answer))
        coach = team.coach.fresh(alike=True) if self.alike else team.coach
        said = await coach(asked(team.assignment))
        problem = self.problem(str(said), team)
        attempts = await asyncio.gather(*(self.attempt(problem, team) for _ in range(self.solutions)))
        rewards = unique_majority([team.label(one) for one in attempts])
        share = sum(reward > 0 for reward in rewards) / len(rewards)
        earned: dict[Reply, float] = dict(zip(attempts, rewards, strict=True))
        if self.adversarial:
            earned[said] = 1 - share
        return Outcome(
            answer=str(attempts[0]), turn_rewards={"own": earned}, info={SHARE.name: share, PROBLEM.name: problem}
        )
