"""Several answers, rounds in which each reads the others, and a vote."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hocket.agents.workflows.reply import Reply, final
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import InfoColumn
from hocket.types import Scenario

AGREED = InfoColumn("agreed", "Whether the last answers agreed.")


@dataclass(frozen=True)
class DebateVote(Workflow):
    """`debaters` answer at the same time, read the others' answers in each further round, and vote at the end.

    The answer is the last reply of the first debater who voted with the plurality. The reward of a debater is the
    verdict on its last answer plus `vote` times the verdict on the team's answer.

    Attributes:
        debaters: the number of `debater_1`, `debater_2`, .. rounds: answers of each. vote: weight of the team's
            verdict.
        system: a system prompt for all.
    """

    name = "debate"
    description = "several answer, read each other and vote"

    debaters: int = 3
    rounds: int = 2
    vote: float = 1.0
    system: str | None = None

    scores = True

    def __post_init__(self) -> None:
        if self.debaters < 1 or self.rounds < 1:
            raise ValueError(f"debaters and rounds must be at least 1, not {self.debaters} and {self.rounds}")
        object.__setattr__(self, "roles", tuple(f"debater_{n}" for n in range(1, self.debaters + 1)))

    @property
    def prompts(self) -> Mapping[str, str]:
        return {} if self.system is None else dict.fromkeys(self.roles, self.system)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        replies: list[Reply] = list(await asyncio.gather(*(team[role](asked(team.assignment)) for role in self.roles)))
        for _ in range(self.rounds - 1):
            heard = [_others(replies, place) for place in range(len(replies))]
            replies = list(await asyncio.gather(*(team[r](h) for r, h in zip(self.roles, heard, strict=True))))
        votes = [final(reply) for reply in replies]
        chosen = replies[votes.index(Counter(votes).most_common(1)[0][0])]
        right = team.verify(chosen)
        verified = {reply: team.verify(reply) for reply in replies}
        agreed = sum(vote == final(chosen) for vote in votes) / len(votes)
        return Outcome(
            answer=str(chosen),
            rewards={"team": self.vote * right},
            turn_rewards={"own": verified},
            info={AGREED.name: agreed},
        )


def _others(replies: Sequence[Reply], place: int) -> str:
    """The answers of the others, one a line."""
    texts = [f"Another: {text}" for number, text in enumerate(replies) if number != place]
    return "\n".join(texts) or "Again."
