"""SEM: GRPO that learns to search only when the first guess is wrong (Sha, Cui and Wang, arXiv:2505.07903).

`SearchTable` pays by three facts, whether the guess was right, whether there was a search, and whether the final answer
is right; its numbers follow the paper's order and are chosen here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.markup import ANSWER, TOOL_CALL
from hocket.methods.base.grpo import GRPO
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import answer_text, equal
from hocket.stages import Reward
from hocket.types import Trajectory

_SEARCH = re.compile(r"<search>|" + re.escape(TOOL_CALL))


@dataclass(frozen=True)
class SearchTable(Reward):
    """What guessing, searching and answering earn together: SEM (arXiv 2505.07903).

    A response answers, may then search, and answers again: `<answer>..</answer>`, a `<search>` or `<tool_call>`, and a
    last `<answer>..</answer>`; all turns' texts count. The answer before the search is the guess. The paper orders the
    cases in words; the numbers are chosen here. What breaks the form earns `malformed`.

    Attributes:
        direct: right without a search. missed: wrong without one.
        found, tried: right or wrong after a search that a wrong guess called for.
        needless, spoiled: right or wrong after a search although the guess was right.

    Raises:
        ValueError: unless `direct > found > needless > tried >= missed > spoiled`.
    """

    direct: float = 1.0
    found: float = 0.8
    needless: float = 0.3
    tried: float = 0.1
    missed: float = 0.0
    spoiled: float = -0.2
    malformed: float = 0.0
    name: str = "search"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.direct > self.found > self.needless > self.tried >= self.missed > self.spoiled:
            raise ValueError("the table must satisfy direct > found > needless > tried >= missed > spoiled")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(trajectory) for trajectory in trajectories)

    def judge(self, trajectory: Trajectory) -> float | None:
        """The table's entry for one attempt; None where the scenario has no answer."""
        answer = trajectory.scenario.answer
        if answer is None:
            return None
        guess, searched, final = parts_of("".join(turn.text for turn in trajectory.turns))
        if final is None or (searched and guess is None):
            return self.malformed
        return self.entry(guess is not None and matches(guess, answer), searched, matches(final, answer))

    def entry(self, guessed: bool, searched: bool, solved: bool) -> float:
        """The table itself: was the guess right, was there a search, is the final answer right?"""
        if not searched:
            return self.direct if solved else self.missed
        if guessed:
            return self.needless if solved else self.spoiled
        return self.found if solved else self.tried


def parts_of(text: str) -> tuple[str | None, bool, str | None]:
    """The guess before the first search (None without one), whether there was a search, and the final answer."""
    search = _SEARCH.search(text)
    after = ANSWER.findall(text[search.end() :] if search else text)
    before = ANSWER.findall(text[: search.start()]) if search else after
    return (before[-1] if before else None), search is not None, (after[-1] if after else None)


def matches(given: str, answer: object) -> bool:
    """Whether a given answer is the known one, or one of them; numbers by value."""
    allowed = answer if isinstance(answer, (list, tuple)) else (answer,)
    return any(equal(given, answer_text(one)) for one in allowed)


SEM = GRPO.but(
    name="sem",
    title="Search only when needed",
    source="Sha, Cui and Wang, SEM, arXiv:2505.07903",
    catalogue_ids=("sem",),
    axes=("reward", "data", "policy"),
    formula=GRPO.formula + " with R_i from a table of guess, search and final answer",
    conventions={
        **GRPO.conventions,
        "table": "1 right at once, 0.8 found by a search that was needed, 0.3 right after a needless one, 0.1 wrong "
        "after a needed one, 0 wrong at once, -0.2 spoiled by a needless one; the paper gives the order in words",
        "guess": "the answer given before the first search",
        "malformed": "0: no final answer, or a search before any guess",
    },
    rewards=(SearchTable(),),
)
