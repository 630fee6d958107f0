"""Two agents who hold half of the facts each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hocket.markup import ANSWER
from hocket.types import Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow, asked, with_line

SYSTEM = "You and your partner know different things. Talk briefly, then give the answer as <answer>..</answer>."


@dataclass(frozen=True)
class TwoHalves(Workflow):
    """Alice and Bob talk in turn about one question; each sees the question and its own half of the facts.

    The information-asymmetric setting of Optima (arXiv 2410.08115). The halves are `metadata["halves"]`, two texts;
    without them both know the question alone. A dialogue ends with an answer in tags that agrees with the partner's
    last one, or, without `agree`, with the first answer; or after `messages`. The last answer given is the team's.

    Attributes:
        messages: at most. agree: whether both must give the answer. system: a system prompt for both, None for none.
    """

    name = "two-halves"
    description = "two who hold half of the facts each talk (Optima)"

    messages: int = 10
    agree: bool = True
    system: str | None = SYSTEM

    roles = ("alice", "bob")
    scores = True

    def __post_init__(self) -> None:
        if self.messages < 1:
            raise ValueError(f"messages must be at least 1, not {self.messages}")

    @property
    def prompts(self) -> Mapping[str, str]:
        return {} if self.system is None else dict.fromkeys(self.roles, self.system)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        halves: Sequence[str] = scenario.metadata.get("halves") or ("", "")
        said: list[Reply] = []
        answers: dict[str, str] = {}
        final: Reply | None = None
        for number in range(self.messages):
            role = self.roles[number % 2]
            new = [f"{self.roles[1 - number % 2].capitalize()}: {said[-1]}"] if said else []
            if number < 2:
                known = [f"You know: {halves[number]}"] if halves[number] else []
                reply = await team[role](with_line(asked(team.assignment), "\n".join([*known, *new]) or "Begin."))
            else:
                reply = await team[role](*new)
            said.append(reply)
            found = ANSWER.search(str(reply))
            if found is not None:
                answers[role], final = found[1].strip(), reply
                if not self.agree or len(set(answers.values())) == 1 < len(answers):
                    break
        right = 0.0 if final is None else team.verify(final)
        return Outcome(answer=None if final is None else str(final), rewards={"task": right})
