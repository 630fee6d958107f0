"""Preference pairs compared in a segment: the turns that follow what both have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.credit.pairs import Pairing, Visit, members_by_group, paired, within
from hocket.segments import segment_count
from hocket.signals import returns, turn_visits
from hocket.types import Batch, Occurrences


@dataclass(frozen=True)
class SegmentPairs(Pairing):
    """The best trajectory of a group against its worst, in `turns` turns of each from the first that differs on.

    SDPO (arXiv 2501.01821). The segment begins where the two first differ, e, counted in the agent's own turns, and
    has as many turns in both: k, or as many as the shorter rest has. Only decisions in it keep a weight, so that `DPO`,
    which adds up what counts, has the loss `-log sigmoid(beta sum_(t=e)^(e+k-1) [gap_w,t - gap_l,t])`. In a discounted
    occupancy of states and actions the partition terms of both sides then cancel, which they do not for unequal
    numbers of turns. k = 1 is DPO on single turns. None is the whole rest of each, equal or not: DPO on sessions, since
    turns that both share are the same decisions and cancel.

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
