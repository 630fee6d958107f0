"""Calls in a process apart that is ended when they take too long."""

from __future__ import annotations

import math
import operator
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hocket.core.bounded_calls import OverTime, bounded


def test_calls_are_answered_and_errors_are_told() -> None:
    assert bounded(math.comb, 5, 2) == 10
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        bounded(operator.truediv, 1, 0)
    with pytest.raises(RuntimeError, match="MemoryError"):
        bounded(operator.mul, "a", 1 << 40)


def test_what_does_not_end_is_ended_and_the_next_call_is_answered() -> None:
    began = time.monotonic()
    with pytest.raises(OverTime, match=r"more than 0\.2 s of processor time"):
        bounded(pow, 99_999, 9_999_999, cpu=0.2)
    assert time.monotonic() - began < 60, "one multiplication of Python cannot be interrupted from within"
    with pytest.raises(OverTime):
        bounded(os._exit, 0)
    assert bounded(operator.add, 1, 2) == 3


def test_threads_get_their_own_answers() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: bounded(operator.add, n, n), range(40))) == [2 * n for n in range(40)]


def test_files_are_not_written(tmp_path: object) -> None:
    with pytest.raises(RuntimeError, match="OSError"):
        bounded(_written, f"{tmp_path}/a")


def _written(path: str) -> int:
    with open(path, "w") as file:
        return file.write("x")
