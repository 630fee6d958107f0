"""What numbers flags take."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable
from typing import Any

FROM_ZERO = (
    *("--seed", "--steps", "--step", "--lessons", "--port", "--lag"),
    *("--own", "--shared", "--number", "--publish", "--average", "--attackers"),
)
"""Flags with a whole number that may be 0. All others count something and begin at 1."""


def checked(flag: str, kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """What reads the value of a flag: whole and finite numbers in their range, anything else by `kind`."""
    if kind is int:
        return _whole(0 if flag in FROM_ZERO else 1)
    return _number if kind is float else kind


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        with contextlib.suppress(ValueError):
            if (value := int(text)) >= least:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")

    return read


def _number(text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)) and value >= 0:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of at least 0")
