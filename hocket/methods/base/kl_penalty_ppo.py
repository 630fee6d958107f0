"""PPO with a KL penalty in the place of the clip (Schulman et al., arXiv:1707.06347, section 4; KLPENPPOLoss).

The ratio is not clipped; `beta KL(pi_old || pi)` holds the policy near the one that sampled (`BehaviourKL`). After
every mini-batch beta is doubled where that KL exceeds its target by half, and halved where it falls short by a third
(`AdaptedPenalty`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column, InfoColumn
from hocket.core.keys import Key
from hocket.methods.base.ppo import PPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, mean, weights
from hocket.objectives.ratios import log_ratios
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.value import ValueLoss
from hocket.stages import Metrics, Objective, State
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem

PENALTY = InfoColumn(
    "kl_penalty", "The coefficient of the KL to the policy that sampled, in one `Coefficient` for all."
)


@dataclass
class Coefficient:
    """A number that changes between the mini-batches of an update."""

    value: float


@dataclass(frozen=True)
class BehaviourKL(Objective):
    """Adds beta times an estimate of KL(pi_old || pi) at each decision: `log pi_old(a) - log pi(a)`, a ~ pi_old.

    Its expected value and gradient are those of the KL.

    Attributes:
        coefficient: beta, where the update does not adapt it (`AdaptedPenalty`).
        metrics: `kl/penalty`, beta; `kl/old`, the estimate's mean in nats.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 1.0
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        held = next((each for each in PENALTY.rows(batch) if each is not None), None)
        beta = self.coefficient if held is None else held.value
        apart = -log_ratios(now, batch)
        weight = weights(batch, self.aggregate, self.horizon, dtype=apart.dtype)
        metrics = {
            "kl/penalty": torch.tensor(beta, dtype=torch.float64),
            "kl/old": mean(apart, batch.occurrences.weight != 0),
        }
        return Terms(beta * apart, weight, metrics=metrics)


@dataclass(frozen=True)
class AdaptedPenalty(GradientStep):
    """`GradientStep` that adapts the coefficient of `BehaviourKL` after each mini-batch's gradient.

    Stateful: the coefficient. It is multiplied by `increment` where the mini-batch's mean KL is above 1.5 `target`, by
    `decrement` where it is below `target` / 1.5.

    Attributes:
        start: the first coefficient. target: nats per decision. increment: at least 1. decrement: in (0, 1].
    """

    start: float = 1.0
    target: float = 0.01
    increment: float = 2.0
    decrement: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 0 or self.target <= 0 or self.increment < 1 or not 0 < self.decrement <= 1:
            raise ValueError(
                "start must be at least 0, target above 0, increment at least 1 and decrement in (0, 1], not "
                f"{self.start}, {self.target}, {self.increment} and {self.decrement}"
            )

    def init(self) -> State:
        """The first coefficient."""
        return {"coefficient": self.start}

    def step(self, problem: Problem, key: Key) -> Metrics:
        held = Coefficient(float(problem.memory.get("coefficient", self.start)))
        batch, watched = problem.batch, problem.watch
        problem.batch = batch.but(info={**batch.info, PENALTY.name: [held] * batch.trajectories})
        problem.watch = self._adapting(held, watched)
        try:
            metrics = super().step(problem, key)
        finally:
            problem.batch, problem.watch = batch, watched
        problem.memory = {"coefficient": held.value}
        return metrics

    def adapted(self, coefficient: float, divergence: float) -> float:
        """The coefficient after a mini-batch of this mean KL."""
        if divergence > 1.5 * self.target:
            return coefficient * self.increment
        return coefficient * self.decrement if divergence < self.target / 1.5 else coefficient

    def _adapting(
        self, held: Coefficient, watched: Callable[[Batch, Evaluation], None] | None
    ) -> Callable[[Batch, Evaluation], None]:
        def watch(batch: Batch, now: Evaluation) -> None:
            apart: Tensor = -log_ratios(now, batch).detach()
            counted = batch.occurrences.weight != 0
            if bool(counted.any()):
                held.value = self.adapted(held.value, float(mean(apart, counted)))
            if watched is not None:
                watched(batch, now)

        return watch


KL_PENALTY_PPO = PPO.but(
    name="ppo-kl-penalty",
    title="PPO with an adaptive KL penalty",
    source="Schulman et al., arXiv:1707.06347, section 4; torchrl, KLPENPPOLoss",
    formula="L = -mean_t r_t A_t + beta mean_t (log pi_old(a_t) - log pi(a_t)) + 1/2 mean_t (V_t - y_t)^2;  beta "
    "doubles where that KL > 1.5 d, halves where it < d / 1.5",
    conventions={
        **PPO.conventions,
        "clipping side": "none",
        "KL": "of the policy that sampled from the present one, estimated at the recorded actions (torchrl does so "
        "where there is no closed form)",
        "d": "0.01 nats per decision (update.target); beta begins at 1 (update.start)",
        "adaptation": "after every mini-batch, as torchrl; the paper adapts once per update",
    },
    objective=ClippedSurrogate(low=1.0, high=1e6, aggregate="token-mean"),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), BehaviourKL(aggregate="token-mean")),
    update=AdaptedPenalty(epochs=4, minibatches=4),
)
