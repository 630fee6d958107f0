"""OpenRLHF, and the code of authors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import Rows, group_scores, low_variance_kl, surrogate, token_mean
from hocket.lab.peers.trl import TOKENS
from hocket.objectives.divergence import KLToReference


def openrlhf_group_norm(batch: Rows) -> Tensor:
    """OpenRLHF 0.8: `group_norm`, `PolicyLoss` over all tokens, epsilon 1e-9."""
    ratio = (batch.logp - batch.old).exp()
    return token_mean(surrogate(ratio, group_scores(batch, epsilon=1e-9), 0.2, 0.2), batch)


def oat_dr_grpo(batch: Rows, longest: int = 128) -> Tensor:
    """The Dr. GRPO authors' `train_zero_math.py`: token sums over the generation limit, mean over answers."""
    ratio = (batch.logp - batch.old).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=None), 0.2, 0.2)
    return ((loss * batch.mask).sum(1) / longest).mean()


def mapo(batch: Rows, *, mixed: bool) -> Tensor:
    """The MAPO authors' EasyR1: clipped at 0.2, 0.3 and 3 over all tokens, k3 at 0.01; epsilon 1e-6."""
    rewards = batch.by_group()
    mean = rewards.mean(1, keepdim=True)
    advantage = (rewards - mean) / (mean + 1e-6)
    if mixed:
        certain = (rewards == 1.0).double().mean(1, keepdim=True)
        even = 4 * certain * (1 - certain)
        advantage = even * (rewards - mean) / (rewards.std(1, keepdim=True) + 1e-6) + (1 - even) * advantage
    loss = surrogate((batch.logp - batch.old).exp(), advantage.reshape(-1, 1), 0.2, 0.3, 3.0)
    return token_mean(loss + 0.01 * low_variance_kl(batch), batch)


def mapo_mean(batch: Rows) -> Tensor:
    """`adv_estimator=grpomean`."""
    return mapo(batch, mixed=False)


def mapo_mixed(batch: Rows) -> Tensor:
    """`adv_estimator=grpomixpro`, the method proposed."""
    return mapo(batch, mixed=True)


MAPO = "MAPO (its authors' code)"
MAPO_LOSS = TOKENS | {
    "objective.high": 0.3,
    "objective.dual": 3.0,
    "regularisers": (KLToReference(coefficient=0.01, aggregate="token-mean"),),
}
MAPO_DIFFERS = (
    "mean over tokens; clipped at 0.2 and 0.3, dual clip at 3, which no ratio of these batches reaches; KL at 0.01"
)

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(
        "OpenRLHF 0.8, group_norm",
        openrlhf_group_norm,
        "grpo",
        TOKENS | {"credit.epsilon": 1e-9},
        "epsilon 1e-9; mean over tokens",
    ),
    PeerComparison("Oat, Dr. GRPO (its authors' code)", oat_dr_grpo, "dr-grpo", {}, "nothing, at equal lengths L"),
    PeerComparison(
        f"{MAPO}, grpomixpro",
        mapo_mixed,
        "mapo",
        {"credit.weigh.0.success": 1 - 1e-9, **MAPO_LOSS},
        f"the full reward is 1 there, any above 0.5 here; {MAPO_DIFFERS}",
    ),
    PeerComparison(
        f"{MAPO}, grpomean",
        mapo_mean,
        "mapo",
        {"credit.weigh.0.mix": 1.0, **MAPO_LOSS},
        f"the mean form alone, in every group; {MAPO_DIFFERS}",
    ),
)
