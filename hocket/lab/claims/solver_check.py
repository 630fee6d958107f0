"""A solver as a user runs it: `hocket solve` in a folder, resumed to the bit, and without its own part another."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hocket.lab.claims.finding import Finding
from hocket.lab.exact.solver import SolverMethod
from hocket.train.solve import METRICS, STATE, SolveRun, SolveSettings

LEAST = 1e-9
"""The smallest change of a value that counts."""


@dataclass(frozen=True)
class SolvedRun:
    """A run that ended: the summary, and the figures of every step."""

    found: Mapping[str, Any]
    rows: Sequence[Mapping[str, float]]

    def __getitem__(self, name: str) -> float:
        return float(self.found[name])

    def column(self, name: str) -> list[float]:
        """A figure of every step."""
        return [row[name] for row in self.rows]


@dataclass(frozen=True)
class SolverCheck:
    """What is run: a solver as shipped, and once more with `without` in place of its defining part.

    Attributes:
        without: its settings that take the part away. world, steps, seed: as of `hocket solve`; the method's own.
        better: names of figures of the summary and the sign of their change that the part is for: `{"regret": -1}`.
        settings: further settings of both. sees: figures of both runs, all of which must be positive.
    """

    method: SolverMethod
    without: Mapping[str, Any]
    better: Mapping[str, int] = field(default_factory=dict)
    world: str | None = None
    steps: int | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    sees: Callable[[SolvedRun, SolvedRun], Mapping[str, float]] | None = None

    @property
    def sentence(self) -> str:
        """The claim."""
        flags = {"method": self.method.name, "world": self.world, "steps": self.steps}
        flags |= {f"method.{name}": value for name, value in self.settings.items()}
        typed = " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in flags.items() if value is not None)
        without = ", ".join(f"{name} = {value}" for name, value in self.without.items())
        means = {1: "higher", -1: "lower"}
        also = " and".join(f" with the {name} {means[sign]}" for name, sign in self.better.items())
        return (
            f"As shipped, `hocket solve {typed}` ends{also or ' otherwise'} than with {without}, and a run cut in the "
            "middle goes on to the same bits."
        )

    def __call__(self) -> Finding:
        with tempfile.TemporaryDirectory() as place:
            complete, cut, bare = (Path(place) / name for name in ("whole", "cut", "bare"))
            shipped = self._run(complete, self.settings, self.steps)
            half = max(1, int(shipped["steps"]) // 2)
            self._run(cut, self.settings, half)
            self._run(cut, self.settings, self.steps)
            same = all((complete / file).read_bytes() == (cut / file).read_bytes() for file in (METRICS, STATE))
            plain = self._run(bare, {**self.settings, **self.without}, self.steps)
        pairs = zip(shipped.column("value"), plain.column("value"), strict=True)
        figures = {"largest change of a value without": max(abs(value - other) for value, other in pairs)}
        figures |= dict(self.sees(shipped, plain)) if self.sees is not None else {}
        holds = same and all(value > LEAST for value in figures.values())
        holds &= all(sign * (shipped[name] - plain[name]) > 0 for name, sign in self.better.items())
        notes = [f"{name} {value:.4g}" for name, value in figures.items()]
        names = dict.fromkeys(("value", "optimum", "regret", "switches", *self.better))
        notes += [f"{name} {shipped[name]:.5g} and without {plain[name]:.5g}" for name in names]
        return Finding(holds, ", ".join([*notes, f"resumed equal: {same}"]))

    def _run(self, folder: Path, settings: Mapping[str, Any], steps: int | None) -> SolvedRun:
        solve_settings = SolveSettings(self.method.name, self.world, steps, self.seed, tuple(settings.items()))
        result = SolveRun(solve_settings, folder).run()
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
        return SolvedRun(result, [json.loads(line) for line in lines])
