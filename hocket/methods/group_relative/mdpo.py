"""MDPO: PPO with a KL penalty of growing weight in place of the clip (Tomar et al., arXiv:2005.09814).

Mirror descent, approximately: several steps on a batch against `ForwardKLDrift`, an estimate of KL(new || old) from old
actions whose step size falls over the run; it enters `DriftSurrogate` of `hocket.objectives.drift`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hocket.methods.base.ppo import PPO
from hocket.objectives.drift import Drift, DriftSurrogate
from hocket.update.gradient import GradientStep


def forward_kl_drift(log_ratio: Tensor) -> Tensor:
    """f = r log r - r + 1, `[E]`: an estimate of KL(pi || pi_old) from actions of pi_old, at least 0.

    Unbiased, since E[r] = 1; its gradient, r log r per unit of log pi, is unbiased for the gradient of that KL.
    """
    ratio = log_ratio.exp()
    return ratio * log_ratio - log_ratio.expm1()


@dataclass(frozen=True)
class ForwardKLDrift(Drift):
    """f = (1 / t) KL(pi || pi_old), the proximal term of mirror descent (MDPO, Tomar et al., arXiv 2005.09814).

    The step size t falls linearly over the run, from `first` to `last`. The exact maximiser of the surrogate is
    pi_old exp(t A) / Z.

    Attributes:
        first: t in the first step; 1 is the paper's.
        last: t in the last step. The paper's schedule ends at 0, where the penalty is infinite.
    """

    first: float = 1.0
    last: float = 0.05

    power: ClassVar[int] = 1
    regardless_of_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.first <= 0 or self.last <= 0:
            raise ValueError(f"first and last must be positive, not {self.first} and {self.last}")

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        return forward_kl_drift(log_ratio) / (self.first + (self.last - self.first) * progress)


MDPO = PPO.but(
    name="mdpo",
    title="Mirror Descent Policy Optimization, on-policy",
    source="Tomar et al., arXiv:2005.09814",
    catalogue_ids=("mdpo",),
    axes=("objective",),
    formula="L = -mean_t (r_t A_t - 1/t_k (r_t log r_t - r_t + 1)) + 1/2 mean_t (V_t - y_t)^2,  t_k from 1 to 0.05",
    conventions={
        **PPO.conventions,
        "form": "the paper's on-policy one; off-policy, KL(pi || pi_k exp(t Q)/Z) on stored states, is left out",
        "clipping side": "none; values are not clipped",
        "KL": "KL(new || old), estimated from the old policy's actions, unbiased in value and gradient",
        "step size": "t_k falls linearly from 1 to 0.05 over the run; the paper's ends at 0, an infinite penalty",
        "updates per batch": "10 steps on the whole batch; with one the KL would have no gradient at all",
    },
    objective=DriftSurrogate(drift=ForwardKLDrift(), aggregate="token-mean"),
    update=GradientStep(epochs=10, minibatches=1),
)
