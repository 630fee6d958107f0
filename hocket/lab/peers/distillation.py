"""On-policy distillation on sampled tokens: TRL 1.16, the tinker cookbook, Trinity-RFT, prime-rl and AReaL.

Forms over whole distributions are compared in `tests/core/test_divergences.py`: a recorded batch holds none.
"""

from __future__ import annotations

from torch import Tensor

from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import Rows, group_scores, surrogate, token_mean


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


def trinity_distillation(batch: Rows) -> Tensor:
    """`on_policy_distill` with `kl_coef` 1, and its loss `importance_sampling`, `token-mean`."""
    return token_mean(-(batch.logp - batch.old).exp() * (batch.reference - batch.old), batch)


def prime_reference_kl(batch: Rows) -> Tensor:
    """`ref_kl_loss_fn`, over the number of tokens."""
    ratio = (batch.logp - batch.old).exp()
    inside = ~(batch.logp.detach().exp() - batch.old.exp() < -0.2)
    gain = inside * (batch.reference - batch.logp).detach() * ratio
    return token_mean(-gain + 1e-3 * (batch.logp - batch.old).square(), batch)


def areal_distillation(batch: Rows, weight: float = 0.005) -> Tensor:
    """`grpo_loss_fn` with a teacher, `rl_loss_weight=0` and its default `distill_loss_weight`."""
    reward = (batch.reference - batch.logp).detach()
    return -weight * token_mean((batch.logp - batch.old).exp() * reward, batch)


def areal_kdrl(batch: Rows, weight: float = 0.005) -> Tensor:
    """The same with `rl_loss_weight=1`: KDRL, k1 beside the clipped loss of groups' scores."""
    loss = surrogate((batch.logp - batch.old).exp(), group_scores(batch, epsilon=1e-6), 0.2, 0.2)
    return token_mean(loss + weight * (batch.logp - batch.reference), batch)


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
    PeerComparison(
        "Trinity-RFT, on_policy_distill",
        trinity_distillation,
        "on-policy-distillation",
        {},
        "equal as shipped",
        teacher=True,
    ),
    PeerComparison("prime-rl, opd (ref_kl)", prime_reference_kl, "prime-opd", {}, "equal as shipped", teacher=True),
    PeerComparison(
        "AReaL, a teacher alone",
        areal_distillation,
        "prime-opd",
        {"objective.fallen": None, "objective.coefficient": 0.005, "regularisers": ()},
        "weight 0.005; no token is left out, and no penalty",
        teacher=True,
    ),
    PeerComparison(
        "AReaL, KDRL",
        areal_kdrl,
        "grpo-kl",
        {
            "objective.aggregate": "token-mean",
            "regularisers.0.estimator": "k1",
            "regularisers.0.coefficient": 0.005,
            "regularisers.0.aggregate": "token-mean",
        },
        "mean over tokens; the teacher's KL is k1 at 0.005, whose expected gradient is 0 on the policy's own samples",
        teacher=True,
    ),
)
