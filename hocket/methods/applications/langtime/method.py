"""LangTime: forecasts patch by patch, fine-tuned by PPO with values by repetition (Niu et al., arXiv:2503.08271).

A forecaster that was trained across domains makes a series go on patch by patch, each read as if it were recorded, so
that errors add up. TimePPO takes a patch as an action, pays it by several parts of its error, and estimates values by
repetition in the place of a critic: here the value of a state is what the patches still to come would pay if each
repeated the last one,

    V(s_t) = sum_{k >= t} gamma^(k-t) r(y_{t-1}, truth_k),
    A_t = sum_k (gamma lam)^k (r_{t+k} + gamma V(s_{t+k+1}) - V(s_{t+k})).

The authors' code has no PPO (niuwz/LangTime). Of its settings we have 3 epochs, a clip of 0.2, lam 0.95, gamma 1, a KL
penalty of 0.1, and losses cut off at 5. Ours are the parts of the reward, what is repeated, and the forecaster: ridge
regression with a learnt addition by a small network, in the place of a language model, and a number for each series in
the place of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.errors import ConfigurationError
from hocket.core.signals import rewards_by_occurrence
from hocket.credit.formulas import generalised_advantages, whitened
from hocket.methods.applications.langtime.series import PATCH, Floats, losses
from hocket.methods.base.ppo import PPO
from hocket.rewards.shaping import KLInReward
from hocket.stages import Credit
from hocket.update.gradient import GradientStep


def repeated_values(joint: Floats, gamma: float) -> Floats:
    """What the patches still to come pay if each repeats the last one, discounted: `[T]` of joint states `[T, S]`."""
    made, last = joint[:, 0].astype(np.int64), joint[:, 1 : 1 + PATCH]
    truth = joint[:, 1 + PATCH :].reshape(len(joint), -1, PATCH)
    ahead = np.arange(truth.shape[1]) - made[:, None]
    weight = np.where(ahead >= 0, gamma ** np.maximum(ahead, 0), 0.0)
    return np.asarray((-losses(last[:, None], truth) * weight).sum(1))


@dataclass(frozen=True)
class RepeatedGAE(Credit):
    """`GAE` whose values are `repeated_values`, whitened over the batch.

    Attributes:
        gamma: discount per patch, in [0, 1]. lam: 0 gives one-step differences, 1 discounted returns minus V. epsilon:
            added to the deviation.

    Raises:
        ConfigurationError: on a call, for episodes of another task than `forecast`.
    """

    gamma: float = 1.0
    lam: float = 0.95
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages, `[E]` float64."""
        occurrences = batch.occurrences
        values = torch.from_numpy(repeated_values(_forecasts(batch), self.gamma))[occurrences.decision]
        raw = generalised_advantages(
            rewards_by_occurrence(batch).double(),
            values,
            torch.zeros(batch.trajectories, dtype=torch.float64),
            occurrences.trajectory,
            gamma=self.gamma,
            lam=self.lam,
        )
        used = occurrences.weight != 0
        advantage = torch.zeros_like(raw)
        advantage[used] = whitened(raw[used], ddof=1, epsilon=self.epsilon)
        return replace(occurrences, advantage=advantage)


def _forecasts(batch: Batch) -> Floats:
    """The joint states of all decisions, `[T, S]`, as `Forecasts` has them: the first number counts patches."""
    states = [None if rows is None else np.asarray(rows, np.float64) for rows in batch.joint]
    if not states or not all(
        rows is not None and rows.shape[1] == 1 + PATCH * (1 + len(rows)) and (rows[:, 0] == np.arange(len(rows))).all()
        for rows in states
    ):
        raise ConfigurationError(
            "langtime's values compare the last patch of a forecast with what was recorded, and this task has no "
            "forecasts; use --task forecast"
        )
    return np.concatenate([rows for rows in states if rows is not None])


LANGTIME = PPO.but(
    name="langtime",
    title="PPO on forecasts patch by patch, with values by repetition",
    source="LangTime: A Language-Guided Unified Model for Time Series Forecasting with Proximal Policy Optimization, "
    "Niu et al., arXiv:2503.08271",
    catalogue_ids=("langtime",),
    axes=("reward", "objective", "policy"),
    formula="L = -mean_t min(rho_t A_t, clip(rho_t) A_t),  A = GAE with V_t = sum_{k >= t} r(y_{t-1}, truth_k),  "
    "r(y, x) = -min(0.7 mean (y - x)^2 + 0.3 mean (D(y - x))^2, 5) - 0.1 log(pi/ref)",
    conventions={
        **PPO.conventions,
        "value": "that of repeating the last patch, from what was recorded; no critic",
        "KL": "k1 in the reward of each patch to the policy before training, coefficient 0.1",
        "updates per batch": "3 epochs of 4 mini-batches",
        "forecaster": "ridge regression by teacher forcing on both series, plus a learnt addition; it stands in for a "
        "language model, and a number for each series for prompts",
    },
    task="forecast",
    shaping=(KLInReward(coefficient=0.1, estimator="k1"),),
    credit=RepeatedGAE(),
    regularisers=(),
    update=GradientStep(epochs=3, minibatches=4),
)
