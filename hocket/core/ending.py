"""Signals that ask a process to end: Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def asked_to_end(handle: Callable[[], None]) -> Iterator[None]:
    """Has `handle` called for every signal that asks the process to end, until the block is left. For the main thread.

    SIGHUP stays ignored where it was, as under nohup. Where it is not, what is written to the terminal that has gone is
    dropped, so that the process can end in order.
    """

    def handler(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        handle()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def left_to_parent() -> None:
    """For a process that another one ends: what a terminal sends to both is for the other one alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def end_at_once(code: int) -> None:
    """Another Ctrl-C from now on ends the process with `code`, wherever it is, without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))


def _leave_terminal() -> None:
    """Points the standard streams that lead to a terminal at nothing: a closed one refuses what is written."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        if stream is not None and stream.isatty():
            os.dup2(nothing, stream.fileno())
    os.close(nothing)
