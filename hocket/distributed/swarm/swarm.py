"""Several nodes in one process: they take turns, and messages go from each to all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.core.errors import ConfigurationError, HocketError
from hocket.distributed.swarm.node import NodeSharing
from hocket.distributed.swarm.pool import NodeInbox
from hocket.stages import Task

Deliver = Callable[[str, str, bytes], Sequence[bytes]]
"""What of a message from one node arrives at another, and how often: a network's faults, for tests."""


def whole(sender: str, receiver: str, data: bytes) -> Sequence[bytes]:
    """Everything arrives once."""
    return (data,)


@dataclass
class Member:
    """One node.

    Attributes:
        line: its way to the others. step: makes its next step. fault: why it has ended, in words; None while it lives.
    """

    name: str
    line: NodeSharing
    step: Callable[[], Any]
    fault: str | None = None


class Swarm:
    """Nodes that take turns.

    Args:
        deliver: see above.
        window, recompute: of every node's `NodeInbox`.

    Attributes:
        members: by name, in the order in which they take turns. rounds: how many were made.
    """

    def __init__(self, *, deliver: Deliver = whole, window: int = 1, recompute: bool = True) -> None:
        self.members: dict[str, Member] = {}
        self.rounds = 0
        self._deliver, self._window, self._recompute = deliver, window, recompute

    def line(self, name: str, task: Task) -> NodeSharing:
        """A way to the others for a node of this name, which is yet to be added."""
        pool = NodeInbox(task, window=self._window, recompute=self._recompute)
        return NodeSharing(name, pool, lambda data: self.send(name, data))

    def add(self, line: NodeSharing, step: Callable[[], Any]) -> Member:
        """A node that makes its steps by `step`."""
        if line.node in self.members:
            raise ValueError(f"there is a node {line.node!r} already")
        self.members[line.node] = member = Member(line.node, line, step)
        return member

    def send(self, sender: str, data: bytes) -> None:
        """Brings a message to all others that live."""
        for name, member in self.members.items():
            if name != sender and member.fault is None:
                for arrived in self._deliver(sender, name, data):
                    member.line.pool.receive(sender, arrived)

    @property
    def alive(self) -> list[Member]:
        """The nodes that go on."""
        return [member for member in self.members.values() if member.fault is None]

    def round(self) -> dict[str, Any]:
        """One step of every node that lives, in turn; what their steps returned, by name.

        A node whose step fails has ended, and the others go on.

        Raises:
            ConfigurationError: what the first step of a node says, which is wrong with all.
            HocketError: when no node is left.
        """
        self.rounds += 1
        metrics = {}
        for member in self.alive:
            member.line.begin()
            try:
                metrics[member.name] = member.step()
            except Exception as error:
                if isinstance(error, ConfigurationError) and self.rounds == 1:
                    raise
                member.fault = f"{member.name} ended in round {self.rounds}: {error}"
        if not self.alive:
            faults = "; ".join(str(member.fault) for member in self.members.values())
            raise HocketError(f"no node of the swarm is left: {faults}")
        return metrics
