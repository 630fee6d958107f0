"""Numbers per sample that training measures because a stage declares them, and what the ledger keeps of each.

A stage lists them in `statistics`, as it lists columns in `reads`. The loop writes each sample's number into the
statistic's column; the ledger keeps a summary per scenario, which curricula and rollouts read (`Outcomes.statistics`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hocket.core.batch import Batch
from hocket.core.columns import Column, InfoColumn
from hocket.types import Trajectory

Numbers = Sequence[float | None]
"""A number per sample; None where there is none."""


@dataclass(frozen=True)
class SampleStatistic:
    """A number per sample of a step. It is declared beside the stage that reads it, with one of the two functions.

    Attributes:
        name: of its summaries, in ledgers and checkpoints. column: where each trajectory holds its number.
        of_samples: from all samples of a step that the policies themselves drew, in order, after the update.
        of_batch: from the batch of a step as the policies that learn from it have annotated it, before credit: a
            number per trajectory, `[N]`. reads: the columns that this needs.
    """

    name: str
    column: InfoColumn
    of_samples: Callable[[Sequence[Trajectory]], Numbers] | None = field(default=None, compare=False)
    of_batch: Callable[[Batch], Numbers] | None = field(default=None, compare=False)
    reads: frozenset[Column] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        if (self.of_samples is None) == (self.of_batch is None):
            raise ValueError(f"statistic {self.name!r} needs either of_samples or of_batch, the function that gives it")


def measure_samples(statistics: Iterable[SampleStatistic], samples: Sequence[Trajectory]) -> None:
    """Writes the numbers that are functions of a step's samples into their columns."""
    for statistic in statistics:
        if statistic.of_samples is not None:
            _write(statistic, samples, statistic.of_samples(samples))


def measure_batch(statistics: Iterable[SampleStatistic], batch: Batch, trajectories: Sequence[Trajectory]) -> None:
    """Writes the numbers that are functions of an annotated batch into the trajectories that it was packed from."""
    for statistic in statistics:
        if statistic.of_batch is not None:
            _write(statistic, trajectories, statistic.of_batch(batch))


def _write(statistic: SampleStatistic, trajectories: Sequence[Trajectory], numbers: Numbers) -> None:
    for trajectory, number in zip(trajectories, numbers, strict=True):
        statistic.column.write(trajectory, number)


def measurements(statistics: Iterable[SampleStatistic], trajectory: Trajectory) -> dict[str, float]:
    """What was measured of a trajectory, by the statistic's name."""
    numbers = {statistic.name: statistic.column.get(trajectory) for statistic in statistics}
    return {name: number for name, number in numbers.items() if number is not None}


# ---------------------------------------------------------------- summaries


class Moments(NamedTuple):
    """Of how many samples, the sum of their numbers, and the sum of their squares."""

    samples: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, number: float) -> Moments:
        """With one more sample."""
        return Moments(self.samples + 1, self.total + number, self.squares + number**2)


class Summary(NamedTuple):
    """A statistic of one scenario: over all its samples with a reward, and over those of its last group that had it.

    Attributes:
        successes: of samples that earned `hocket.core.signals.RIGHT` or more. failures: of the others.
        step, samples, total: of the last group its step, how many samples, and the sum of their numbers.
    """

    successes: Moments = Moments()
    failures: Moments = Moments()
    step: float = 0.0
    samples: float = 0.0
    total: float = 0.0

    def plus(self, number: float, *, success: bool, step: int) -> Summary:
        """With one more sample, of the group of `step`."""
        samples, total = (self.samples, self.total) if self.step == step else (0.0, 0.0)
        return Summary(
            self.successes.plus(number) if success else self.successes,
            self.failures if success else self.failures.plus(number),
            float(step),
            samples + 1,
            total + number,
        )

    @property
    def last_mean(self) -> float | None:
        """The mean over the last group that had the statistic."""
        return self.total / self.samples if self.samples else None

    def row(self) -> tuple[float, ...]:
        """All numbers in one row of nine, for checkpoints."""
        return (*self.successes, *self.failures, self.step, self.samples, self.total)

    @staticmethod
    def of_row(row: Sequence[float]) -> Summary:
        """The inverse of `row`."""
        return Summary(Moments(*row[:3]), Moments(*row[3:6]), *row[6:])
