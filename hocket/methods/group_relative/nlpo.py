"""NLPO: PPO limited to tokens that an older copy of the policy finds likely (Ramamurthy et al., arXiv:2210.01241).

The mask, a nucleus (`DelayedNucleus` of `hocket.rollout.nucleus`) is recorded at sampling and applies in the update;
the copy is renewed every few steps (`DelayedMaskStep`). The KL charge of each token adapts to a target
(`AdaptiveKLInReward`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, RecordedNumbers
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.base.ppo import PPO
from hocket.policies.copies import KeepsCopies
from hocket.rewards.shaping import added
from hocket.rollout.nucleus import DELAYED, DelayedNucleus
from hocket.stages import Metrics, Shaping, State
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem


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


def _unmasked(batch: Batch) -> RecordedNumbers:
    """Log-probs of the whole distribution where they were recorded apart, else those sampled with."""
    behaviour, whole = batch.logp[Column.BEHAVIOUR.name], batch.logp.get("unmasked")
    if whole is None:
        return behaviour
    values = torch.where(whole.present, whole.values, behaviour.values.to(whole.values.dtype))
    return RecordedNumbers(values, whole.present | behaviour.present)


@dataclass(frozen=True)
class DelayedMaskStep(GradientStep):
    """`GradientStep`; after every `every` steps the policy's delayed copy becomes the policy (NLPO, arXiv 2210.01241).

    Stateful: it counts steps. A policy that keeps no delayed copy is left as it is.
    """

    every: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every < 1:
            raise ValueError(f"every must be at least 1, not {self.every}")

    def init(self) -> State:
        """No steps yet."""
        return {"steps": 0}

    def step(self, problem: Problem, key: Key) -> Metrics:
        found = super().step(problem, key)
        steps = int(problem.memory.get("steps", 0)) + 1
        policy = problem.policy
        refreshed = 0.0
        if steps % self.every == 0 and isinstance(policy, KeepsCopies):
            policy.refresh_copy(DELAYED)
            refreshed = 1.0
        problem.memory = {"steps": steps}
        return {**found, "mask/refreshed": refreshed}


NLPO = PPO.but(
    name="nlpo",
    title="Natural Language Policy Optimization",
    source="Ramamurthy et al., arXiv:2210.01241, and the released RL4LMs",
    catalogue_ids=("nlpo",),
    axes=("objective", "policy", "reward", "system"),
    formula=PPO.formula + ",  r_t = score at the end - beta log(pi_t/ref_t);  pi masked to the nucleus of an old copy",
    conventions={
        **PPO.conventions,
        "mask": "the smallest set with mass 0.9 under the copy, ties to the lower number; the released code also "
        "always allows special tokens and at least 100 tokens",
        "temperature": "the nucleus is taken at temperature 1, the masked distribution sampled at its own",
        "refresh": "the copy becomes the policy after every 20 steps; it starts as the policy",
        "log-probs": "of the masked distribution in ratios and entropies, of the whole one in the KL",
        "KL": "k1 in the reward at every decision, beta from 0.1, adapted by a tenth of the relative error (at most "
        "0.2) to a target of 0.1 nats per decision; the paper's targets differ by task",
        "evaluation": "greedy, without masks",
    },
    rollout=DelayedNucleus(samples=1, mass=0.9),
    shaping=(AdaptiveKLInReward(coefficient=0.1, target=0.1),),
    update=DelayedMaskStep(epochs=4, minibatches=4, every=20),
)
