"""A KL charge in the reward whose coefficient follows a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.errors import ConfigurationError
from hocket.rewards.shaping import added
from hocket.stages import Shaping, State
from hocket.types import Batch, Column, Level, Recorded


def adapted(coefficient: float, divergence: float, target: float, gain: float, limit: float = 0.2) -> float:
    """coefficient (1 + gain clip(KL / target - 1, -limit, limit)): the proportional rule of arXiv 1909.08593, eq. 4."""
    return coefficient * (1.0 + gain * max(-limit, min(limit, divergence / target - 1.0)))


@dataclass(frozen=True)
class AdaptiveKLInReward(Shaping):
    """`r_t -= beta (log pi(a_t) - log ref(a_t))` at every decision, beta adapted towards a target KL (NLPO's charge).

    Stateful: beta. A step's KL, the mean of the differences over counted decisions, moves beta for the next step. The
    policy's log-probs are the recorded `unmasked` ones where actions were masked, else those it sampled with. Forced
    decisions, and decisions without one of the two log-probs, cost nothing.

    Attributes:
        coefficient: beta in the first step. target: in nats per decision; None keeps beta as it is.
        gain: 0.1 in the released code (allenai/RL4LMs), with relative errors cut to 0.2.

    Raises:
        ConfigurationError: on a call, when the batch has no reference log-probs.
    """

    coefficient: float = 0.1
    target: float | None = 0.1
    gain: float = 0.1

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR, Column.REFERENCE})

    def __post_init__(self) -> None:
        if self.coefficient < 0 or self.gain < 0 or (self.target is not None and self.target <= 0):
            raise ValueError("coefficient and gain must be at least 0, and target positive or null")

    def init(self) -> State:
        """The first coefficient."""
        return {"coefficient": self.coefficient}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        if Column.REFERENCE.name not in batch.logp:
            raise ConfigurationError("AdaptiveKLInReward reads log-probs 'reference', which are missing")
        gap, known = self._gap(batch)
        seen, beta = batch.occurrences, float(state["coefficient"])
        batch = added(batch, Level.DECISION, -beta * gap[seen.decision])
        counted = known[seen.decision] & (seen.weight != 0)
        if self.target is None or not counted.any():
            return batch, state
        return batch, {"coefficient": adapted(beta, float(gap[seen.decision][counted].mean()), self.target, self.gain)}

    def _gap(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """log pi - log ref per decision `[T]`, 0 where it is not known; and where it is."""
        policy, reference = _unmasked(batch), batch.logp[Column.REFERENCE.name]
        known = policy.present & reference.present & ~batch.forced
        return torch.where(known, policy.values.double() - reference.values.double(), 0.0), known


def _unmasked(batch: Batch) -> Recorded:
    """Log-probs of the whole distribution where they were recorded apart, else those sampled with."""
    behaviour, whole = batch.logp[Column.BEHAVIOUR.name], batch.logp.get("unmasked")
    if whole is None:
        return behaviour
    values = torch.where(whole.present, whole.values, behaviour.values.to(whole.values.dtype))
    return Recorded(values, whole.present | behaviour.present)
