"""Locks a process in and runs a program in it.

The first process stands by while the second, its child, is locked in. What the program prints follows one byte,
`READY`, which says that every layer is in place; without it, what follows is an error message.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import sys

# All of the jail is imported now: once locked in, a process cannot read it any more.
from . import BROKEN, OVER_CPU, READY
from .filter import install
from .kernel import die_with_parent, drop_capabilities
from .landlock import confine
from .namespaces import WORK, enclose, leave

TYPE_CHECKING = False  # The interpreter's typing is slow to load, and not needed to run.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any, NoReturn


def main() -> None:
    """Carries out the order on standard input: marshalled, with the fields of `hocket.agents.tools.sandbox.Order`."""
    with open(0, "rb", closefd=False) as file:
        order = marshal.load(file)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    watched, held = os.pipe()
    try:
        _die_with_parent()
        if "namespaces" in order["layers"]:
            leave()
        child = os.fork()
    except OSError as error:
        _fail(error)
    if child:
        if os.getppid() != order["parent"]:
            os.kill(child, signal.SIGKILL)
        _wait(child, order["cpu"])
    os.close(held)
    try:
        _die_with_parent()
        if select.select([watched], [], [], 0)[0]:  # the parent had ended before the signal was set
            os._exit(BROKEN)
        os.close(watched)
        _lock(order)
    except (OSError, ValueError) as error:
        _fail(error)
    os.write(1, READY)
    _run(order)


def _fail(error: Exception) -> NoReturn:
    os.write(1, str(error).encode())
    os._exit(BROKEN)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        die_with_parent(signal.SIGKILL)


def _wait(child: int, cpu: float) -> NoReturn:
    """Stands by until the child ends, ends it at SIGTERM, and exits as it did."""

    def stop(number: int, frame: FrameType | None) -> None:
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _, status, used = os.wait4(child, 0)
    # The kernel's two clocks of processor time differ by some ticks.
    if os.WIFSIGNALED(status) and used.ru_utime + used.ru_stime >= 0.75 * cpu:
        os._exit(OVER_CPU)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _lock(order: dict[str, Any]) -> None:
    """Puts all layers in place, the filter of system calls last."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    layers: Sequence[str] = order["layers"]
    readable, writable = _libraries(order["paths"]), []
    _streams(order["input"], order["errors"])
    if "namespaces" in layers:
        enclose(readable, order["scratch"])
        writable = [WORK]
    if "landlock" in layers:
        confine([path for path in readable if os.path.exists(path)], writable)
    if "limits" in layers:
        _limit(order)
    if sys.platform == "linux":
        drop_capabilities()
    if "seccomp" in layers:
        install(writes=bool(writable))


def _libraries(paths: Sequence[str]) -> list[str]:
    """What a program may read: the interpreter's library, the system's shared libraries, and `paths`."""
    beside = os.path.dirname(os.path.dirname(os.__file__))
    system = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
    existing = [path for path in (beside, *sys.path, *system, *paths) if os.path.isabs(path) and os.path.exists(path)]
    return sorted({*existing, *map(os.path.realpath, existing)})


def _streams(text: str, errors: bool) -> None:
    """Replaces standard input, where the order was, by what the program is to read; drops errors unless `errors`."""
    if not errors:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        os.close(sink)
    if text:
        file = os.memfd_create("input")
        with open(file, "wb", closefd=False) as out:
            out.write(text.encode("utf-8", "surrogatepass"))
        os.lseek(file, 0, os.SEEK_SET)
    else:
        file = os.open(os.devnull, os.O_RDWR)
    os.dup2(file, 0)
    os.close(file)


def _limit(order: dict[str, Any]) -> None:
    cpu = max(1, round(order["cpu"]))
    limits = {
        "RLIMIT_CPU": cpu,
        "RLIMIT_AS": order["memory"],
        "RLIMIT_FSIZE": order["scratch"],
        "RLIMIT_NOFILE": order["files"],
        "RLIMIT_NPROC": order["processes"],
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    for name, most in limits.items():
        number = getattr(resource, name, None)
        if number is not None and most is not None:
            _, hard = resource.getrlimit(number)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(number, (most, most))


def _run(order: dict[str, Any]) -> None:
    """Runs the program as `__main__`; an exception is printed with the program's own lines."""
    import builtins

    sys.path.extend(order["paths"])
    program: str = order["program"]
    space = sys.modules["__main__"].__dict__
    space.clear()
    space.update({"__name__": "__main__", "__builtins__": builtins})
    try:
        code, last = _compiled(program, order["echo"])
        exec(code, space)
        shown = None if last is None else eval(last, space)
        if shown is not None:
            print(repr(shown))
    except SystemExit:
        raise
    except BaseException as error:
        _explain(error, program)
        sys.exit(1)


def _compiled(program: str, echo: bool) -> tuple[Any, Any]:
    """The program's code, and that of its last expression where its value is to be shown."""
    if not echo:
        return compile(program, "<program>", "exec", dont_inherit=True), None
    import ast

    tree = ast.parse(program, "<program>")
    end = tree.body[-1] if tree.body else None
    last = None
    if isinstance(end, ast.Expr):
        tree.body.pop()
        last = compile(ast.Expression(end.value), "<program>", "eval", dont_inherit=True)
    return compile(tree, "<program>", "exec", dont_inherit=True), last


def _explain(error: BaseException, program: str) -> None:
    """Prints an exception as the interpreter would, without the frames of the jail."""
    import linecache
    import traceback

    linecache.cache["<program>"] = (len(program), None, program.splitlines(keepends=True), "<program>")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.stdout.flush()
    traceback.print_exception(type(error), error, trace, limit=-4)
