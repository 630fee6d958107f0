"""Which group may begin, and which a step learns from, when sampling and learning do not wait for each other.

Groups (all samples of one scenario) are numbered from 0, a step learns from `batch` of them and makes the next version
of the weights, and no group is learnt from that is more than `lag` versions old. In order of

- start, step n learns from the groups n B to n B + B - 1, and group i is drawn by version max(0, floor(i / B) - lag):
  results follow from the configuration alone;
- arrival, a step learns from what is ready. The group that would be number N of those learnt, ready or on their way
  begins only on a sampler that itself holds version floor(N / B) - lag or a newer one. What grew too old while it was
  drawn or waited is dropped, no longer counted in N, and asked again.

The rule is that of AReaL (Fu et al., arXiv:2505.24298, section 5.1), with the sampler's version for the learner's: the
learner's would let lag + 1 through wherever weights take time to arrive.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from hocket.core.errors import ConfigurationError
from hocket.stages import State

Order = Literal["start", "arrival"]


@dataclass(frozen=True, order=True)
class GroupTicket:
    """Leave to draw a group: its number, the version that draws it, and how often it was asked before."""

    group: int
    version: int
    attempt: int


class GroupAdmission:
    """The groups of a run, from being asked to being learnt from.

    Args:
        batch: groups a step learns from, at least 1. lag: versions, at least 0.

    Attributes:
        limit: how many groups will be learnt from in all, beyond which none begins.

    Raises:
        ConfigurationError: a number below these, or another order.
    """

    def __init__(self, batch: int, lag: int, order: Order) -> None:
        if batch < 1 or lag < 0:
            raise ConfigurationError(f"a batch of {batch} groups with a lag of {lag}: at least 1 and 0 are needed")
        if order not in ("start", "arrival"):
            raise ConfigurationError(f"there is no order {order!r}; choose from: start, arrival")
        self.batch, self.lag, self.order = batch, lag, order
        self.limit = sys.maxsize
        self.version = 0
        self.dropped = 0
        self._fresh = 0
        self._again: list[int] = []
        self._attempts: dict[int, int] = {}
        self._running: dict[int, GroupTicket] = {}
        self._ready: dict[int, GroupTicket] = {}

    @property
    def counted(self) -> int:
        """Groups learnt from, ready or on their way."""
        return self.version * self.batch + len(self._ready) + len(self._running)

    def begin(self, held: Collection[int]) -> GroupTicket | None:
        """Leave for a sampler that holds these versions to begin a group; None if it must wait."""
        if self.counted >= self.limit:
            return None
        if self.order == "arrival":
            version = max(held, default=-1)
            if version < max(0, self.counted // self.batch - self.lag):
                return None
            return self._grant(heapq.heappop(self._again) if self._again else self._next(), version)
        # At most (lag + 1) batches are open, so what is asked again is few.
        for group in sorted(self._again):
            if self._drawn_by(group) in held:
                self._again.remove(group)
                heapq.heapify(self._again)
                return self._grant(group, self._drawn_by(group))
        version = self._drawn_by(self._fresh)
        return self._grant(self._next(), version) if version in held and version <= self.version else None

    def finish(self, ticket: GroupTicket) -> bool:
        """Whether a result counts: it does once, for the newest leave of its group, and while it is not too old."""
        if self._running.get(ticket.group) != ticket:
            return False
        self._ready[ticket.group] = self._running.pop(ticket.group)
        return True

    def lose(self, ticket: GroupTicket) -> None:
        """The group is asked again, unless its result came or it was asked again before."""
        if self._running.get(ticket.group) == ticket:
            del self._running[ticket.group]
            heapq.heappush(self._again, ticket.group)

    def take(self) -> tuple[GroupTicket, ...] | None:
        """The batch of the next step by group, or None while it is not complete. Begins the step: see `learnt`."""
        if self.order == "start":
            groups = range(self.version * self.batch, (self.version + 1) * self.batch)
            if any(group not in self._ready for group in groups):
                return None
            return tuple(self._ready[group] for group in groups)
        if len(self._ready) < self.batch:
            return None
        # The oldest first: they would be the next to be dropped.
        oldest = sorted(self._ready.values(), key=lambda ticket: (ticket.version, ticket.group))
        return tuple(sorted(oldest[: self.batch]))

    def learnt(self, taken: tuple[GroupTicket, ...]) -> None:
        """The step of a batch is over: there is a new version, and what is too old for the next step is dropped."""
        for ticket in taken:
            del self._ready[ticket.group]
            self._attempts.pop(ticket.group, None)
        self.version += 1
        for held in (self._ready, self._running):
            for ticket in [t for t in held.values() if t.version < self.version - self.lag]:
                del held[ticket.group]
                heapq.heappush(self._again, ticket.group)
                self.dropped += 1

    def state(self) -> State:
        """Where it stands, for a checkpoint: groups that were not learnt from are asked again."""
        return {
            "version": self.version,
            "fresh": self._fresh,
            "open": sorted([*self._again, *self._running, *self._ready]),
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`. Results of what was on its way count no more."""
        self.version, self._fresh = int(state["version"]), int(state["fresh"])
        self._again = [int(group) for group in state["open"]]
        self._running, self._ready = {}, {}

    def _drawn_by(self, group: int) -> int:
        return max(0, group // self.batch - self.lag)

    def _next(self) -> int:
        self._fresh += 1
        return self._fresh - 1

    def _grant(self, group: int, version: int) -> GroupTicket:
        ticket = GroupTicket(group, version, self._attempts.get(group, 0))
        self._attempts[group] = ticket.attempt + 1
        self._running[group] = ticket
        return ticket
