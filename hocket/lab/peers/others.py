"""OpenRLHF, and the code of authors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded import Padded, group_scores, surrogate, token_mean
from hocket.lab.peers.trl import TOKENS


def openrlhf_group_norm(batch: Padded) -> Tensor:
    """OpenRLHF 0.8: `group_norm`, `PolicyLoss` over all tokens, epsilon 1e-9."""
    ratio = (batch.logp - batch.old).exp()
    return token_mean(surrogate(ratio, group_scores(batch, epsilon=1e-9), 0.2, 0.2), batch)


def oat_dr_grpo(batch: Padded, longest: int = 128) -> Tensor:
    """The Dr. GRPO authors' `train_zero_math.py`: token sums over the generation limit, mean over answers."""
    ratio = (batch.logp - batch.old).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=None), 0.2, 0.2)
    return ((loss * batch.mask).sum(1) / longest).mean()


ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(
        "OpenRLHF 0.8, group_norm",
        openrlhf_group_norm,
        "grpo",
        TOKENS | {"credit.epsilon": 1e-9},
        "epsilon 1e-9; mean over tokens",
    ),
    PeerComparison("Oat, Dr. GRPO (its authors' code)", oat_dr_grpo, "dr-grpo", {}, "nothing, at equal lengths L"),
)
