"""What a check is, and what it found."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Whether a claim held, and the figures seen, in a line."""

    holds: bool
    saw: str


@dataclass(frozen=True)
class Check:
    """One claim of a catalogue row, and what puts it to the test.

    Attributes:
        row: the catalogue id. claim: what should hold, a sentence a reader of the paper recognises.
        run: puts it to the test. An exception counts as a claim that does not hold.
        source: where the claim stands (paper, equation), or that it was derived here.
        slow: takes more than a few seconds (it trains something).
    """

    row: str
    claim: str
    run: Callable[[], Finding]
    source: str = ""
    slow: bool = False

    def __call__(self) -> Verdict:
        """Runs it."""
        started = time.perf_counter()
        try:
            found = self.run()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
            found = Finding(False, f"{type(error).__name__} at {place}: {error}")
        return Verdict(self.row, self.claim, bool(found.holds), found.saw, time.perf_counter() - started)


@dataclass(frozen=True)
class Verdict:
    """What a check found. `seconds` are wall-clock."""

    row: str
    claim: str
    holds: bool
    saw: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
