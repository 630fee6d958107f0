"""Watches the metrics of a run for what blows up: numbers that are not finite, or that grow without end."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

Row = Mapping[str, Any]

WATCHED = re.compile(
    r"(?!eval/|watch/)(?P<role>(?:[^/]+/)*?)"
    r"(?P<what>loss|gradient/norm|value/largest|ratio/(?:furthest|saturated)|kl/(?:reference|behaviour)|update/skipped|"
    r"sampling/nan|reward|reward/.+)"
)
"""What is watched: of everybody, or of each role."""

FAR = 1e4
"""How often as large as in the first steps a number is that has left them behind."""

FIRST = 5
"""Steps in which it was not 0 whose median is what is usual."""

LEAST = 1.0
"""Below this nothing is large."""

CLIMBS, STEP = 3, 3.0
"""So many records, each so often as large as the one before, are growth; fewer are a jump to another scale."""

CUT = 0.2
"""The share of ratios beyond their bound that is no accident, in as many steps in a row as make a growth."""

STAYS = 5
"""Steps in a row that are far, which is no spike."""

HUGE = 1e9
"""A gradient norm that is too large wherever a run began."""

_WITH_REWARDS = {"loss": 2, "gradient/norm": 2, "value/largest": 1, "reward/shaped": 1}
"""What grows with the rewards that a policy earns as it learns, by its power: an error of values with the square."""


@dataclass
class _Track:
    """A metric so far: its first sizes, each with the largest mean reward until then, and the latest record."""

    first: list[tuple[float, float]] = field(default_factory=list)
    record: float = LEAST
    climbs: int = 0
    beyond: int = 0

    @property
    def usual(self) -> tuple[float, float]:
        """The middle one of the first."""
        return median_low(self.first) if self.first else (0.0, LEAST)

    def grown(self, size: float, paid: float, power: int | None) -> bool:
        """Takes in the next size; whether it has blown up.

        Args:
            paid: the largest mean reward so far. power: of it that the metric grows with; None for rewards themselves.
        """
        if not self.first:
            self.record = max(LEAST, size)
        elif size >= STEP * self.record:
            self.record, self.climbs = size, self.climbs + 1
        usual, then = self.usual
        # The first of all says what is usual, not that it is far from it.
        far = bool(self.first) and size > FAR * max(LEAST, usual) * (paid / then) ** (power or 0)
        self.beyond = self.beyond + 1 if far else 0
        if size and len(self.first) < FIRST:
            self.first.append((size, paid))
        return far and (self.climbs >= CLIMBS or (power is not None and self.beyond >= STAYS))


class Watch:
    """What has blown up in a run, and since which step; every phase has a scale of its own.

    A number that is large from the start is none (but a gradient beyond `HUGE`), nor is one that comes with larger
    rewards, nor a spike.

    Attributes:
        since: by metric the step at which it was noticed first.
    """

    def __init__(self) -> None:
        self.since: dict[str, int] = {}
        self._tracks: dict[str, _Track] = {}
        self._phase, self._paid = 0, LEAST

    @classmethod
    def over(cls, rows: Iterable[Row], phase_of: Callable[[int], int]) -> Watch:
        """As it stood after these rows of `metrics.jsonl`."""
        watch = cls()
        for row in rows:
            names = [key.split("/", 1)[1].removesuffix("/since") for key in row if key.startswith("watch/")]
            watch.see(row, phase_of(row["step"]) if row["step"] else 0)
            watch.since |= {name: int(row[f"watch/{name}/since"]) for name in names}
        return watch

    def see(self, row: Row, phase: int = 0) -> str | None:
        """Takes in the metrics of a step; a sentence the first time that something has blown up."""
        if phase != self._phase:
            self._phase, self._paid, self._tracks = phase, LEAST, {}
        fresh = {name: why for name, why in self._found(row) if name not in self.since}
        first = not self.since
        self.since |= dict.fromkeys(fresh, int(row["step"]))
        if not (fresh and first):
            return None
        return f"{', '.join(f'{name} {why}' for name, why in fresh.items())}; {REMEDY}"

    def metrics(self) -> dict[str, float]:
        """For the row of a step: `watch/METRIC/since`, a step, of each that has blown up."""
        return {f"watch/{name}/since": float(step) for name, step in self.since.items()}

    def _found(self, row: Row) -> Iterable[tuple[str, str]]:
        """The metrics that have blown up in this row, and how."""
        earned = row.get("reward/mean")
        if isinstance(earned, (int, float)) and math.isfinite(earned):
            self._paid = max(self._paid, abs(earned))
        for name, value in row.items():
            match = WATCHED.fullmatch(name)
            if match is None or not isinstance(value, (int, float)):
                continue
            what = match["what"]
            if what == "update/skipped":
                if value:
                    yield name, "counts gradients that were not finite"
                continue
            if what == "sampling/nan":
                if value:
                    yield name, f"is {value:.0%}: this share of turns has log-probs that are not finite"
                continue
            track = self._tracks.setdefault(name, _Track())
            if what == "ratio/saturated":
                track.beyond = track.beyond + 1 if value >= CUT else 0
                if track.beyond >= CLIMBS:
                    yield name, f"is {value:.0%}: this share of ratios was so large that it had to be cut"
                continue
            if not math.isfinite(value):
                learnt = what in ("loss", "gradient/norm") and row.get(f"{match['role']}groups/with_signal")
                if math.isinf(value) or learnt:
                    yield name, "is not a finite number"
                continue
            if what == "gradient/norm" and value > HUGE:
                yield name, f"is {value:.2g}: a term of the loss is far too large"
                continue
            plain = what.startswith("reward") and what != "reward/shaped"
            usual, _ = track.usual
            if track.grown(abs(value), self._paid, None if plain else _WITH_REWARDS.get(what, 0)):
                yield name, f"has grown to {value:.2g} from {usual:.2g} in the first steps"


REMEDY = (
    "the run may not recover: lower update.lr, clip the gradient, bound the rewards, and look for a reward or penalty "
    "that grows with itself"
)
"""What a user can do about it."""
