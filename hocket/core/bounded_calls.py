"""Calls that may never end, made in a process beside this one that is ended when they do not.

Algebra systems cannot be interrupted: a signal waits for their arithmetic, and reaches the main thread alone. The
process is started at the first call, lives on for further ones, and is limited in processor time, which does not
depend on how busy the machine is, and in memory. It imports what is called and nothing of torch.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from hocket.core.errors import HocketError

CPU = 3.0
"""Seconds of processor time that a call may take."""
MEMORY = 3 << 30
"""Bytes of address space that the process may use."""
_PATIENCE = 120.0
"""Seconds by the clock, for starting and importing as for a call, before a process that says nothing is given up."""
_HEAD = struct.Struct("<Qd")


class OverTime(HocketError):
    """A call took more processor time or memory than it may."""


def bounded(function: Callable[..., Any], *arguments: Any, cpu: float = CPU) -> Any:
    """`function(*arguments)`, made in the process beside this one. Calls from several threads wait for each other.

    Args:
        function: of a module that can be imported; it returns what JSON can hold.
        arguments: what pickle can hold.
        cpu: seconds of processor time it may take, imports aside.

    Raises:
        OverTime: when it took more.
        RuntimeError: when it raised, with its message.
    """
    return _BESIDE.call(pickle.dumps((function, arguments)), cpu)


class _Beside:
    """The process, from its first call on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, order: bytes, cpu: float) -> Any:
        with self._lock:
            try:
                process = self._running()
                assert process.stdin is not None
                with suppress(BrokenPipeError):  # it has ended, which the missing answer shows
                    process.stdin.write(_HEAD.pack(len(order), cpu) + order)
                    process.stdin.flush()
                answer = _line(process)
            except BaseException:
                self.end()
                raise
            if answer is None:
                self.end()
        reply = {"late": True} if answer is None else json.loads(answer)
        if "late" in reply:
            raise OverTime(f"it took more than {cpu:g} s of processor time or {MEMORY >> 30} GiB of memory")
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["value"]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.end()
        program = f"import sys; sys.path[:] = {sys.path!r}; from hocket.core.bounded_calls import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for whoever asks
        )
        if _line(self._process) is None:
            raise HocketError("a process for calls that are limited in time did not start; see `hocket doctor`")
        return self._process

    def end(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def _line(process: subprocess.Popen[bytes]) -> bytes | None:
    """What it says next; None when it ends or is silent for too long."""
    assert process.stdout is not None
    until, line = time.monotonic() + _PATIENCE, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            piece = os.read(process.stdout.fileno(), 1 << 16) if selector.select(until - time.monotonic()) else b""
            if not piece:
                return None
            line += piece
    return line


_BESIDE = _Beside()
atexit.register(lambda: _BESIDE.end())


def _forked() -> None:
    global _BESIDE
    _BESIDE = _Beside()


os.register_at_fork(after_in_child=_forked)


# ---------------------------------------------------------------- the process itself


def serve() -> None:
    """Passes calls from standard input to a fork of this process, until it is closed.

    What is called is imported here, so that a fork whose call did not end is replaced in no time.
    """
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):  # what is called may print
        os.dup2(nowhere, number)
    answers.write(b"\n")
    answers.flush()
    fork: _Fork | None = None
    while len(head := calls.read(_HEAD.size)) == _HEAD.size:
        order = calls.read(_HEAD.unpack(head)[0])
        with suppress(Exception):  # the fork says what was wrong
            pickle.loads(order)
        fork = fork or _Fork()
        answer = fork.answer(head + order)
        if not answer:
            fork.ended()
            fork, answer = None, b'{"late": true}\n'
        answers.write(answer)
        answers.flush()


class _Fork:
    """The process that makes the calls, as its parent sees it."""

    def __init__(self) -> None:
        there, self._orders = os.pipe()
        self._answers, back = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._orders)
            os.close(self._answers)
            _make_calls(os.fdopen(there, "rb"), os.fdopen(back, "wb"))
            os._exit(0)
        os.close(there)
        os.close(back)

    def answer(self, order: bytes) -> bytes:
        """What it says to a call; nothing where it ended."""
        reply = b""
        with suppress(BrokenPipeError):
            while order:
                order = order[os.write(self._orders, order) :]
        while not reply.endswith(b"\n") and (piece := os.read(self._answers, 1 << 16)):
            reply += piece
        return reply

    def ended(self) -> None:
        os.close(self._orders)
        os.close(self._answers)
        os.waitpid(self._pid, 0)


def _make_calls(orders: BinaryIO, answers: BinaryIO) -> None:
    while len(head := orders.read(_HEAD.size)) == _HEAD.size:
        length, cpu = _HEAD.unpack(head)
        order = orders.read(length)
        try:
            function, arguments = pickle.loads(order)
            _limit()
            signal.setitimer(signal.ITIMER_PROF, cpu)  # its signal ends the process, whatever that is doing
            result = {"value": function(*arguments)}
        except (Exception, SystemExit) as error:
            result = {"error": f"{type(error).__name__}: {error}"[:1000]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(result).encode() + b"\n")
        answers.flush()


def _limit() -> None:
    """Bounds the memory, and forbids files. After the imports, which write what they compile."""
    import resource

    with suppress(ValueError, OSError):  # not on every system
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
