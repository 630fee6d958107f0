"""What ends a process, and what must not: Ctrl-C, SIGTERM, SIGHUP of a closed terminal, a log that takes no more."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask a process to end."""


@contextmanager
def asked_to_end(handle: Callable[[int], None], signals: Sequence[int] = ALL) -> Iterator[None]:
    """Has `handle` called with the number of every signal that asks the process to end, until the block is left.

    For the main thread.

    SIGHUP stays ignored where it was, as under nohup. Where it is not, what is written to the terminal that has gone is
    dropped, so that the process can end in order.
    """

    def handler(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        handle(number)

    taken = [number for number in signals if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def stopping(signals: Sequence[int] = ALL) -> Iterator[list[bool]]:
    """A list that the first of `signals` fills: the step ends, and a checkpoint is written. Ctrl-C then stops at once.

    SIGTERM and SIGHUP do not: a terminal that is closed sends SIGHUP twice.
    """
    stop: list[bool] = []

    def handle(number: int) -> None:
        if stop and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop:
            stop.append(True)
            print("\nstopping after this step with a checkpoint; press Ctrl-C again to stop at once", file=sys.stderr)

    with asked_to_end(handle, signals):
        yield stop


def interrupted(number: int) -> None:
    """What Python does on Ctrl-C.

    Raises:
        KeyboardInterrupt: always.
    """
    raise KeyboardInterrupt


def left_to_parent() -> None:
    """For a process that another one ends: what a terminal sends to both is for the other one alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def end_at_once(code: int) -> None:
    """Another Ctrl-C from now on ends the process with `code`, wherever it is, without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))


class _Progress(io.FileIO):
    """A stream that drops what cannot be written: its reader has left, or the disk is full."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def progress_may_be_lost() -> None:
    """From now on no line on stderr can end this process, as of `hocket train 2>&1 | tee LOG` after Ctrl-C for both."""
    stream = sys.stderr
    if stream is not None:
        raw = _Progress(stream.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True
        )


def _leave_terminal() -> None:
    """Points the standard streams that lead to a terminal at nothing: a closed one refuses what is written."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        if stream is not None and stream.isatty():
            os.dup2(nothing, stream.fileno())
    os.close(nothing)
