"""Running many checks, several at a time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from hocket.checks import all_checks
from hocket.checks.check import Check, Verdict


def run_checks(checks: Sequence[Check], workers: int = 1) -> Iterator[Verdict]:
    """The verdict of every check, as each is done; with several workers in processes of their own, a thread each."""
    if workers <= 1:
        yield from (check() for check in checks)
        return
    place = {id(check): number for number, check in enumerate(all_checks())}
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _one_thread) as pool:
        waiting = [pool.submit(_numbered, place[id(check)]) for check in checks]
        for done in as_completed(waiting):
            yield done.result()


def _one_thread() -> None:
    torch.set_num_threads(1)


def _numbered(number: int) -> Verdict:
    return all_checks()[number]()
