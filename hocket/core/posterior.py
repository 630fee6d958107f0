"""What a run found out about a scenario's success rate: counts, and the Beta posterior that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from hocket.core.statistics import Summary


class Outcomes(NamedTuple):
    """Past samples of a scenario by the policies themselves, without help, and the successes among them.

    A success earned `hocket.core.signals.RIGHT` or more. From a uniform prior the success rate has the posterior
    Beta(1 + successes, 1 + failures), which takes all samples to be of one policy: of one that learns it is late.
    """

    samples: int = 0
    successes: int = 0
    statistics: Mapping[str, Summary] = {}
    """What stages had measured of the samples, see `hocket.core.statistics`."""

    @property
    def rate(self) -> float | None:
        """The share of successes; None of nothing."""
        return self.successes / self.samples if self.samples else None

    @property
    def mean(self) -> float:
        """The posterior's mean, `(1 + s) / (2 + n)`."""
        return (1 + self.successes) / (2 + self.samples)

    @property
    def variance(self) -> float:
        """The posterior's variance, `m (1 - m) / (3 + n)`."""
        return self.mean * (1 - self.mean) / (3 + self.samples)

    @property
    def spread(self) -> float:
        """`sqrt(m (1 - m))`, the deviation of one sample's outcome at the posterior's mean."""
        return math.sqrt(self.mean * (1 - self.mean))
