"""TRL 1.16's IWOPDTrainer and the tinker cookbook's on-policy distillation, on sampled tokens.

Forms over whole distributions are compared in `tests/core/test_divergences.py`: a recorded batch holds none.
"""

from __future__ import annotations

from torch import Tensor

from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import Rows, token_mean


def trl_iw_opd(batch: Rows, gamma: float = 0.5, epsilon: float = 1e-8) -> Tensor:
    """`distillation_objective="iw_opd"`: the teacher's log-ratio, weighed by what is left of its absolute sum."""
    ratio = (batch.reference - batch.old) * batch.mask
    size = ratio.abs()
    before = size.cumsum(1) - size
    weight = 1 + gamma * (1 - before / size.sum(1, keepdim=True).clamp_min(epsilon))
    return token_mean(-batch.logp * (weight * ratio).detach(), batch)


def tinker_distillation(batch: Rows) -> Tensor:
    """`kl_penalty_coef=1`, no reward, loss `importance_sampling`, which is summed."""
    advantage = (batch.reference - batch.old).detach()
    return -((batch.logp - batch.old).exp() * advantage * batch.mask).sum()


ENTRIES = (
    PeerComparison("TRL 1.16, IWOPDTrainer", trl_iw_opd, "iw-opd", {}, "equal as shipped", teacher=True),
    PeerComparison(
        "tinker-cookbook 0.6, on-policy distillation",
        tinker_distillation,
        "on-policy-distillation",
        None,
        "a sum over all tokens, where the recipe takes their mean",
        teacher=True,
    ),
)
