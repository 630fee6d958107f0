"""The other nodes that a node knows: where each is, and how it has answered."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, ItemsView

from hocket.distributed.swarm.frames import Hello
from hocket.distributed.swarm.lines import Line

PEERS = 256
"""Nodes that one knows at most."""

FORGOTTEN = 600.0
"""Seconds without a word after which a node no longer counts; it is looked for as before."""

LONGEST = 60.0
"""Seconds for which a node that does not answer is left alone, at most."""

_REST = 8.0
"""A node that was waited for is left alone this many times as long, so that it takes a tenth of the time at most."""


class Peer:
    """One of the others.

    Attributes:
        place: where it listens. life: what tells it from an earlier one of its name. line: to it, where one is open.
        lock: held by who asks. failures: questions without an answer since the last answer.
    """

    def __init__(self, place: str) -> None:
        self.place, self.life, self.lock = place, "", threading.Lock()
        self.line: Line | None = None
        self.failures = self._wrong = 0
        self._until, self._heed, self.heard = 0.0, 0.0, time.monotonic()

    @property
    def resting(self) -> bool:
        """Whether it is left alone now."""
        return time.monotonic() < self._until

    @property
    def forgotten(self) -> bool:
        """Whether it no longer counts."""
        return time.monotonic() - self.heard > FORGOTTEN

    def present(self) -> None:
        """It has said something."""
        self.heard = time.monotonic()

    def answered(self, seconds: float, wait: float) -> None:
        """It took so long to answer; a fifth of what an answer may take is nobody's fault."""
        self.present()
        self.failures = 0
        self._until = self.heard + _REST * max(0.0, seconds - wait / 5)

    def hinted(self, right: bool, until: float) -> None:
        """Where it said that another is, it was, or was not; then less is heeded until some time."""
        self._wrong, self._heed = (0, 0.0) if right else (self._wrong + 1, until)

    def heeded(self, most: int) -> int:
        """How many of its hints are followed: half of the `most` for each in a row that was wrong, or one in time."""
        return max(most >> self._wrong, int(time.monotonic() >= self._heed))

    def failed(self, seconds: float) -> None:
        """It did not answer for so long."""
        self.failures += 1
        self._until = time.monotonic() + min(LONGEST, _REST * self.failures * seconds)


class Peers:
    """The others by name, of which each has a place of its own.

    Args:
        drop: closes a line.
    """

    def __init__(self, drop: Callable[[Line], None]) -> None:
        self._held: dict[str, Peer] = {}
        self._drop = drop

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def get(self, name: str) -> Peer | None:
        return self._held.get(name)

    def items(self) -> ItemsView[str, Peer]:
        return self._held.items()

    def names(self) -> list[str]:
        """Those that count, in order."""
        return sorted(name for name, peer in self._held.items() if not peer.forgotten)

    def add(self, name: str, place: str) -> None:
        """A name is at a place from now on, and no other is.

        Where there is no room goes, of the host that has the most, the one that was silent for longest.
        """
        for other in [held for held, peer in self._held.items() if held == name or peer.place == place]:
            self.remove(other)
        if len(self._held) >= PEERS:
            hosts = Counter(_host(peer) for peer in self._held.values())
            most = max(hosts.values())
            crowd = {held: peer.heard for held, peer in self._held.items() if hosts[_host(peer)] == most}
            self.remove(min(crowd, key=crowd.__getitem__))
        self._held[name] = Peer(place)

    def remove(self, name: str) -> None:
        """A node has left, and the line to it ends."""
        peer = self._held.pop(name, None)
        if peer is not None and peer.line is not None:
            self._drop(peer.line)


class Speaker:
    """Who has opened a line, as it says.

    Attributes:
        node, where, token: of its `Hello`. host: that the line comes from. proven: it is who it says.
    """

    def __init__(self, hello: Hello, line: Line) -> None:
        self.node, self.where, self.token, self.line = hello.node, hello.where, hello.token, line
        self.host, self.proven, self._next = line.there.rpartition(":")[0], False, 0.0

    def early(self, seconds: float) -> bool:
        """Whether it was asked to prove itself less than so many seconds ago; else it is now."""
        moment = time.monotonic()
        if moment < self._next:
            return True
        self._next = moment + seconds
        return False


def _host(peer: Peer) -> str:
    return peer.place.rpartition(":")[0]
