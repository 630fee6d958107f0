"""OpenRLHF, Trinity-RFT, and the code of authors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
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


def trinity_rec(batch: Padded, mode: str) -> Tensor:
    """Trinity-RFT's `rec` at 0.2 each, 0.6 and 2.0 beyond: REINFORCE under a mask of the ratio, over all tokens."""
    advantage = group_scores(batch, epsilon=None).expand_as(batch.mask)
    log_ratio = (batch.logp - batch.old).detach()
    if mode == "gspo-one-side":
        log_ratio = ((log_ratio * batch.mask).sum(1) / batch.mask.sum(1))[:, None].expand_as(batch.mask)
    ratio = log_ratio.exp()
    if mode == "ring":
        kept = (ratio >= 0.8) & (ratio <= 1.2) | (advantage >= 0) & (ratio <= 0.4) | (advantage <= 0) & (ratio >= 3.0)
    else:
        kept = (advantage >= 0) & (ratio <= 1.2) | (advantage <= 0) & (ratio >= 0.8)
    weight = ratio if mode == "gspo-one-side" else torch.ones_like(ratio)
    return token_mean(-advantage * weight * batch.logp * kept, batch)


EQUAL = "equal as shipped"
TRINITY = {"ring": "rec-ring", "one-side": "rec-one-side", "gspo-one-side": "rec-one-side-sequence"}

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(
        "OpenRLHF 0.8, group_norm",
        openrlhf_group_norm,
        "grpo",
        TOKENS | {"credit.epsilon": 1e-9},
        "epsilon 1e-9; mean over tokens",
    ),
    *(
        PeerComparison(f"Trinity-RFT, rec, clip_mode {mode}", partial(trinity_rec, mode=mode), recipe, {}, EQUAL)
        for mode, recipe in TRINITY.items()
    ),
    PeerComparison("Oat, Dr. GRPO (its authors' code)", oat_dr_grpo, "dr-grpo", {}, "nothing, at equal lengths L"),
)
