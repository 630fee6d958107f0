"""What a node holds of what others told it: read, checked, bounded, each group once."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from dataclasses import dataclass, replace

from hocket.core.occurrences import unmarked
from hocket.distributed.swarm.messages import GroupMessage, Malformed, Oversized, decoded, group_of, scenario_of
from hocket.rollout.sharing import SharedGroup
from hocket.stages import Task
from hocket.types import Scenario

PER_NODE = 256
"""Groups of one sender that are held at most, so that none crowds out the others."""


@dataclass
class _Held:
    group: SharedGroup
    at: int


class NodeInbox:
    """A node's inbox. Whatever arrives, nothing is raised: what cannot be used is dropped and counted.

    Args:
        task: the node's own.
        window: how many of its sender's latest steps a message may belong to, and how many of the node's own steps it
            is held, at least 1.
        recompute: take question, right answer and metadata from the node's own task, and drop groups about scenarios
            that it does not have; else the sender's are believed.

    Attributes:
        counts: messages by what became of them: `received`, or the reason why not.
    """

    def __init__(self, task: Task, *, window: int = 1, recompute: bool = True) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self._task, self._window, self._recompute = task, window, recompute
        self._held: dict[str, deque[_Held]] = {}
        self._seen: dict[str, set[tuple[int, bytes]]] = {}
        self._newest: dict[str, int] = {}
        self._clock = 0
        self.counts: Counter[str] = Counter()

    def begin(self) -> None:
        """The node begins its next step: what it has held for `window` of them is let go."""
        self._clock += 1
        for held in self._held.values():
            while held and self._clock - held[0].at > self._window:
                held.popleft()

    def groups(self) -> list[SharedGroup]:
        """What is held, sender by sender in the order of their names, oldest first."""
        return [entry.group for name in sorted(self._held) for entry in self._held[name]]

    def forget(self, sender: str) -> None:
        """A node of a sender's name has begun anew, and counts its steps from the first."""
        self._newest.pop(sender, None)
        self._seen.pop(sender, None)

    def receive(self, sender: str, data: bytes) -> None:
        """Takes a message that came on `sender`'s line."""
        self.counts[self._taken(sender, data)] += 1

    def _taken(self, sender: str, data: bytes) -> str:
        try:
            message = decoded(data)
        except Oversized:
            return "oversized"
        except Malformed:
            return "malformed"
        if message.node != sender:
            return "forged"
        newest = self._newest.get(sender, message.step)
        if message.step <= newest - self._window:
            return "late"
        marks = self._seen.setdefault(sender, set())
        mark = message.step, hashlib.blake2b(data, digest_size=16).digest()
        if mark in marks:
            return "duplicate"
        scenario = self._known(message)
        if self._recompute and scenario is None:
            return "unknown"
        self._newest[sender] = newest = max(newest, message.step)
        marks.add(mark)
        # What is older is late anyway.
        self._seen[sender] = {known for known in marks if known[0] > newest - self._window}
        held = self._held.setdefault(sender, deque(maxlen=PER_NODE))
        held.append(_Held(group_of(message, scenario), self._clock))
        return "received"

    def _known(self, message: GroupMessage) -> Scenario | None:
        """The node's own scenario that is told of; None where it has no such."""
        if not self._recompute:
            return None
        try:
            scenario = self._task.scenario("train", message.seed)
        except Exception:  # A task may raise anything for a number from outside.
            return None
        received = scenario_of(message)
        same = scenario.id == unmarked(received.id) and [dict(part) for part in scenario.messages] == [
            dict(part) for part in received.messages
        ]
        return replace(scenario, id=received.id) if same else None
