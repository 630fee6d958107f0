"""Per-sample statistics, which training measures for the stages that declare them, and their summaries in the ledger.

A stage lists statistics in `statistics`, as it lists columns in `reads`. The loop writes each sample's number into the
statistic's column. The ledger keeps a summary per scenario, which curricula and rollouts read (`Outcomes.statistics`).
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
        name: the name of its summaries in ledgers and checkpoints. column: the column with each trajectory's number.
        of_samples: computes it after the update, from a step's samples of the policies themselves, in order.
        of_batch: computes it before credit, from the annotated batch of a step: a number per trajectory, `[N]`.
        reads: the columns that `of_batch` needs.
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
    """Writes the statistics with `of_samples` into the columns of the samples."""
    for statistic in statistics:
        if statistic.of_samples is not None:
            _write(statistic, samples, statistic.of_samples(samples))


def measure_batch(statistics: Iterable[SampleStatistic], batch: Batch, trajectories: Sequence[Trajectory]) -> None:
    """Writes the statistics with `of_batch` into the columns of the trajectories that the batch was packed from."""
    for statistic in statistics:
        if statistic.of_batch is not None:
            _write(statistic, trajectories, statistic.of_batch(batch))


def _write(statistic: SampleStatistic, trajectories: Sequence[Trajectory], numbers: Numbers) -> None:
    for trajectory, number in zip(trajectories, numbers, strict=True):
        statistic.column.write(trajectory, number)


def measurements(statistics: Iterable[SampleStatistic], trajectory: Trajectory) -> dict[str, float]:
    """The statistics of a trajectory, by name."""
    numbers = {statistic.name: statistic.column.get(trajectory) for statistic in statistics}
    return {name: number for name, number in numbers.items() if number is not None}


# ---------------------------------------------------------------- summaries


class Moments(NamedTuple):
    """The number of samples, the sum of their numbers, and the sum of the squares."""

    samples: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, number: float) -> Moments:
        """The moments after one more sample."""
        return Moments(self.samples + 1, self.total + number, self.squares + number**2)


class Summary(NamedTuple):
    """The summary of a statistic of one scenario, over all its samples with a reward, and over its last group.

    Attributes:
        successes: moments over samples with a reward of `hocket.core.signals.RIGHT` or more. failures: over the others.
        step, samples, total: step, number of samples and sum of the last group that had the statistic.
    """

    successes: Moments = Moments()
    failures: Moments = Moments()
    step: float = 0.0
    samples: float = 0.0
    total: float = 0.0

    def plus(self, number: float, *, success: bool, step: int) -> Summary:
        """The summary after one more sample, in the group of `step`."""
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
