"""MDPO: PPO with a KL penalty of growing weight in place of the clip (Tomar et al., arXiv:2005.09814).

Mirror descent, approximately: several steps on a batch against `ForwardKLDrift`, an estimate of KL(new || old) from old
actions whose step size falls over the run; it enters `DriftSurrogate` of `hocket.objectives.drift`.

`mdpo-off-policy` fits KL(pi || pi_k exp(t Q) / Z) on stored rows, with critics as in soft actor-critic, in the soft
process that the paper uses off-policy, whose value counts entropy: `MirrorValues` is its policy, which keeps the policy
pi_k before. With a uniform pi_k and no entropy the actor's step is SAC's at the temperature 1/t.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.stored_rows import NOISE
from hocket.methods.base.ppo import PPO
from hocket.methods.base.sac import SAC
from hocket.objectives.action_values import CriticLoss, PathwiseLoss
from hocket.objectives.drift import Drift, DriftSurrogate
from hocket.policies.action_values import SoftValues, backed_up, critics_of, following, joined, slow_copy
from hocket.policies.control_parts import EvaluatedRows, PartHost
from hocket.policies.value_heads import SquashedGaussian
from hocket.types import Quantity
from hocket.update.following import FollowingStep
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
        "form": "the paper's on-policy one; `mdpo-off-policy` is the other",
        "clipping side": "none; values are not clipped",
        "KL": "KL(new || old), estimated from the old policy's actions, unbiased in value and gradient",
        "step size": "t_k falls linearly from 1 to 0.05 over the run; the paper's ends at 0, an infinite penalty",
        "updates per batch": "10 steps on the whole batch; with one the KL would have no gradient at all",
    },
    objective=DriftSurrogate(drift=ForwardKLDrift(), aggregate="token-mean"),
    update=GradientStep(epochs=10, minibatches=1),
)


@dataclass(frozen=True)
class MirrorValues(SoftValues):
    """Critics beside a squashed Gaussian near the one before: `pathwise` is w log pi + (log pi - log pi_k) / t - Q.

    Attributes:
        step_size: t. previous: whether pi_k is the policy before; else it is uniform, which gives SAC's actor.
        entropy: w, the weight of the entropy in the actor's loss and in the backup.
    """

    learnt: bool = False
    step_size: float = 1.25
    previous: bool = True
    entropy: float = 0.2

    groups: ClassVar[Mapping[str, str]] = {**SoftValues.groups, "previous": "previous"}
    slow: ClassVar[Mapping[str, str]] = {**SoftValues.slow, "previous": "actor"}
    quantities: ClassVar[frozenset[Quantity]] = SoftValues.quantities - {Quantity.TEMPERATURE}

    def __post_init__(self) -> None:
        if not self.step_size > 0:
            raise ValueError(f"step_size must be positive, not {self.step_size}")
        if not self.entropy >= 0:
            raise ValueError(f"entropy must be at least 0, not {self.entropy}")

    def begin(self, host: PartHost) -> None:
        super().begin(host)
        host.module.previous = slow_copy(host.module.actor)

    def _backup(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        later = following(host, rows)
        action, logp = SquashedGaussian.of(host.module.actor(later)).reached(rows.column(NOISE)[:, 1])
        value = critics_of(host, "slow")(joined(later, action)).amin(1)
        return backed_up(rows, value - self.entropy * logp)

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        if Quantity.PATHWISE not in wanted:
            return {}
        head, noise = SquashedGaussian.of(rows.outputs), rows.column(NOISE)[:, 0]
        action, logp = head.reached(noise)
        gap = logp
        if self.previous:
            with torch.no_grad():
                before = SquashedGaussian.of(cast(nn.Module, host.module.previous)(rows.seen)).normal
            inside = head.mean + head.log_std.exp() * noise
            gap = head.normal.logp(inside) - before.logp(inside)  # What squashing adds to both cancels.
        value = critics_of(host)(joined(rows.seen, action), frozen=True).amin(1)
        return {Quantity.PATHWISE: self.entropy * logp + gap / self.step_size - value}


MDPO_OFF_POLICY = SAC.but(
    name="mdpo-off-policy",
    title="Mirror Descent Policy Optimization, off-policy",
    source=MDPO.source,
    catalogue_ids=("mdpo",),
    formula="L = 1/2 sum_k (Q_k(s, a) - y)^2 + w log pi(a'|s) + 1/t log (pi(a'|s) / pi_i(a'|s)) - min_k Q_k(s, a'),  "
    "y = r + gamma (min_k Q-_k(s', a'') - w log pi(a''|s')),  a' ~ pi(s), a'' ~ pi(s'),  "
    "pi_i <- pi every 250 gradients",
    conventions={
        **SAC.conventions,
        "temperature": "fixed: w = 0.2, as in the authors' code",
        "step size": "t = 1.25, fixed, as in the authors' code: their weight of log pi is 1, so 1/t = 1 - w",
        "previous policy": "copied every 250 gradients, which are the steps of one mirror step; the authors make 1,000",
        "actor": "the smaller critic counts and nothing holds its mean and deviation; the authors' takes the first "
        "critic and penalises the squares of both by 0.001",
    },
    objective=CriticLoss(MirrorValues()),
    regularisers=(PathwiseLoss(),),
    update=FollowingStep(lr=3e-4, clip_norm=None, copied={"previous": 250}),
)
