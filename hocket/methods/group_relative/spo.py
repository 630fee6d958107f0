"""SPO: PPO with a quadratic penalty on the ratio in place of the clip (Xie et al., arXiv:2401.16025).

Decisions whose ratio went too far are drawn back instead of losing their gradient: `QuadraticDrift`, in
`DriftSurrogate` of `hocket.objectives.drift`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.methods.base.ppo import PPO
from hocket.objectives.drift import Drift, DriftSurrogate, quadratic_drift


@dataclass(frozen=True)
class QuadraticDrift(Drift):
    """SPO's penalty; see `quadratic_drift`. `epsilon` is where the ratio is drawn to, as far as PPO's clip.

    The square of a ratio of e^50 does not fit into float32, where log-ratios therefore saturate at 40 nats.
    """

    epsilon: float = 0.2

    power: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ValueError(f"epsilon must be positive, not {self.epsilon}")

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        return quadratic_drift(log_ratio, advantage, self.epsilon)


SPO = PPO.but(
    name="spo",
    title="Simple Policy Optimization",
    source="Xie et al., arXiv:2401.16025",
    catalogue_ids=("spo",),
    axes=("objective",),
    formula="L = -mean_t (r_t A_t - |A_t| (r_t - 1)^2/(2 eps)) + 1/2 mean_t (V_t - y_t)^2,  A = GAE(gamma, lam)",
    conventions={
        **PPO.conventions,
        "clipping side": "none: both sides are drawn to r = 1 + eps sign(A), eps = 0.2; values are not clipped",
        "saturation": "log-ratios beyond +-50 nats (+-40 in float32) take the value and the gradient of the bound",
        "tokens": "the same term in GRPO: --recipe grpo --objective '{type: hocket.objectives.DriftSurrogate, "
        "drift: {type: hocket.objectives.QuadraticDrift}, aggregate: sequence-mean}'",
    },
    objective=DriftSurrogate(drift=QuadraticDrift(epsilon=0.2), aggregate="token-mean"),
)
