"""Lines between nodes: TCP, framed and opened as `multiprocessing.connection` does, every message within a limit."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import IPv4Address
from multiprocessing import AuthenticationError
from multiprocessing.connection import answer_challenge, deliver_challenge
from typing import Any

from hocket.core.errors import ConfigurationError, HocketError

STRANGERS = 32
"""Lines at most that have not shown the key yet; each has a thread, and the time of one answer to show it."""

MEMBERS = 256
"""Lines at most that have shown it."""

IDLE = 600.0
"""Seconds after which a line on which nothing is said is closed; its node opens another."""

_SIZE = struct.Struct("!i")

_PART = 2**16
"""Bytes that are read at a time, whatever a message says of its size."""

_TRIES = 3
"""A node that many strangers crowd may close a line before it is open; then it is tried again."""


class Line:
    """One line. What is read and sent must be through by the time of the last `within`.

    Args:
        connected: its socket, which is closed with it.

    Attributes:
        here, there: `HOST:PORT` of its two ends. token: what its opener has given it for a name; "" where it was taken.
    """

    def __init__(self, connected: socket.socket, token: str = "") -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket, self.token, self._end = connected, token, 0.0
        self.here, self.there = (f"{host}:{port}" for host, port in (connected.getsockname(), connected.getpeername()))

    def within(self, seconds: float) -> None:
        """Gives what follows so much time, all together."""
        self._end = time.monotonic() + seconds

    def wait(self, seconds: float) -> None:
        """Returns when there is something to read.

        Raises:
            EOFError: when the other end was closed. TimeoutError: when there is nothing in time.
        """
        self._socket.settimeout(seconds)
        if not self._socket.recv(1, socket.MSG_PEEK):
            raise EOFError("the line was closed")

    def send_bytes(self, data: bytes) -> None:
        """Sends a message.

        Raises:
            OSError: when the other end does not take it in time.
        """
        self._socket.settimeout(self._left())
        self._socket.sendall(_SIZE.pack(len(data)) + data)

    def recv_bytes(self, most: int) -> bytes:
        """The next message.

        Raises:
            EOFError: when the line ends. OSError: when it is larger than `most` bytes, or not there in time.
        """
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if not 0 <= size <= most:
            raise OSError(f"a message of {size} bytes; at most {most} are read")
        return self._read(size)

    def end(self) -> None:
        """Ends it for both sides; whoever reads it notices, and closes it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(self._left())
            part = self._socket.recv(min(size - len(data), _PART))
            if not part:
                raise EOFError("the line was closed")
            data += part
        return bytes(data)

    def _left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("too slow")
        return left


def dialled(place: str, key: bytes, seconds: float, *, source: str, token: str = "") -> Line:
    """A line to a place, from the address `source`; both ends have shown that they have the key.

    Raises:
        HocketError: when it is no place. OSError, EOFError: when nobody answers there in time.
        AuthenticationError: when that node has another key.
    """
    host, port = numbered(place)
    end = time.monotonic() + seconds
    for left in reversed(range(_TRIES)):
        try:
            return _dialled((host, port), key, end - time.monotonic(), source, token)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            if not left or time.monotonic() >= end:
                raise
    raise AssertionError("the last try returns or raises")


def _dialled(address: tuple[str, int], key: bytes, seconds: float, source: str, token: str) -> Line:
    connected = socket.create_connection(address, timeout=max(seconds, 0.001), source_address=(source, 0))
    try:
        line = Line(connected, token)
        line.within(seconds)
        ours: Any = line  # It has what they use of a connection.
        answer_challenge(ours, key)
        deliver_challenge(ours, key)
    except BaseException:
        connected.close()
        raise
    return line


def numbered(place: str) -> tuple[str, int]:
    """`HOST:PORT` in its parts.

    Raises:
        HocketError: for anything else.
    """
    host, _, port = place.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) < 2**16:
        raise HocketError(f"{place!r} is no place to reach a node")
    return host, int(port)


class Door:
    """Where a node listens: a thread for each line, for few strangers at a time and for so long as an answer may take.

    Who comes when there is no room takes the place of the oldest line of the host that has the most; of those that have
    shown the key, the one that has been silent for longest.

    Args:
        address: to listen at. key: that all must have. serve: answers a line of a node until it returns or raises.
        seconds: in which the key must be shown. counts: of what happened.

    Raises:
        OSError: when it cannot listen there.
    """

    def __init__(
        self,
        address: tuple[str, int],
        key: bytes,
        serve: Callable[[Line], None],
        *,
        seconds: float,
        strangers: int,
        members: int,
        counts: Counter[str],
    ) -> None:
        self._key, self._serve, self._seconds, self._counts = key, serve, seconds, counts
        self._most = {"stranger": strangers, "member": members}
        self._lines: dict[str, dict[Line, threading.Thread]] = {"stranger": {}, "member": {}}
        self._lock, self.closed = threading.Lock(), False
        self._socket = socket.create_server(address, family=socket.AF_INET, backlog=256)
        host, port = self._socket.getsockname()
        self.where = f"{host}:{port}"
        self._thread = threading.Thread(target=self._accept, name=f"listens at {self.where}", daemon=True)

    def open(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def heard(self, line: Line) -> None:
        """Something was said on it."""
        with self._lock:
            members = self._lines["member"]
            if line in members:
                members[line] = members.pop(line)

    def close(self) -> None:
        """Ends all lines, and their threads."""
        self.closed = True
        # A blocked accept() does not notice that its socket was closed.
        with suppress(OSError):
            socket.create_connection(self._socket.getsockname(), timeout=1).close()
        self._socket.close()
        with self._lock:
            lines = {line: thread for every in self._lines.values() for line, thread in every.items()}
        for line in lines:
            line.end()
        end = time.monotonic() + self._seconds
        for thread in (self._thread, *lines.values()):
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))

    def _accept(self) -> None:
        while not self.closed:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                time.sleep(0.05)  # There are no descriptors left, for now.
                continue
            try:
                line = Line(connected)
                thread = threading.Thread(target=self._line, args=(line,), name=f"line from {line.there}", daemon=True)
                self._room("stranger", line, thread)
                thread.start()
            except (OSError, RuntimeError):  # It was closed again at once, or there are no threads left.
                connected.close()

    def _room(self, kind: str, line: Line, thread: threading.Thread) -> None:
        """Takes a line among those of a kind."""
        with self._lock:
            held = self._lines[kind]
            if len(held) >= self._most[kind]:
                worst = crowding(held)
                held.pop(worst)
                worst.end()
                self._counts[f"{kind}s crowded out"] += 1
            held[line] = thread
        if self.closed:
            line.end()

    def _line(self, line: Line) -> None:
        ours: Any = line
        try:
            line.within(self._seconds)
            deliver_challenge(ours, self._key)
            answer_challenge(ours, self._key)
            self._gone(line)
            self._room("member", line, threading.current_thread())
            self._serve(line)
        except AuthenticationError:
            self._counts["refused"] += 1
        except (OSError, EOFError):
            pass
        finally:
            self._gone(line)
            line.close()

    def _gone(self, line: Line) -> None:
        with self._lock:
            for held in self._lines.values():
                held.pop(line, None)


def crowding(lines: Collection[Line]) -> Line:
    """The first line of the host that has the most."""
    hosts = Counter(line.there.rpartition(":")[0] for line in lines)
    most = max(hosts.values())
    return next(line for line in lines if hosts[line.there.rpartition(":")[0]] == most)


def is_address(place: str) -> bool:
    """Whether it is an address in numbers: nobody's names are looked up for others."""
    try:
        return IPv4Address(numbered(place)[0]).is_unspecified is False
    except (ValueError, HocketError):
        return False


def parse_place(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or `HOST` for a free port.

    Raises:
        ConfigurationError: for anything else.
    """
    host, _, port = text.partition(":")
    if not host or (port and not port.isdigit()):
        raise ConfigurationError(f"listen = {text}: write HOST:PORT, or HOST for a free port")
    return host, int(port or 0)


def places(text: str) -> list[str]:
    """`A:1,B:2` as a list.

    Raises:
        ConfigurationError: for what is no `HOST:PORT`.
    """
    addresses = [address.strip() for address in text.split(",") if address.strip()]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigurationError(f"join = {address}: write HOST:PORT")
    return addresses
