"""Bad dialogues taken up again at the turn where they went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hocket.keys import Key
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import Node, grafted
from hocket.rollout.named_turns import Finished, ProbedTurns, TurnJudge, own_turns, resumed, worth
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class ResampledTurn(Rollout):
    """A dialogue per scenario; from the turn where a bad one went wrong it is played on anew, and the best is kept.

    The data of SDPO (arXiv 2501.01821, and the authors' code). A dialogue worth less than `good` is bad. The judge
    names the turn where it went wrong, `continuations` go on from the history just before, replayed, not sampled again,
    and the first of the best is kept if it is worth more than the bad one. The two are the experience; what they have
    in common, words said alike at the turn itself included, is one object. All else is discarded: good dialogues, and
    bad ones that nothing was found wrong with or that did not become better.

    A player without workflows begins anew instead. Metrics: `rollout/bad`, `rollout/mended` and `rollout/reward`, the
    mean worth of the dialogues before anything was resampled.

    Attributes:
        judge: who names the turn; the first one named counts. good: None calls every dialogue bad.
        role: whose turns can be wrong; None, or a role nobody plays: everybody's.
    """

    continuations: int = 5
    judge: TurnJudge = field(default_factory=ProbedTurns)
    good: float | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        if self.continuations < 1:
            raise ValueError(f"continuations must be at least 1, not {self.continuations}")

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
        """Per mended dialogue first the bad one, then the better one."""
        played = [one for (one,) in await groups(play, [replace(one, samples=1) for one in asked])]
        await score(played)
        bad = [
            Finished(asking, one, own)
            for asking, one in zip(asked, played, strict=True)
            if one.failure is None and (own := own_turns(one, self.role)) and self._bad(one)
        ]
        named = await self.judge(bad, play=play, score=score, key=key.derive("judge"))
        wrong = [(one, turns[0]) for one, turns in zip(bad, named, strict=True) if turns]
        again = [
            resumed(one.asking, one.dialogue, one.own[turn], first=one.asking.first + 1, samples=self.continuations)
            for one, turn in wrong
        ]
        tried = await groups(play, again)
        further = [one for group in tried for one in group]
        if further:
            await score(further)
        kept = [one for (bad_one, _), group in zip(wrong, tried, strict=True) for one in _pair(bad_one.dialogue, group)]
        aside = [one for one in [*played, *further] if not any(one is other for other in kept)]
        whole = [worth(one) for one in played if one.failure is None]
        metrics = {"rollout/bad": float(len(bad)), "rollout/mended": len(kept) / 2}
        metrics |= {"rollout/reward": sum(whole) / len(whole)} if whole else {}
        return Experience(kept, aside, metrics)

    def _bad(self, dialogue: Trajectory) -> bool:
        return self.good is None or worth(dialogue) < self.good


def _pair(bad: Trajectory, tried: Sequence[Trajectory]) -> list[Trajectory]:
    """A bad dialogue and the best of its continuations, their common turns made the same; nothing if none is better."""
    whole = [one for one in tried if one.failure is None and one.turns]
    best = max(whole, key=worth, default=bad)
    if worth(best) <= worth(bad):
        return []
    root = Node()
    for one in (bad, best):
        grafted(root, one)
    return [bad, best]
