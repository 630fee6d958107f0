"""V-trace: values and advantages of the current policy from experience of an older one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.segments import suffix_sum
from hocket.core.signals import rewards_by_occurrence
from hocket.credit.corrections import importance_ratios
from hocket.credit.formulas import temporal_differences
from hocket.credit.gae import final_values, rewards_passed_back, values_known
from hocket.credit.reinforce import in_place
from hocket.stages import Credit


@dataclass(frozen=True)
class VTrace(Credit):
    """`A_t = rho_t (r_t + gamma v_{t+1} - V_t)`, `v_t = V_t + sum_k gamma^k (prod c_{t..t+k-1}) rho_{t+k} delta_{t+k}`.

    IMPALA (Espeholt et al., arXiv 1802.01561, equation 1 and section 4.2): rho_t = min(rho, pi/mu) and
    c_t = lam min(c, pi/mu), pi the proximal and mu the behaviour policy; delta as in `GAE`. The targets of the value
    function are v_t, values of a policy between mu and pi: of pi itself where no ratio reaches rho. On-policy, with
    bounds of at least 1, v_t is the lam-return. The advantage uses v_{t+1} for every lam, as in the paper, whose lam is
    1; rlax uses lam v_{t+1} + (1 - lam) V_{t+1}, which differs for lam below 1. Unknown values and final states are
    treated as in `GAE`.

    Attributes:
        gamma: discount per decision. lam: of the traces. rho: the largest weight of a difference; it determines which
            policy's values are estimated. c: the largest factor of a trace; it determines how far differences reach
            back.

    Raises:
        ConfigurationError: on a call, when the batch has no values or lacks one of the two log-probs.
    """

    gamma: float = 0.99
    lam: float = 1.0
    rho: float = 1.0
    c: float = 1.0

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE, Column.BEHAVIOUR, Column.PROXIMAL})

    def __post_init__(self) -> None:
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        if not 0 < self.c <= self.rho:
            raise ValueError(f"c and rho must satisfy 0 < c <= rho, not {self.c} and {self.rho}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and value targets, both `[E]` float64."""
        if batch.value is None:
            raise ConfigurationError("VTrace reads the value of every decision, but the batch has no column 'value'")
        occurrences, known = batch.occurrences, values_known(batch)
        ratio = importance_ratios(batch, "decision")[known]
        values = batch.value.detach().double()[occurrences.decision]
        trajectory, final = occurrences.trajectory[known], final_values(batch)
        rewards = rewards_passed_back(rewards_by_occurrence(batch), known, occurrences.trajectory)[known]
        weight = ratio.clamp(max=self.rho)
        delta = weight * temporal_differences(rewards, values[known], final, trajectory, self.gamma)
        trace = self.gamma * self.lam * ratio.clamp(max=self.c)
        corrected = values[known] + suffix_sum(delta, trajectory, len(final), discount=trace)
        # The difference from V_t to r_t + gamma v_{t+1}.
        ahead = temporal_differences(rewards, corrected, final, trajectory, self.gamma) + corrected - values[known]
        advantage = in_place(weight * ahead, known) * (occurrences.weight != 0)
        return replace(occurrences, advantage=advantage, target=in_place(corrected - values[known], known) + values)
