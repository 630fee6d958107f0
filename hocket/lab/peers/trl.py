"""TRL 1.16: GRPOTrainer and RLOOTrainer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.credit.deviations import OverRawDeviation
from hocket.credit.group import GroupRelative
from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import (
    Rows,
    group_scores,
    leave_one_out,
    low_variance_kl,
    mean_log_ratio,
    sequence_mean,
    surrogate,
    token_mean,
)
from hocket.objectives.turn_ratio import TurnSurrogate

TRL_EPSILON = 1e-4


def trl_grpo(batch: Rows) -> Tensor:
    """`loss_type="grpo"`, `scale_rewards="group"`, beta 0."""
    ratio = (batch.logp - batch.old).exp()
    return sequence_mean(surrogate(ratio, group_scores(batch, epsilon=TRL_EPSILON), 0.2, 0.2), batch)


def trl_dapo(batch: Rows) -> Tensor:
    """`loss_type="dapo"`, the default: the same, over all tokens of the generation batch."""
    ratio = (batch.logp - batch.old).exp()
    return token_mean(surrogate(ratio, group_scores(batch, epsilon=TRL_EPSILON), 0.2, 0.2), batch)


def trl_dr_grpo(batch: Rows, longest: int = 128) -> Tensor:
    """`loss_type="dr_grpo"`, `scale_rewards="none"`, `max_completion_length` 128."""
    ratio = (batch.logp - batch.old).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=None), 0.2, 0.2)
    return (loss * batch.mask).sum() / (len(loss) * longest)


def trl_gspo(batch: Rows) -> Tensor:
    """`importance_sampling_level="sequence"`, `loss_type="grpo"`, `epsilon=3e-4`, `epsilon_high=4e-4`."""
    ratio = mean_log_ratio(batch).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=TRL_EPSILON), 3e-4, 4e-4)
    return sequence_mean(loss.expand_as(batch.logp), batch)


def trl_cispo(batch: Rows, cap: float = 5.0) -> Tensor:
    """`loss_type="cispo"`, `epsilon_high=5.0`, which here is the cap itself and not its distance from 1."""
    weight = (batch.logp - batch.old).exp().clamp(max=cap).detach()
    return token_mean(-weight * group_scores(batch, epsilon=TRL_EPSILON) * batch.logp, batch)


def trl_kl(batch: Rows, beta: float = 0.04) -> Tensor:
    """`loss_type="grpo"`, `beta=0.04`: k3 in the loss."""
    return trl_grpo(batch) + beta * sequence_mean(low_variance_kl(batch), batch)


def trl_two_sided(batch: Rows, delta: float = 3.0) -> Tensor:
    """`loss_type="grpo"`, `delta=3`: the unclipped ratio is capped for either sign."""
    ratio, advantage = (batch.logp - batch.old).exp(), group_scores(batch, epsilon=TRL_EPSILON)
    loss = -torch.minimum(ratio.clamp(max=delta) * advantage, ratio.clamp(0.8, 1.2) * advantage)
    return sequence_mean(loss, batch)


def soft_gated(ratio: Tensor, advantage: Tensor) -> Tensor:
    """SAPO's objective per token, with temperatures 1 and 1.05."""
    temperature = torch.full_like(advantage, 1.05).masked_fill(advantage > 0, 1.0)
    return torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * advantage


def trl_sapo(batch: Rows) -> Tensor:
    """`loss_type="sapo"`."""
    ratio = (batch.logp - batch.old).exp()
    return sequence_mean(-soft_gated(ratio, group_scores(batch, epsilon=TRL_EPSILON)), batch)


def trl_vespo(batch: Rows) -> Tensor:
    """`loss_type="vespo"`: token sums over the generation batch, the gamma weight of whole answers detached."""
    advantage = group_scores(batch, epsilon=TRL_EPSILON)
    log_ratio = ((batch.logp - batch.old) * batch.mask).sum(1, keepdim=True).clamp(math.log(1e-8), 20.0).detach()
    power = torch.full_like(advantage, 3.0).masked_fill(advantage >= 0, 2.0)
    decay = torch.full_like(advantage, 2.0).masked_fill(advantage >= 0, 3.0)
    weight = (decay + power * log_ratio - decay * log_ratio.exp()).exp()
    return token_mean(-weight * advantage * batch.logp, batch)


def trl_sequence_mask(batch: Rows, threshold: float = 0.2) -> Tensor:
    """`loss_type="grpo"`, `off_policy_mask_threshold=0.2`."""
    advantage, ratio = group_scores(batch, epsilon=TRL_EPSILON), (batch.logp - batch.old).exp()
    mask = (advantage >= 0) | (-mean_log_ratio(batch).detach() <= threshold)
    return sequence_mean(surrogate(ratio, advantage, 0.2, 0.2) * mask, batch)


def trl_rloo(batch: Rows) -> Tensor:
    """`RLOOTrainer`, beta 0: a clipped ratio of whole answers, the product of their tokens' ratios."""
    ratio = ((batch.logp - batch.old) * batch.mask).sum(1, keepdim=True).exp()
    return surrogate(ratio, leave_one_out(batch), 0.2, 0.2).mean()


def trl_batch_scale(batch: Rows) -> Tensor:
    """`loss_type="grpo"`, `scale_rewards="batch"`: centred by group, over the deviation of all rewards."""
    advantage = group_scores(batch, epsilon=None) / (batch.reward.std() + TRL_EPSILON)
    return sequence_mean(surrogate((batch.logp - batch.old).exp(), advantage, 0.2, 0.2), batch)


def trl_top_entropy(batch: Rows, quantile: float = 0.2) -> Tensor:
    """`loss_type="dapo"`, `epsilon_high=0.28`, `top_entropy_quantile=0.2`, on recorded entropies."""
    least = torch.quantile(batch.entropy[batch.mask > 0], 1 - quantile)
    loss = surrogate((batch.logp - batch.old).exp(), group_scores(batch, epsilon=TRL_EPSILON), 0.2, 0.28)
    return token_mean(loss * (batch.entropy >= least), batch)


NAME = "TRL 1.16"
SMALL = {"credit.epsilon": TRL_EPSILON}
TOKENS = {"objective.aggregate": "token-mean"}

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(f"{NAME}, loss_type grpo", trl_grpo, "grpo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{NAME}, loss_type dapo (its default)", trl_dapo, "grpo", SMALL | TOKENS, "epsilon 1e-4; mean over tokens"
    ),
    PeerComparison(f"{NAME}, loss_type grpo, beta 0.04", trl_kl, "grpo-kl", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{NAME}, loss_type dr_grpo, scale_rewards none", trl_dr_grpo, "dr-grpo", {}, "nothing, at equal lengths L"
    ),
    PeerComparison(f"{NAME}, sequence level", trl_gspo, "gspo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{NAME}, loss_type cispo, epsilon_high 5", trl_cispo, "cispo", SMALL, "epsilon 1e-4; its bound is the cap"
    ),
    PeerComparison(
        f"{NAME}, loss_type grpo, delta 3",
        trl_two_sided,
        "grpo",
        SMALL | {"objective.dual": 3.0},
        "epsilon 1e-4; a cap on large ratios, which matters for negative advantages only",
    ),
    PeerComparison(f"{NAME}, loss_type sapo", trl_sapo, "sapo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{NAME}, off_policy_mask_threshold 0.2", trl_sequence_mask, "grpo-sequence-mask", SMALL, "epsilon 1e-4"
    ),
    PeerComparison(f"{NAME}, loss_type vespo", trl_vespo, "vespo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{NAME}, RLOOTrainer",
        trl_rloo,
        "rloo",
        {"objective": TurnSurrogate(mean="product", dual=None, cap=None)},
        "a clipped ratio of whole answers, the product of their tokens'; the recipe is the plain policy gradient, with "
        "equal gradients on the policy's own samples",
    ),
    PeerComparison(
        f"{NAME}, loss_type grpo, scale_rewards batch",
        trl_batch_scale,
        "grpo",
        {"credit": GroupRelative(scale=None, weigh=(OverRawDeviation(),))},
        "divided by the deviation of all rewards of the batch as they are; epsilon 1e-4",
    ),
    PeerComparison(
        f"{NAME}, loss_type dapo, epsilon_high 0.28, top_entropy_quantile 0.2",
        trl_top_entropy,
        "high-entropy-tokens",
        {"credit.of.epsilon": TRL_EPSILON},
        "epsilon 1e-4; its entropies are the current policy's, the recipe's those before the update",
    ),
)
