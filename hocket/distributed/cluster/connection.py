"""Lines to a run's other processes: a message goes one way, its answer comes back."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection as PipeConnection
from typing import TYPE_CHECKING, Protocol

from hocket.core.ending import left_to_parent
from hocket.core.errors import HocketError
from hocket.core.waits import waiting_for
from hocket.distributed.cluster.weights import PackedWeights
from hocket.train.cores import available_cores

if TYPE_CHECKING:
    from hocket.distributed.cluster.ranks import Rendezvous

HEARTBEAT_SECONDS = 1.0
"""Seconds between two signs of life."""

HEARTBEAT_TIMEOUT = 30.0
"""Seconds without a sign of life after which a process counts as gone, however alive it may be."""

START_TIMEOUT = 180.0
"""Seconds in which a process must give its first."""

_HANDED = b"+"
"""Comes with a descriptor, which cannot come alone."""

_COMMAND = "import sys; sys.path[:] = {path!r}; from {module} import main; main({handle})"


class PeerLost(HocketError):
    """Who was at the other end of a line has ended, or says nothing any more."""


class Connection(Protocol):
    """One other process. Messages are answered one by one, in order; one thread at a time may use it."""

    @property
    def name(self) -> str:
        """In messages, such as `sampler 2`."""
        ...

    def send(self, message: bytes, beside: Sequence[PackedWeights] = ()) -> None:
        """Sends a message and does not wait for its answer.

        Args:
            beside: weights that belong to it. What several lines are sent is written once.

        Raises:
            PeerLost: when nobody listens.
        """
        ...

    def receive(self) -> bytes:
        """The answer to the first message that has none yet.

        Raises:
            PeerLost: when there will be none.
        """
        ...

    def ready(self, seconds: float) -> bool:
        """Whether `receive` would return or raise within some seconds."""
        ...

    def close(self) -> None:
        """Ends the process; whoever waits for it gets an error."""
        ...


class Host(Protocol):
    """Where other processes are started."""

    @property
    def cores(self) -> int:
        """How many there are for such processes, all together."""
        ...

    def line(self, name: str, module: str) -> Connection:
        """Starts a process with the `Worker` of a module of hocket, and does not wait for it."""
        ...

    def rendezvous(self) -> contextlib.AbstractContextManager[Rendezvous]:
        """What some of them, and this process, find each other by for as long as it is held."""
        ...


class ThisMachine:
    """Processes of this machine.

    Args:
        devices: what CUDA calls its devices. This process has the first, and the others are dealt them in turn; whoever
            takes the place of a process takes its device.
    """

    def __init__(self, devices: Sequence[str] = ()) -> None:
        self._devices, self._dealt = devices, dict[str, str]()

    @property
    def cores(self) -> int:
        return available_cores()

    def line(self, name: str, module: str) -> ChildProcess:
        if not self._devices:
            return ChildProcess(name, module)
        device = self._dealt.setdefault(name, self._devices[(1 + len(self._dealt)) % len(self._devices)])
        return ChildProcess(name, module, {"CUDA_VISIBLE_DEVICES": device})

    @contextlib.contextmanager
    def rendezvous(self) -> Iterator[Rendezvous]:
        from hocket.distributed.cluster.ranks import FolderRendezvous

        with tempfile.TemporaryDirectory(prefix="hocket-learners-", ignore_cleanup_errors=True) as folder:
            yield FolderRendezvous(folder)  # This user's alone.


class ChildProcess:
    """A process of this machine: a fresh interpreter, so that it can be started from scripts and notebooks alike.

    Args:
        name: in messages. module: whose `main` it runs. environment: what differs from this process's.

    Attributes:
        process: it.
    """

    def __init__(self, name: str, module: str, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        ours, theirs = Pipe()
        # A session of its own: Ctrl-C in a terminal goes to the whole foreground group.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND.format(path=sys.path, module=module, handle=theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        theirs.close()
        _limited(ours, HEARTBEAT_TIMEOUT)
        self._connection, self._ear = ours, _Ear(ours, HEARTBEAT_TIMEOUT)
        self._next: list[bytes | None] = []
        threading.Thread(target=self._ear.listen, name=f"hocket-{name}", daemon=True).start()
        weakref.finalize(self, _end, self.process, ours)  # Also when the run is dropped, or the interpreter ends.

    def send(self, message: bytes, beside: Sequence[PackedWeights] = ()) -> None:
        layouts = [weights if weights.memory is None else weights.layout for weights in beside]
        try:
            self._connection.send_bytes(pickle.dumps((message, layouts)))
            with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
                for weights in beside:
                    if weights.memory is not None:
                        socket.send_fds(line, [_HANDED], [weights.memory])
        except OSError as error:
            raise self._gone() from error

    def receive(self) -> bytes:
        with waiting_for(self.name):
            while not self.ready(HEARTBEAT_SECONDS):
                pass
        answer = self._next.pop()
        if answer is None:
            self._next.append(None)  # It will not come back.
            raise self._gone()
        return answer

    def ready(self, seconds: float) -> bool:
        if not self._next:
            with contextlib.suppress(queue.Empty):
                self._next.append(self._ear.answers.get(timeout=seconds))
        if not self._next and self._ear.silent:
            self._next.append(None)
        return bool(self._next)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _gone(self) -> PeerLost:
        """What became of it, in words."""
        if self._ear.silent and self.process.poll() is None:
            self.close()
            return PeerLost(f"{self.name} has given no sign of life for {self._ear.patience:.0f} s")
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.close()
            return PeerLost(f"{self.name} no longer answers")
        how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        why = ", as when memory runs out" if code == -signal.SIGKILL else ""
        return PeerLost(f"{self.name} ended {how}{why}")


class _Ear:
    """Hears what a process says; it knows of no `ChildProcess`, so that one can be dropped."""

    def __init__(self, connection: PipeConnection, patience: float) -> None:
        self.answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._connection, self._later = connection, patience
        self._heard, self.patience = time.monotonic(), START_TIMEOUT

    @property
    def silent(self) -> bool:
        """Whether the last sign of life is too long ago."""
        return time.monotonic() - self._heard > self.patience

    def listen(self) -> None:
        """Keeps answers; an empty message is a sign of life and nothing else. None is the end."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                answer = self._connection.recv_bytes()
                self._heard, self.patience = time.monotonic(), self._later
                if answer:
                    self.answers.put(answer)
        self.answers.put(None)


def serve(handle: int, answered: Callable[..., bytes], over: Callable[[], bool] = lambda: False) -> None:
    """In the other process: answers what comes over the connection at a file descriptor, and the weights beside it.

    It ends as soon as the first process is gone, whatever it does, and after an answer with which all is `over`.
    """
    left_to_parent()
    connection, lock = PipeConnection(handle), threading.Lock()
    inbox: queue.SimpleQueue[tuple[bytes, Sequence[PackedWeights]]] = queue.SimpleQueue()

    def reply(message: bytes) -> None:
        with lock:
            connection.send_bytes(message)

    def listen() -> None:
        message, layouts = pickle.loads(connection.recv_bytes())
        held = (
            layout if isinstance(layout, PackedWeights) else PackedWeights.at(_handed(connection), layout)
            for layout in layouts
        )
        inbox.put((message, list(held)))

    def beat() -> None:
        time.sleep(HEARTBEAT_SECONDS)
        reply(b"")

    for act in (listen, beat):
        threading.Thread(target=_lasting, args=(act,), daemon=True).start()
    while True:
        message, beside = inbox.get()
        answer = answered(message, *beside)
        _once(partial(reply, answer))
        if over():
            os._exit(1)  # Not by way of anything that waits for others.


def _lasting(act: Callable[[], object]) -> None:
    while True:
        _once(act)


def _once(act: Callable[[], object]) -> None:
    """Does something with the other end, and ends with it."""
    try:
        act()
    except (EOFError, OSError):
        os._exit(0)
    except Exception:
        traceback.print_exc()
        os._exit(1)


def _handed(connection: PipeConnection) -> int:
    """The descriptor that comes next."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        _, handles, _, _ = socket.recv_fds(line, len(_HANDED), 1)
    if not handles:
        raise EOFError
    return handles[0]


def _limited(connection: PipeConnection, seconds: float) -> None:
    """Has sending fail where the other end has taken nothing for so long."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), 0))


def _end(process: subprocess.Popen[bytes], connection: PipeConnection) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    with contextlib.suppress(OSError):
        connection.close()
