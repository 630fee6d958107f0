"""A tree along one trunk: at every agent turn several candidates, of which one is executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hocket.core.candidates import Branching
from hocket.keys import Key
from hocket.rollout.groups import groups
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class AgentTurnTree(Rollout):
    """`candidates` answers to every question a workflow asks by `agent.candidates`; the episode goes on with one.

    AT-GRPO (arXiv 2510.11062): candidates of a turn have one prompt, so they are comparable, whatever the role and the
    history; each earns `alpha * team + own` at once, the best is executed and its outcome is everybody's history. The
    others are trajectories of one turn, which follow the episode they left; the workflow says what each is worth.

    An episode that asks for no candidates has nothing to compare, so its scenario is played further times, `candidates`
    in all: samples of a single answer are a group with one prompt too, the ordinary one.

    Attributes:
        candidates: answers to each question. trunks: episodes of each scenario.
        take: which is executed, the `best` or the `first`. alpha: weight of the reward called `team`.
    """

    candidates: int = 4
    trunks: int = 1
    take: Literal["best", "first"] = "best"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.candidates < 2 or self.trunks < 1:
            raise ValueError(
                f"candidates must be at least 2 and trunks at least 1, not {self.candidates} and {self.trunks}"
            )
        Branching(self.candidates, self.take, self.alpha)

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario its episodes in order, each followed by the candidates it left."""
        branching = Branching(self.candidates, self.take, self.alpha)
        asked = [replace(one, samples=self.trunks, options=(*one.options, branching)) for one in asked]
        played = await groups(play, asked)
        plain = [number for number, trunks in enumerate(played) if not any(trunk.branches for trunk in trunks)]
        again = [
            replace(asked[n], samples=self.candidates - self.trunks, first=asked[n].first + self.trunks)
            for n in plain
            if self.candidates > self.trunks
        ]
        for number, further in zip(plain, await groups(play, again), strict=False):
            played[number] += further
        await score([trunk for trunks in played for trunk in trunks])
        found = [one for trunks in played for trunk in trunks for one in (trunk, *trunk.branches)]
        return Experience(found, metrics={"branches": float(sum(one.source == "branch" for one in found))})
