"""SDPO: DPO on the few turns in which a dialogue went wrong or right (Kong et al., arXiv:2501.01821).

A bad dialogue is played again from the turn that spoilt it (`ResampledTurn`); the best continuation and the original
are the pair, cut to equally many turns from where they first differ (`SegmentPairs`). Turn-level and session-level DPO
are the ends of its one setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hocket.core.batch import Batch, Occurrences
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_count
from hocket.core.signals import returns, turn_visits
from hocket.credit.pairs import Pairing, Visit, members_by_group, paired, within
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import MessageNode, grafted
from hocket.rollout.named_turns import ProbedTurns, Transcript, TurnJudge, own_turns, resumed, worth
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
            Transcript(asking, one, own)
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
    root = MessageNode()
    for one in (bad, best):
        grafted(root, one)
    return [bad, best]


@dataclass(frozen=True)
class SegmentPairs(Pairing):
    """The best trajectory of a group against its worst, in `turns` turns of each from the first that differs on.

    SDPO (arXiv 2501.01821). The segment begins where the two first differ, e, counted in the agent's own turns, and
    has as many turns in both: k, or as many as the shorter rest has. Only decisions in it keep a weight, so that
    `Pairwise`, which adds up what counts, has the loss `-log sigmoid(beta sum_(t=e)^(e+k-1) [gap_w,t - gap_l,t])`. In a
    discounted occupancy of states and actions the partition terms of both sides then cancel, which they do not for
    unequal numbers of turns. k = 1 is DPO on single turns. None is the whole rest of each, equal or not: DPO on
    sessions, since turns that both share are the same decisions and cancel.

    Turns are the same if they are one object, which rollouts that replay see to; where nothing is shared, e is the
    first turn. A pair whose returns differ by `margin` or less, or of which one side has no turn left, gives nothing.

    Attributes:
        turns: k. role: whose turns count; None, or a role nobody plays: those of all.
    """

    turns: int | None = 3
    role: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns is not None and self.turns < 1:
            raise ValueError(f"turns must be at least 1 or null, not {self.turns}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value, own = returns(batch).tolist(), self.own(batch)
        found: list[tuple[int, int]] = []
        inside: list[Visit] = []
        for members in members_by_group(batch, self.by):
            best, worst = max(members, key=lambda i: value[i]), min(members, key=lambda i: value[i])
            segments = self.cut(own[best], own[worst])
            if value[best] - value[worst] > self.margin and all(segments):
                found.append((best, worst))
                for trajectory, segment in zip((best, worst), segments, strict=True):
                    inside += [(trajectory, turn) for turn in segment]
        return within(batch, paired(batch, found), inside)

    def own(self, batch: Batch) -> list[list[int]]:
        """The agent's turns with a decision that counts, in order, per trajectory."""
        seen = batch.occurrences
        visit, starts = turn_visits(batch)
        counted = segment_count(visit[seen.weight != 0], int(starts.sum())) > 0
        turn = batch.turn[seen.decision[starts]]
        if self.role in batch.names["role"]:
            counted = counted & (batch.role[turn] == batch.names["role"].index(self.role))
        found: list[list[int]] = [[] for _ in range(batch.trajectories)]
        for trajectory, place in zip(seen.trajectory[starts][counted].tolist(), turn[counted].tolist(), strict=True):
            found[trajectory].append(place)
        return found

    def cut(self, one: Sequence[int], other: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The segments of two sequences of turns."""
        start = 0
        while start < min(len(one), len(other)) and one[start] == other[start]:
            start += 1
        if self.turns is None:
            return one[start:], other[start:]
        end = start + min(self.turns, len(one) - start, len(other) - start)
        return one[start:end], other[start:end]


SDPO = ONLINE_DPO.but(
    name="sdpo",
    title="Segment-level Direct Preference Optimisation for social agents",
    source="Kong et al., arXiv:2501.01821, and the authors' code",
    family="agents",
    catalogue_ids=("sdpo",),
    axes=("objective", "credit", "data"),
    formula="L = -mean_pairs log sigmoid(beta sum_{t=e}^{e+k-1} [d_t^w - d_t^l]),  "
    "d_t = log pi(y_t | h_t) - log pi_ref(y_t | h_t)",
    conventions={
        **ONLINE_DPO.conventions,
        "aggregation": "log-probs summed over the decisions of the segment's turns, mean over pairs",
        "pairs": "a dialogue against the best of 5 that go on from just before its error turn, if that is worth more",
        "bad dialogues": "all; rollout.good sets the score from which a dialogue is left alone (the authors' 8 of 10)",
        "error turn": "after which the expected score falls most, by 4 dialogues from each history; the authors ask "
        "GPT-4o: rollout.judge = {type: hocket.rollout.NamedBy, judge: FILE.py:FUNCTION}",
        "start of the segment": "the first turn in which the two differ, which is the error turn unless it was said "
        "alike again",
        "length of the segment": "k = 3 turns of the agent, fewer where a dialogue ends before; the authors have "
        "GPT-4o choose it for each pair. credit.turns = 1 is turn-level, null session-level DPO",
        "partner": "context. Where a policy plays it, rollout.role and credit.role name the agent",
        "data": "new dialogues in every step; the authors collect once and train offline",
    },
    task="maze?width=3&height=3&steps=10&reading=number",
    requires=(Requirement.TURNS,),
    rollout=ResampledTurn(continuations=5, judge=ProbedTurns(rollouts=4)),
    credit=SegmentPairs(turns=3),
)
