"""Running many checks, several at a time."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from hocket.lab.claims.claim import Check, Verdict
from hocket.lab.claims.registry import checks_of


def run_checks(checks: Sequence[Check], workers: int = 1) -> Iterator[Verdict]:
    """The verdict of every check, as each is done; with several workers in processes of their own, a thread each."""
    if workers <= 1:
        yield from (check() for check in checks)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _one_thread) as pool:
        for done in as_completed([pool.submit(_named, _place(check), check.claim) for check in checks]):
            yield done.result()


def _one_thread() -> None:
    torch.set_num_threads(1)


def _place(check: Check) -> str:
    """Where another process finds it: a catalogue id, or the user's file that states it."""
    module = sys.modules.get(getattr(check.run, "__module__", ""))
    return str(getattr(module, "__hocket_file__", check.row))


def _named(place: str, claim: str) -> Verdict:
    return next(check for check in checks_of(place) if check.claim == claim)()
