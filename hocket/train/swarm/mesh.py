"""Nodes of several processes or machines that talk to each other directly, with nobody in charge.

Whoever knows one node finds the others: they tell each other their registries (`Registry`), in which each says where
it listens and what it has published. What is published is taken apart; each piece is kept by the few nodes nearest to
its name (`nearest`), and by whom it was fetched. A piece that is not what its name says is asked of the next.

Lines are those of `multiprocessing.connection`: TCP, length-framed, opened by a challenge on a key that all share.
Messages are checked data. There is no way through address translation here: nodes must reach each other's addresses.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter, deque
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hocket.core.errors import ConfigurationError, HocketError
from hocket.train.swarm.blobs import PIECE, Address, Missing, address, manifest_of, nearest, taken_apart
from hocket.train.swarm.messages import LARGEST
from hocket.train.swarm.registry import MOST, Registry, Said, Word

COPIES = 3
"""How many nodes keep a piece besides its publisher."""

WAIT = 5.0
"""Seconds that an answer may take."""

FRAME = 4 * LARGEST
"""Bytes of a message on a line."""

HELD = 2**12
"""Messages that wait to be read, and pieces that are kept, at most."""


class Told(Struct, frozen=True, tag="told"):
    """Everything a node knows, by which the other answers with the same."""

    entries: Annotated[list[Said], Meta(max_length=MOST)]


class Sent(Struct, frozen=True, tag="sent"):
    """Something for the node that hears it."""

    data: bytes


class Asked(Struct, frozen=True, tag="asked"):
    """Asks for a piece; the answer is `Given`, with None where it is not there."""

    name: Address


class Given(Struct, frozen=True, tag="given"):
    """A piece: as an answer, or to be kept."""

    data: Annotated[bytes, Meta(max_length=PIECE)] | None


Frame = Told | Sent | Asked | Given


class Hello(Struct, frozen=True):
    """The first thing on a line: who has opened it."""

    node: Word


_READER = msgspec.msgpack.Decoder(Frame)


class Mesh:
    """A node's place among the others.

    Args:
        node: its name, which no other has. host, port: where it listens; port 0 takes a free one.
        key: the secret that all nodes share.

    Attributes:
        registry: what is known of all. inbox: what was sent, oldest first, with who sent it. pieces: that it keeps.
        counts: what happened on the lines. where: `HOST:PORT`.

    Raises:
        ConfigurationError: when it cannot listen there.
    """

    def __init__(
        self,
        node: str,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        key: bytes,
    ) -> None:
        self.node, self.registry = node, Registry(node)
        self.inbox: deque[tuple[str, bytes]] = deque(maxlen=HELD)
        self.pieces: dict[str, bytes] = {}
        self.counts: Counter[str] = Counter()
        self._key, self._lock = key, threading.Lock()
        self._lines: dict[str, Connection] = {}
        self._open: set[Connection] = set()
        self._closed = False
        try:
            self._listener = Listener((host, port), family="AF_INET", backlog=64)
        except OSError as error:
            raise ConfigurationError(f"listen = {host}:{port}: {error.strerror}; choose another port, or 0") from error
        self.where = f"{host}:{self._listener.address[1]}"
        self.registry.write("where", self.where)
        threading.Thread(target=self._accept, name=f"{node} listens", daemon=True).start()

    # ------------------------------------------------------------ others

    def join(self, *places: str) -> None:
        """Makes itself known to the nodes that listen at `HOST:PORT`, and learns of all that they know.

        Raises:
            ConfigurationError: when none of them answers, or one has another key or this node's name.
        """
        answered = [self._greet(place) for place in places]
        if places and not any(answered):
            raise ConfigurationError(f"join = {', '.join(places)}: nobody answers there; start that node first")
        self.gossip()

    def gossip(self) -> None:
        """Tells all nodes what it knows, and learns what they know."""
        for node in self.others():
            with suppress(HocketError):
                self._learn(self._ask(node, Told(self._entries())))

    def others(self) -> list[str]:
        """The nodes heard of that have not said that they left."""
        with self._lock:
            return [node for node, where in self.registry.nodes("where").items() if where and node != self.node]

    def send(self, data: bytes) -> None:
        """Sends something to all others; who does not answer misses it."""
        for node in self.others():
            with suppress(HocketError):
                self._ask(node, Sent(data))
                self.counts["sent"] += 1

    def drained(self) -> list[tuple[str, bytes]]:
        """What has arrived since, with who sent it."""
        found = []
        while self.inbox:
            found.append(self.inbox.popleft())
        return found

    # ------------------------------------------------------------ what is published

    def publish(self, name: str, data: bytes) -> str:
        """Hands a thing's pieces to those that are to keep them, and announces it; its address.

        Raises:
            ConfigurationError: when it has more pieces than a node keeps.
        """
        manifest, pieces = taken_apart(data)
        if len(pieces) >= HELD:
            most = HELD * PIECE // 2**20
            raise ConfigurationError(
                f"publish: {name} of {len(data) // 2**20} MiB; nodes keep less than {most} MiB each"
            )
        written = manifest.written()
        pieces[address(written)] = written
        for piece, part in pieces.items():
            self._keep(piece, part)
            for node in nearest(piece, self.others(), COPIES):
                with suppress(HocketError):
                    self._ask(node, Given(part))
        with self._lock:
            self.registry.write(name, address(written))
        return address(written)

    def fetch(self, name: str) -> bytes:
        """A thing by its address, from whoever has its pieces.

        Raises:
            Missing: when a piece is nowhere.
        """
        manifest = manifest_of(self._piece(name))
        return manifest.joined({piece: self._piece(piece) for piece in manifest.pieces})

    def newest(self, name: str) -> list[tuple[str, str]]:
        """What others announce under a name: the node and the address, who announced most often first."""
        with self._lock:
            every = [one for one in self.registry.entries() if one.name == name and one.node != self.node]
        return [(one.node, one.entry.value) for one in sorted(every, key=lambda one: (-one.entry.count, one.node))]

    def _piece(self, name: str) -> bytes:
        if name in self.pieces:
            return self.pieces[name]
        everybody = self.others()
        for node in nearest(name, everybody, len(everybody)):
            try:
                given = self._ask(node, Asked(name))
            except HocketError:
                continue
            if isinstance(given, Given) and given.data is not None:
                if address(given.data) == name:
                    self._keep(name, given.data)
                    return given.data
                self.counts["damaged"] += 1
        raise Missing(f"piece {name} is with none of {len(everybody)} nodes")

    def _keep(self, name: str, data: bytes) -> None:
        self.pieces[name] = data
        while len(self.pieces) > HELD:
            self.pieces.pop(next(iter(self.pieces)))

    # ------------------------------------------------------------ lines

    def close(self) -> None:
        """Says that it leaves, and ends all lines."""
        with self._lock:
            self.registry.write("where", "")
        self.gossip()
        self.vanish()

    def vanish(self) -> None:
        """Ends all lines without a word."""
        self._closed = True
        # A blocked accept() does not notice that its socket was closed.
        with suppress(OSError, HocketError):
            host, _, port = self.where.rpartition(":")
            socket.create_connection((host, int(port)), timeout=1).close()
        self._listener.close()
        for line in list(self._open):
            # Whoever reads the line sees its end, and closes it.
            with suppress(OSError, ValueError), socket.socket(fileno=os.dup(line.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    def _entries(self) -> list[Said]:
        with self._lock:
            return self.registry.entries()

    def _learn(self, answer: Frame) -> None:
        if isinstance(answer, Told):
            with self._lock:
                self.registry.merge(answer.entries)

    def _greet(self, place: str) -> bool:
        """Whether somebody answers at a place, from whom all is learnt."""
        try:
            line = self._opened(place)
            answer = self._over(line, Told([]))
            line.close()
        except AuthenticationError as error:
            raise ConfigurationError(f"join = {place}: that node has another key") from error
        except (OSError, EOFError, HocketError):
            return False
        told = answer.entries if isinstance(answer, Told) else ()
        where = next((one.entry.value for one in told if (one.node, one.name) == (self.node, "where")), "")
        self._learn(answer)
        if where and where != self.where and self._answers(where):
            raise ConfigurationError(f"name = {self.node}: a node of that name is there already; choose another")
        with self._lock:
            self.registry.write("where", self.where)  # After what this node may have said in an earlier life.
        return True

    def _answers(self, where: str) -> bool:
        try:
            self._opened(where).close()
        except (OSError, EOFError, AuthenticationError, HocketError):
            return False
        return True

    def _opened(self, place: str) -> Connection:
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise HocketError(f"{place!r} is no place to reach a node")
        # Fails at once where nobody listens, and within a limit where nothing answers.
        socket.create_connection((host, int(port)), timeout=WAIT).close()
        line = Client((host, int(port)), family="AF_INET", authkey=self._key)
        line.send_bytes(msgspec.msgpack.encode(Hello(self.node)))
        self._open.add(line)
        return line

    def _ask(self, node: str, frame: Frame) -> Frame:
        """A node's answer.

        Raises:
            HocketError: when it does not answer in time; its line is opened anew the next time.
        """
        where = self.registry.read(node, "where")
        if not where:
            raise HocketError(f"{node} has left")
        try:
            line = self._lines.get(node) or self._opened(where)
            self._lines[node] = line
            return self._over(line, frame)
        except (OSError, EOFError, AuthenticationError, HocketError) as error:
            self.counts["unanswered"] += 1
            if (line_held := self._lines.pop(node, None)) is not None:
                self._open.discard(line_held)
                line_held.close()
            raise HocketError(f"{node} does not answer: {error}") from error

    def _over(self, line: Connection, frame: Frame) -> Frame:
        line.send_bytes(msgspec.msgpack.encode(frame))
        if not line.poll(WAIT):
            raise HocketError(f"nothing was heard for {WAIT:g} s")
        return _read(line)

    def _accept(self) -> None:
        while not self._closed:
            try:
                line = self._listener.accept()
            except (OSError, EOFError):
                continue
            self._open.add(line)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: Connection) -> None:
        """Answers one line until it ends; what is no message, or another key, ends it."""
        try:
            deliver_challenge(line, self._key)
            answer_challenge(line, self._key)
            node = msgspec.msgpack.decode(line.recv_bytes(FRAME), type=Hello).node
            while not self._closed:
                line.send_bytes(msgspec.msgpack.encode(self._answer(node, _read(line))))
        except (OSError, EOFError):
            pass
        except AuthenticationError:
            self.counts["refused"] += 1
        except (msgspec.MsgspecError, UnicodeDecodeError, HocketError):
            self.counts["malformed"] += 1
        finally:
            self._open.discard(line)
            line.close()

    def _answer(self, node: str, frame: Frame) -> Frame:
        if isinstance(frame, Told):
            self._learn(frame)
            return Told(self._entries())
        if isinstance(frame, Asked):
            held = self.pieces.get(frame.name)
            return Given(held)
        if isinstance(frame, Given):
            if frame.data is not None:
                self._keep(address(frame.data), frame.data)
            return Given(None)
        self.inbox.append((node, frame.data))
        return Given(None)


def _read(line: Connection) -> Frame:
    try:
        found: Frame = _READER.decode(line.recv_bytes(FRAME))
        return found
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HocketError(f"no message: {error}") from error


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
    found = [one.strip() for one in text.split(",") if one.strip()]
    for one in found:
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigurationError(f"join = {one}: write HOST:PORT")
    return found
