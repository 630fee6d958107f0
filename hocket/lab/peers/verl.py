"""verl: `core_algos.py`, in its versions of October 2025 and 0.9."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.credit.group import GroupRelative
from hocket.credit.whitening import WhitenedTokens
from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import (
    Rows,
    group_scores,
    leave_one_out,
    mean_log_ratio,
    sequence_mean,
    surrogate,
    token_mean,
)
from hocket.lab.peers.trl import TOKENS, soft_gated
from hocket.objectives.denominators import Aggregated
from hocket.objectives.surrogate import ClippedSurrogate


def verl_ratio(batch: Rows) -> Tensor:
    """Log-ratios are cut to +-20, which ends their gradient there."""
    return (batch.logp - batch.old).clamp(-20.0, 20.0).exp()


def verl_grpo(batch: Rows) -> Tensor:
    """`adv_estimator=grpo`, vanilla loss, `token-mean`: dual clip at 3, epsilon 1e-6."""
    return token_mean(surrogate(verl_ratio(batch), group_scores(batch, epsilon=1e-6), 0.2, 0.2, 3.0), batch)


def verl_dr_grpo(batch: Rows) -> Tensor:
    """`norm_adv_by_std_in_grpo=False`, `seq-mean-token-sum-norm`: summed over answers, over the padded length."""
    loss = surrogate(verl_ratio(batch), group_scores(batch, epsilon=None), 0.2, 0.2, 3.0)
    return (loss * batch.mask).sum() / batch.mask.shape[1]


def verl_rloo(batch: Rows) -> Tensor:
    """`adv_estimator=rloo`, vanilla loss, `token-mean`."""
    return token_mean(surrogate(verl_ratio(batch), leave_one_out(batch), 0.2, 0.2, 3.0), batch)


def verl_gspo(batch: Rows) -> Tensor:
    """The `gspo` loss at clip ratios 3e-4 and 4e-4, token form."""
    log_ratio = batch.logp - batch.logp.detach() + mean_log_ratio(batch).detach()
    loss = surrogate(log_ratio.clamp(max=10.0).exp(), group_scores(batch, epsilon=1e-6), 3e-4, 4e-4)
    return sequence_mean(loss, batch)


def verl_gpg(batch: Rows) -> Tensor:
    """`adv_estimator=gpg`, the `gpg` loss: scaled by the batch size over the count of non-zero rewards."""
    alpha = len(batch.reward) / max(int((batch.reward != 0).sum()), 1)
    return token_mean(-alpha * group_scores(batch, epsilon=None) * batch.logp, batch)


# ---------------------------------------------------------------- verl 0.9


def verl_sapo(batch: Rows) -> Tensor:
    """The `sapo` loss, `tau_pos=1`, `tau_neg=1.05`, `seq-mean-token-mean`, on `adv_estimator=grpo`."""
    return sequence_mean(-soft_gated(verl_ratio(batch), group_scores(batch, epsilon=1e-6)), batch)


def verl_opo(batch: Rows) -> Tensor:
    """`adv_estimator=opo`, vanilla loss, `token-mean`."""
    rewards, lengths = batch.by_group(), batch.mask.sum(1).view(batch.groups, -1)
    baseline = (lengths * rewards).sum(1, keepdim=True) / lengths.sum(1, keepdim=True)
    advantage = (rewards - baseline).reshape(-1, 1)
    return token_mean(surrogate(verl_ratio(batch), advantage, 0.2, 0.2, 3.0), batch)


def verl_pass_at_k(batch: Rows) -> Tensor:
    """`adv_estimator=grpo_passk`, vanilla loss, `token-mean`: the best one's lead, over the deviation plus 1e-6."""
    rewards = batch.by_group()
    top, place = rewards.topk(2, dim=1)
    lead = (top[:, :1] - top[:, 1:]) / (rewards.std(1, keepdim=True) + 1e-6)
    advantage = torch.zeros_like(rewards).scatter(1, place[:, :1], lead).reshape(-1, 1)
    return token_mean(surrogate(verl_ratio(batch), advantage, 0.2, 0.2, 3.0), batch)


def verl_sum_norm(batch: Rows, longest: int = 128) -> Tensor:
    """Current `seq-mean-token-sum-norm`, `loss_scale_factor=128`, `norm_adv_by_std_in_grpo=False`."""
    loss = surrogate(verl_ratio(batch), group_scores(batch, epsilon=None), 0.2, 0.2, 3.0)
    return (loss * batch.mask).sum(1).mean() / longest


def verl_token_sum(batch: Rows) -> Tensor:
    """`adv_estimator=grpo`, vanilla loss, `token-sum`."""
    loss = surrogate(verl_ratio(batch), group_scores(batch, epsilon=1e-6), 0.2, 0.2, 3.0)
    return (loss * batch.mask).sum()


def verl_reinforce_plus_plus_baseline(batch: Rows) -> Tensor:
    """`adv_estimator=reinforce_plus_plus_baseline`: group means, whitened over tokens, 1e-8 added to the variance."""
    centred, count = group_scores(batch, epsilon=None).expand_as(batch.mask), batch.mask.sum()
    mean = token_mean(centred, batch)
    variance = ((centred - mean).square() * batch.mask).sum() / (count - 1)
    advantage = (centred - mean) * (variance + 1e-8).rsqrt()
    return token_mean(surrogate(verl_ratio(batch), advantage, 0.2, 0.2, 3.0), batch)


def covariances(batch: Rows) -> Tensor:
    """Of log-probs and advantages over tokens, `[N, L]`."""
    advantage, logp = group_scores(batch, epsilon=1e-6).expand_as(batch.mask), batch.logp.detach()
    return (advantage - token_mean(advantage, batch)) * (logp - token_mean(logp, batch))


def verl_clip_cov(batch: Rows) -> Tensor:
    """The `clip_cov` loss at clip ratios 1 where `clip_cov_ratio` takes every token of covariance from 1 to 5."""
    advantage, ratio = group_scores(batch, epsilon=1e-6), verl_ratio(batch)
    free, bounded = -advantage * ratio, -advantage * ratio.clamp(0.0, 2.0)
    chosen = (covariances(batch) > 1) & (covariances(batch) < 5) & ~(bounded > free)
    return token_mean(torch.maximum(free, bounded) * ~chosen, batch)


def verl_kl_cov(batch: Rows, portion: float = 0.1) -> Tensor:
    """The `kl_cov` loss, `kl_cov_ratio=0.1`, `ppo_kl_coef=1`."""
    covariance = covariances(batch).masked_fill(batch.mask == 0, -torch.inf).view(-1)
    many = max(1, int(portion * int(batch.mask.sum())))
    held = torch.zeros_like(covariance).scatter(0, covariance.topk(many).indices, 1.0).view_as(batch.mask)
    log_ratio = batch.logp - batch.old
    return token_mean(-group_scores(batch, epsilon=1e-6) * log_ratio.exp() + held * log_ratio.abs(), batch)


def verl_dppo_tv(batch: Rows, limit: float = 0.15) -> Tensor:
    """The `dppo_tv` loss at 0.15: the ratio, at most 20, is a constant factor of the log-prob."""
    advantage = group_scores(batch, epsilon=1e-6).expand_as(batch.mask)
    moved = batch.logp.detach().exp() - batch.old.exp()
    mask = torch.where(advantage > 0, moved <= limit, moved >= -limit)
    weight = verl_ratio(batch).detach().clamp(max=20.0)
    return token_mean(-advantage * weight * batch.logp * mask, batch)


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
        f"{NEW}, grpo without deviation, seq-mean-token-sum-norm, loss_scale_factor 128",
        verl_sum_norm,
        "dr-grpo",
        {},
        "dual clip at 3, objective.dual, which no ratio of these batches reaches; at equal lengths L nothing else",
    ),
    PeerComparison(
        f"{NEW}, grpo, token-sum",
        verl_token_sum,
        "grpo",
        {"objective": Aggregated(of=ClippedSurrogate(dual=3.0), form="token-sum")},
        "a sum over tokens, no mean; dual clip at 3",
    ),
    PeerComparison(
        f"{NEW}, reinforce_plus_plus_baseline",
        verl_reinforce_plus_plus_baseline,
        "reinforce++-baseline",
        {"credit": WhitenedTokens(of=GroupRelative(scale=None)), "objective.dual": 3.0, "regularisers": ()},
        "whitened over tokens, 1e-8 added to the variance; dual clip at 3; no KL in the loss",
    ),
    PeerComparison(
        f"{NEW}, clip_cov, every token from 1 to 5",
        verl_clip_cov,
        "clip-cov",
        {"objective.portion": 1.0},
        "the portion, so that nothing is drawn",
    ),
    PeerComparison(f"{NEW}, kl_cov at 0.1", verl_kl_cov, "kl-cov", {"objective.portion": 0.1}, "the portion"),
    PeerComparison(
        f"{NEW}, dppo_tv at 0.15",
        verl_dppo_tv,
        "divergence-ppo",
        {"objective.low": 0.15, "objective.high": 0.15},
        "the thresholds; ratios beyond 20 are cut and keep a gradient",
        gradient_only=True,
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
