"""What was sent to a node and not read yet: bounded by sender and in all, so that none crowds out the others."""

from __future__ import annotations

import threading
from collections import deque

from hocket.distributed.swarm.messages import LARGEST
from hocket.distributed.swarm.pool import PER_NODE

OF_ONE = 2**24
"""Bytes of one sender that wait at most."""

OF_ALL = 2**28
"""Bytes that wait at most."""


class Inbox:
    """Messages with who sent them. Beyond a bound the oldest of its sender goes, in all of the sender with the most."""

    def __init__(self) -> None:
        self._held: dict[str, deque[tuple[int, bytes]]] = {}
        self._bytes: dict[str, int] = {}
        self._number = 0
        self._lock = threading.Lock()

    def put(self, sender: str, data: bytes) -> int:
        """Takes a message in; how many went for it, itself among them where it is larger than any that is read."""
        if len(data) > LARGEST:
            return 1
        with self._lock:
            self._number += 1
            held = self._held.setdefault(sender, deque())
            held.append((self._number, data))
            self._bytes[sender] = self._bytes.get(sender, 0) + len(data)
            gone = 0
            while len(held) > PER_NODE or self._bytes[sender] > OF_ONE:
                gone += self._drop(sender)
            while sum(self._bytes.values()) > OF_ALL:
                gone += self._drop(max(self._bytes, key=self._bytes.__getitem__))
            return gone

    def drained(self) -> list[tuple[str, bytes]]:
        """All of it, oldest first, which is let go."""
        with self._lock:
            held, self._held, self._bytes = self._held, {}, {}
        ordered = sorted((number, sender, data) for sender, every in held.items() for number, data in every)
        return [(sender, data) for _, sender, data in ordered]

    def _drop(self, sender: str) -> int:
        _, data = self._held[sender].popleft()
        self._bytes[sender] -= len(data)
        return 1
