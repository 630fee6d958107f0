"""Programs that nobody vouches for, run in an interpreter of their own that is locked in first
(`hocket.agents.tools.jail`).

Layers, each put in place by the child itself before it reads a line of the program, and never to be undone:

    limits      processor time, memory, sizes of files, open files, processes
    seccomp     a list of permitted system calls; all others are refused
    namespaces  no other process, no network, no files but the interpreter's library and an empty folder in memory
    landlock    files beneath a few folders can be opened, no others

Limits, seccomp, and one of the last two are required. What is there is found out by trying.
"""

from __future__ import annotations

import asyncio
import functools
import marshal
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar

from hocket.agents.tools.jail import OVER_CPU, READY
from hocket.core.errors import ConfigurationError, HocketError, nearest

LAYERS = ("limits", "seccomp", "namespaces", "landlock")
_PATIENCE = 2.0
"""Seconds a process that is asked to end may take before it is killed with its whole session."""
_START = 60.0
"""Seconds that locking in may take on a busy machine, before the program's own time begins."""
_LOOK = 0.05
_PIECE = 1 << 16

_T = TypeVar("_T")
Ending = Literal["exit", "seconds", "cpu", "output"]


@dataclass(frozen=True)
class ProgramResult:
    """How a program ended.

    Attributes:
        output: what it printed, errors included, at most as much as allowed.
        code: its exit code; above 128 the signal that ended it.
        ending: `exit` by itself, or which limit ended it.
    """

    output: str
    code: int
    ending: Ending = "exit"

    @property
    def well(self) -> bool:
        """Whether it ended by itself and without an error."""
        return self.ending == "exit" and self.code == 0


@dataclass(frozen=True)
class Sandbox:
    """How programs are locked in, and what each may use.

    Attributes:
        seconds: wall-clock time, which depends on how busy the machine is. cpu: processor time in seconds, whole ones,
            which does not; let it be the one that ends a computation.
        memory: bytes of address space, some 20 MiB of which the interpreter takes.
        scratch: bytes of files in the folder it may write to.
        output: bytes it may print before it is stopped.
        paths: further folders it may read and import from, such as a site-packages.
        workers: programs at once, of all sandboxes with the same number; as many as there are cores when None.
        without: layers to leave out although they are there.
        unsafe: run with whatever layers there are, even if a required one is missing.
    """

    seconds: float = 10.0
    cpu: float = 3.0
    memory: int = 256 << 20
    scratch: int = 8 << 20
    output: int = 16 << 10
    paths: tuple[str, ...] = ()
    workers: int | None = None
    without: tuple[str, ...] = ()
    unsafe: bool = False

    def __post_init__(self) -> None:
        for name in ("seconds", "cpu", "memory", "scratch", "output"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"the sandbox's {name} must be above 0, not {getattr(self, name)}")
        if self.workers is not None and self.workers < 1:
            raise ConfigurationError(f"the sandbox's workers must be at least 1, not {self.workers}")
        unknown = next((name for name in self.without if name not in LAYERS), None)
        if unknown is not None:
            raise ConfigurationError(f"the sandbox has no layer {unknown!r}{nearest(unknown, LAYERS)}")

    async def run(self, program: str, *, input: str = "", echo: bool = False, errors: bool = True) -> ProgramResult:
        """Runs a program without blocking the event loop; cancelling ends it.

        Args:
            program: Python source.
            input: what it reads from standard input.
            echo: whether to print the value of a last expression, as a notebook does.
            errors: whether what it prints to standard error counts as output; else it is dropped.

        Raises:
            ConfigurationError: where the machine cannot lock a program in.
        """
        job = self._job(program, input, echo, errors)
        try:
            return await self.apart(job.run)
        except asyncio.CancelledError:
            job.cancelled.set()
            raise

    def run_now(self, program: str, *, input: str = "", echo: bool = False, errors: bool = True) -> ProgramResult:
        """Runs a program and waits for it; see `run`."""
        return self._job(program, input, echo, errors).run()

    async def apart(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Calls a function that waits for programs, in one of the threads that are kept for them."""
        pool = _pool(self.workers or _cores(), os.getpid())
        return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)

    def _job(self, program: str, input: str, echo: bool, errors: bool) -> _Job:
        order = Order(
            program=program,
            input=input,
            echo=echo,
            errors=errors,
            layers=self.layers(),
            cpu=self.cpu,
            memory=self.memory,
            scratch=self.scratch,
            paths=tuple(str(Path(path).resolve()) for path in self.paths),
        )
        return _Job(order, self.seconds, self.output)

    def layers(self) -> tuple[str, ...]:
        """The layers that lock programs in on this machine.

        Raises:
            ConfigurationError: naming the required ones that are missing, unless `unsafe`.
        """
        supported, reasons = available()
        layers = tuple(name for name in supported if name not in self.without)
        missing = [name for name in ("limits", "seccomp") if name not in layers]
        if "namespaces" not in layers and "landlock" not in layers:
            missing += ["namespaces", "landlock"]
        if missing and not self.unsafe:
            explanation = "; ".join(f"{name}: {reasons.get(name, 'left out')}" for name in missing)
            raise ConfigurationError(
                f"this machine cannot lock a program in ({explanation}); run on Linux 5.13 or later with seccomp and "
                "either unprivileged user namespaces or Landlock, or accept the risk with unsafe=true"
            )
        return layers


@dataclass(frozen=True)
class Order:
    """The order to the interpreter; the form of `hocket.agents.tools.jail.child`."""

    program: str
    layers: tuple[str, ...]
    input: str = ""
    echo: bool = False
    errors: bool = True
    cpu: float = 3.0
    memory: int = 256 << 20
    scratch: int = 8 << 20
    files: int = 32
    processes: int = 1
    paths: tuple[str, ...] = ()


def available() -> tuple[tuple[str, ...], dict[str, str]]:
    """The layers this machine offers, and why the others are missing. Found out once per process."""
    return _available(os.getpid())


@functools.cache
def _available(process: int) -> tuple[tuple[str, ...], dict[str, str]]:
    if _refusal(LAYERS) is None:
        return LAYERS, {}
    reasons = {name: reason for name in LAYERS if (reason := _refusal((name,))) is not None}
    layers = tuple(name for name in LAYERS if name not in reasons)
    if (refused := _refusal(layers)) is not None:
        return (), dict.fromkeys(LAYERS, refused)
    return layers, reasons


def _refusal(layers: tuple[str, ...]) -> str | None:
    """Why a program cannot be run with these layers; None when it can."""
    if os.name != "posix":
        return f"{sys.platform} has no such thing"
    try:
        _Job(Order("pass", layers), _START, _PIECE).run()
    except HocketError as error:
        return str(error)
    return None


# ---------------------------------------------------------------- the process

_HOME = str(Path(__file__).parent)
_START_JAIL = "import sys; sys.path.insert(0, {!r}); import jail.child; sys.path.pop(0); jail.child.main()"


class _Job:
    """One program: starts its interpreter, reads what it prints, ends it in time."""

    def __init__(self, order: Order, seconds: float, most: int) -> None:
        self.cancelled = threading.Event()
        self._order, self._seconds, self._most = order, seconds, most

    def run(self) -> ProgramResult:
        """Waits for the program.

        Raises:
            HocketError: when it could not be locked in.
        """
        with tempfile.TemporaryDirectory(prefix="hocket-") as folder, tempfile.TemporaryFile() as order:
            order.write(marshal.dumps({**asdict(self._order), "parent": os.getpid()}))
            order.seek(0)
            process = subprocess.Popen(
                [_interpreter(), "-s", "-P", "-S", "-X", "utf8", "-c", _START_JAIL.format(_HOME)],
                stdin=order,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                # Nothing of the environment but a fixed hash seed, so that sets have an order that can be repeated.
                env={"PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
            try:
                output, stopped = self._read(process)
            finally:
                _end(process)
        if not output.startswith(READY):
            raise HocketError(output.decode("utf-8", "replace").strip() or "the interpreter did not start")
        shown = output[len(READY) : len(READY) + self._most].decode("utf-8", "replace")
        ending: Ending = stopped or ("cpu" if process.returncode == OVER_CPU else "exit")
        return ProgramResult(shown, process.returncode, ending)

    def _read(self, process: subprocess.Popen[bytes]) -> tuple[bytes, Ending | None]:
        """What it prints until it ends, or until a limit is reached, and which."""
        assert process.stdout is not None
        pipe, output = process.stdout.fileno(), b""
        os.set_blocking(pipe, False)
        deadline = time.monotonic() + _START
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not self.cancelled.is_set():
                left = deadline - time.monotonic()
                if not selector.select(max(0.0, min(left, _LOOK))):
                    if left <= 0:
                        return output, "seconds"
                    continue
                piece = os.read(pipe, _PIECE)
                if not piece:
                    return output, None
                if not output:
                    deadline = time.monotonic() + self._seconds
                output += piece
                if len(output) > self._most + len(READY):
                    return output, "output"
        return output, "seconds"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its whole session, and leaves nothing behind."""
    assert process.stdout is not None
    process.stdout.close()
    if process.poll() is None:
        # The first process ends its child and collects it, which nobody might do if both were killed at once.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@functools.cache
def _interpreter() -> str:
    """The interpreter itself, not the link to it in a virtual environment."""
    return os.path.realpath(str(getattr(sys, "_base_executable", None) or sys.executable))


@functools.cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="hocket-sandbox")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
