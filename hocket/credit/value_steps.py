"""What a value function learnt from outcomes says each decision was worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.credit.gae import GAE
from hocket.stages import Credit
from hocket.types import Batch, Column, Occurrences


@dataclass(frozen=True)
class ValueSteps(Credit):
    """Advantage `r_t + V_{t+1} - V_t`; target the reward from t on, R_t.

    In offline traces the advantage is the rise or fall of V along a trace, by which OREO (arXiv 2412.16145) finds the
    wrong step; objectives that fit R_t, as `hocket.objectives.PathConsistency`, do not read it. After a trajectory that
    was cut short both count the value of its final state.
    """

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and targets, both `[E]` float64."""
        whole = GAE(gamma=1.0, lam=1.0, whiten=False)(batch)
        return replace(GAE(gamma=1.0, lam=0.0, whiten=False)(batch), target=whole.target)
