"""verl: `core_algos.py`, in its versions of October 2025 and 0.9."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded import (
    Padded,
    group_scores,
    leave_one_out,
    mean_log_ratio,
    sequence_mean,
    surrogate,
    token_mean,
)
from hocket.lab.peers.trl import TOKENS, soft_gated


def verl_ratio(batch: Padded) -> Tensor:
    """Log-ratios are cut to +-20, which ends their gradient there."""
    return (batch.logp - batch.old).clamp(-20.0, 20.0).exp()


def verl_grpo(batch: Padded) -> Tensor:
    """`adv_estimator=grpo`, vanilla loss, `token-mean`: dual clip at 3, epsilon 1e-6."""
    return token_mean(surrogate(verl_ratio(batch), group_scores(batch, epsilon=1e-6), 0.2, 0.2, 3.0), batch)


def verl_dr_grpo(batch: Padded) -> Tensor:
    """`norm_adv_by_std_in_grpo=False`, `seq-mean-token-sum-norm`: summed over answers, over the padded length."""
    loss = surrogate(verl_ratio(batch), group_scores(batch, epsilon=None), 0.2, 0.2, 3.0)
    return (loss * batch.mask).sum() / batch.mask.shape[1]


def verl_rloo(batch: Padded) -> Tensor:
    """`adv_estimator=rloo`, vanilla loss, `token-mean`."""
    return token_mean(surrogate(verl_ratio(batch), leave_one_out(batch), 0.2, 0.2, 3.0), batch)


def verl_gspo(batch: Padded) -> Tensor:
    """The `gspo` loss at clip ratios 3e-4 and 4e-4, token form."""
    log_ratio = batch.logp - batch.logp.detach() + mean_log_ratio(batch).detach()
    loss = surrogate(log_ratio.clamp(max=10.0).exp(), group_scores(batch, epsilon=1e-6), 3e-4, 4e-4)
    return sequence_mean(loss, batch)


def verl_gpg(batch: Padded) -> Tensor:
    """`adv_estimator=gpg`, the `gpg` loss: scaled by the batch size over the count of non-zero rewards."""
    alpha = len(batch.reward) / max(int((batch.reward != 0).sum()), 1)
    return token_mean(-alpha * group_scores(batch, epsilon=None) * batch.logp, batch)


# ---------------------------------------------------------------- verl 0.9


def verl_sapo(batch: Padded) -> Tensor:
    """The `sapo` loss, `tau_pos=1`, `tau_neg=1.05`, `seq-mean-token-mean`, on `adv_estimator=grpo`."""
    return sequence_mean(-soft_gated(verl_ratio(batch), group_scores(batch, epsilon=1e-6)), batch)


def verl_opo(batch: Padded) -> Tensor:
    """`adv_estimator=opo`, vanilla loss, `token-mean`."""
    rewards, lengths = batch.by_group(), batch.mask.sum(1).view(batch.groups, -1)
    baseline = (lengths * rewards).sum(1, keepdim=True) / lengths.sum(1, keepdim=True)
    advantage = (rewards - baseline).reshape(-1, 1)
    return token_mean(surrogate(verl_ratio(batch), advantage, 0.2, 0.2, 3.0), batch)


def verl_pass_at_k(batch: Padded) -> Tensor:
    """`adv_estimator=grpo_passk`, vanilla loss, `token-mean`: the best one's lead, over the deviation plus 1e-6."""
    rewards = batch.by_group()
    top, place = rewards.topk(2, dim=1)
    lead = (top[:, :1] - top[:, 1:]) / (rewards.std(1, keepdim=True) + 1e-6)
    advantage = torch.zeros_like(rewards).scatter(1, place[:, :1], lead).reshape(-1, 1)
    return token_mean(surrogate(verl_ratio(batch), advantage, 0.2, 0.2, 3.0), batch)


OLD, NEW = "verl (Oct 2025)", "verl 0.9"

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(
        f"{OLD}, grpo",
        verl_grpo,
        "grpo",
        TOKENS | {"objective.dual": 3.0},
        "mean over tokens; dual clip at 3; log-ratios cut at 20; a group of one keeps its reward as advantage",
    ),
    PeerComparison(
        f"{OLD}, grpo without deviation, seq-mean-token-sum-norm",
        verl_dr_grpo,
        "dr-grpo",
        None,
        "not divided by the number of answers; divided by the batch's own width; dual clip at 3",
    ),
    PeerComparison(
        f"{OLD}, rloo",
        verl_rloo,
        "grpo",
        TOKENS | {"credit.scale": None, "credit.leave_one_out": True, "objective.dual": 3.0},
        "PPO's clipped loss over tokens, so it is grpo with a leave-one-out mean, and not rloo's policy gradient",
    ),
    PeerComparison(f"{OLD}, gspo", verl_gspo, "gspo-token", {}, "log-ratios cut at 10"),
    PeerComparison(
        f"{OLD}, gpg",
        verl_gpg,
        "gpg",
        None,
        "scaled by batch size over the count of non-zero rewards; the authors' code by that of valid groups",
    ),
    PeerComparison(f"{NEW}, sapo", verl_sapo, "sapo", {}, "log-ratios cut at 20"),
    PeerComparison(f"{NEW}, opo", verl_opo, "opo", {}, "dual clip at 3, which no ratio of these batches reaches"),
    PeerComparison(
        f"{NEW}, grpo_passk",
        verl_pass_at_k,
        "grpo-pass-at-k",
        {"credit.scale": "std", "objective.dual": 3.0},
        "divided by the deviation, epsilon 1e-6; dual clip at 3",
    ),
)
