"""Members of a swarm that have its key and do not keep to its rules."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import msgspec

from hocket.distributed.swarm.frames import EntryList, Frame, Given, Hello, Mine, PieceRequest, Yours
from hocket.distributed.swarm.mesh import Mesh
from hocket.distributed.swarm.registry import Entry, EntryMessage

KEY = b"a key of this test"
WAIT = 0.4
LARGEST_COUNT = 2**53 - 1


def where(name: str, place: str, count: int = 1) -> EntryMessage:
    return EntryMessage(name, "where", Entry(count, place))


def number(place: str) -> int:
    return int(place.rpartition(":")[2])


class Liar:
    """A member that answers by its name to whatever it is asked, and tells what it likes."""

    def __init__(self, name: str, *, silent: bool = False) -> None:
        self.name, self.silent, self.tells = name, silent, list[EntryMessage]()
        self.greeted, self.pieces, self.delay = list[Hello](), dict[str, bytes](), 0.0
        self._listener = Listener(("127.0.0.1", 0), family="AF_INET", authkey=KEY, backlog=64)
        self.where = f"127.0.0.1:{self._listener.address[1]}"
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def line(self, mesh: Mesh, name: str | None = None, place: str | None = None, token: str | None = None) -> Any:
        """A line to a node, opened by a name and a place, its own where nothing else is asked."""
        made = Client(("127.0.0.1", number(mesh.where)), family="AF_INET", authkey=KEY)
        own = secrets.token_hex(8) if token is None else token
        made.send_bytes(
            msgspec.msgpack.encode(Hello(name or self.name, self.where if place is None else place, token=own))
        )
        return made

    def member(self, mesh: Mesh) -> Any:
        """A line to a node that knows it."""
        made = self.line(mesh)
        say(made, EntryList([where(self.name, self.where)], self.name, "one"))
        assert self.name in mesh.others()
        return made

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", number(self.where)), timeout=1).close()
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            with suppress(Exception):
                threading.Thread(target=self._serve, args=(self._listener.accept(),), daemon=True).start()

    def _serve(self, line: Connection) -> None:
        with suppress(EOFError, OSError), line:
            self.greeted.append(msgspec.msgpack.decode(line.recv_bytes(), type=Hello))
            while True:
                frame = msgspec.msgpack.decode(line.recv_bytes(), type=Frame)
                if self.silent:
                    self._over.wait()
                line.send_bytes(msgspec.msgpack.encode(self._answer(frame)))

    def _answer(self, frame: Any) -> Any:
        if isinstance(frame, Yours):
            return Mine(self.name, True)
        if isinstance(frame, EntryList):
            return EntryList([where(self.name, self.where), *self.tells], self.name, "one")
        if isinstance(frame, PieceRequest):
            time.sleep(self.delay)
            return Given(self.pieces.get(frame.name))
        return Given(None)


def say(line: Connection, frame: Any) -> Any:
    """The answer to something on a line."""
    line.send_bytes(msgspec.msgpack.encode(frame))
    assert line.poll(10)
    return msgspec.msgpack.decode(line.recv_bytes(), type=Frame)


@contextmanager
def meshes(*names: str, **more: Any) -> Iterator[Sequence[Any]]:
    """Nodes that know each other."""
    with ExitStack() as stack:
        made = list[Mesh]()
        for name in names:
            made.append(Mesh(name, key=KEY, wait=WAIT, **more))
            stack.callback(made[-1].vanish)
            made[-1].join(*(one.where for one in made[:1] if one is not made[-1]))
        for one in made:
            one.gossip()
        yield made


@contextmanager
def liars(*names: str) -> Iterator[Sequence[Any]]:
    with ExitStack() as stack:
        made = [Liar(name) for name in names]
        for one in made:
            stack.callback(one.close)
        yield made


@contextmanager
def frozen_places(count: int) -> Iterator[list[str]]:
    """Places where lines are taken and nothing is said, as by a stopped process."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64)) for _ in range(count)]
        yield [f"127.0.0.1:{one.getsockname()[1]}" for one in made]


@contextmanager
def served(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A place where each line is answered by a function."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()

        def quietly(line: socket.socket) -> None:
            with suppress(OSError), line:
                answer(line)

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
