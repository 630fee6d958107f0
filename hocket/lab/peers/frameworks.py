"""NeMo-RL, slime, SkyRL, AReaL, prime-rl, tunix and Trinity-RFT, in the middle of 2026."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.credit.deviations import OverOthersDeviation
from hocket.credit.group import GroupRelative
from hocket.credit.kept_denominators import BoundedImportance
from hocket.credit.nonzero_credit import CreditedOnly
from hocket.credit.whitening import WhitenedTokens
from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import Rows, group_scores, mean_log_ratio, sequence_mean, surrogate, token_mean
from hocket.lab.peers.trl import TOKENS
from hocket.objectives.denominators import Aggregated
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipes import find


def others_scores(batch: Rows) -> Tensor:
    """Rewards minus the mean of the group's others, over their deviation plus 1e-6 where that is above 0, `[N, 1]`."""
    rewards = batch.by_group()
    count = rewards.shape[1] - 1
    mean = (rewards.sum(1, keepdim=True) - rewards) / count
    square = (rewards.square().sum(1, keepdim=True) - rewards.square()) / count
    deviation = ((square - mean.square()).clamp(min=0) * count / (count - 1)).sqrt()
    # What rounding leaves of equal rewards is no deviation.
    deviation = torch.where(deviation < 1e-7, 0.0, deviation)
    return torch.where(deviation > 0, (rewards - mean) / (deviation + 1e-6), rewards - mean).reshape(-1, 1)


def nemo_grpo(batch: Rows) -> Tensor:
    """NeMo-RL's default: `use_leave_one_out_baseline`, `normalize_rewards`, `token_level_loss`."""
    return token_mean(surrogate((batch.logp - batch.old).exp(), others_scores(batch), 0.2, 0.2), batch)


def nemo_reinforce_plus_plus(batch: Rows) -> Tensor:
    """NeMo-RL's `reinforce_plus_plus` with `minus_baseline`: whitened over tokens, the variance at least 1e-8."""
    advantage = group_scores(batch, epsilon=None).expand_as(batch.mask)
    mean = token_mean(advantage, batch)
    spread = token_mean((advantage - mean).square(), batch).clamp(min=1e-8).sqrt()
    return token_mean(surrogate((batch.logp - batch.old).exp(), (advantage - mean) / spread, 0.2, 0.2), batch)


def icepop(batch: Rows) -> tuple[Tensor, Tensor]:
    """A clipped loss against the learner's own log-probs, and IcePop's weight of its ratio to the sampler."""
    loss = surrogate((batch.logp - batch.proximal).exp(), group_scores(batch, epsilon=1e-6), 0.2, 0.2)
    ratio = (batch.proximal - batch.old).exp()
    return loss, ratio * ((ratio >= ICEPOP[0]) & (ratio <= ICEPOP[1]))


ICEPOP = 0.8, 1.25
"""A narrow band, so that ratios of the batches compared lie on both sides."""


def nemo_icepop(batch: Rows) -> Tensor:
    """NeMo-RL, `truncated_importance_sampling_type=icepop` from 0.8 to 1.25, without the leave-one-out baseline."""
    loss, weight = icepop(batch)
    return token_mean(loss * weight, batch)


def slime_icepop(batch: Rows) -> Tensor:
    """slime's `icepop_function`, `tis_clip_low=0.8`, `tis_clip=1.25`: over all tokens of an answer, then answers."""
    loss, weight = icepop(batch)
    return sequence_mean(loss * weight, batch)


def slime_tis(batch: Rows) -> Tensor:
    """slime's `vanilla_tis_function`, `tis_clip_low=0.9`, `tis_clip=1.1`."""
    loss = surrogate((batch.logp - batch.proximal).exp(), group_scores(batch, epsilon=1e-6), 0.2, 0.2)
    return sequence_mean(loss * (batch.proximal - batch.old).exp().clamp(0.9, 1.1), batch)


def slime_sequence_mask(batch: Rows, delta: float = 0.1) -> Tensor:
    """slime's off-policy sequence masking, `opsm_delta=0.1`."""
    advantage = group_scores(batch, epsilon=1e-6)
    mask = ~((advantage < 0) & (-mean_log_ratio(batch).detach() > delta))
    return sequence_mean(surrogate((batch.logp - batch.old).exp(), advantage, 0.2, 0.2) * mask, batch)


def skyrl_dual_clip(batch: Rows) -> Tensor:
    """SkyRL, `dual_clip` at 3, `loss_reduction=prompt_mean`: over a prompt's tokens, then over prompts."""
    loss = surrogate((batch.logp - batch.old).exp(), group_scores(batch, epsilon=1e-6), 0.2, 0.2, 3.0)
    sums = (loss * batch.mask).sum(1).view(batch.groups, -1).sum(1)
    return (sums / batch.mask.sum(1).view(batch.groups, -1).sum(1)).mean()


def skyrl_dppo_kl(batch: Rows, limit: float = 0.01) -> Tensor:
    """SkyRL's `dppo`, `binary_kl` with `delta_low` and `delta_high` 0.01, `token_mean`."""
    advantage = group_scores(batch, epsilon=1e-6).expand_as(batch.mask)
    new_probs, before = batch.logp.detach().exp(), batch.old.exp()
    far = (
        before * (batch.old - batch.logp.detach()) + (1 - before) * ((1 - before + 1e-8) / (1 - new_probs + 1e-8)).log()
    )
    risen = (advantage > 0) & (new_probs > before) & (far > limit)
    fallen = (advantage < 0) & (new_probs < before) & (far > limit)
    return token_mean(-(batch.logp - batch.old).exp() * advantage * ~(risen | fallen), batch)


def skyrl_maxrl(batch: Rows) -> Tensor:
    """SkyRL's `maxrl`: rewards minus their group's mean, over that mean plus 1e-6; `token_mean`."""
    mean = batch.by_group().mean(1, keepdim=True)
    advantage = ((batch.by_group() - mean) / (mean + 1e-6)).reshape(-1, 1)
    return token_mean(surrogate((batch.logp - batch.old).exp(), advantage, 0.2, 0.2), batch)


def trinity_ring(batch: Rows) -> Tensor:
    """Trinity-RFT's `rec`, `clip_mode=ring`, bounds 0.2, 0.2, 0.6 and 2, no weight; rewards are centred alone."""
    advantage = group_scores(batch, epsilon=None).expand_as(batch.mask)
    ratio = (batch.logp - batch.old).exp().detach()
    near = (ratio >= 0.8) & (ratio <= 1.2)
    mask = near | ((advantage >= 0) & (ratio <= 0.4)) | ((advantage <= 0) & (ratio >= 3))
    return token_mean(-advantage * batch.logp * mask, batch)


def trinity_sequence(batch: Rows) -> Tensor:
    """Trinity-RFT's `rec`, `clip_mode=gspo-one-side`, `weight=gspo_importance_sampling`: by answers, then over them."""
    advantage = group_scores(batch, epsilon=None)
    ratio = mean_log_ratio(batch).detach().exp()
    mask = ((ratio <= 1.2) & (advantage >= 0)) | ((ratio >= 0.8) & (advantage <= 0))
    return sequence_mean(-advantage * ratio * batch.logp * mask, batch)


def areal_m2po(batch: Rows, threshold: float = 0.04) -> Tensor:
    """AReaL, `m2_threshold=0.04`, `use_decoupled_loss`, in the first update after log-probs were computed anew.

    With `rejection_sampling`, without which its newer versions leave `weight` out.
    """
    where = batch.mask > 0
    squares = (batch.logp - batch.old).detach()[where].square()
    order = squares.argsort(descending=True)
    gone = 0
    while gone < len(order) - 1 and float(squares[order[gone:]].mean()) >= threshold:
        gone += 1
    mask = torch.ones_like(squares)
    mask[order[:gone]] = 0.0
    share = torch.zeros_like(batch.mask)
    share[where] = mask
    weight = (batch.logp.detach() - batch.old).exp()
    loss = -group_scores(batch, epsilon=1e-6) * (batch.logp - batch.logp.detach()).exp() * weight
    return (loss * share).sum() / share.sum()


def prime_loss(batch: Rows, advantage: Tensor) -> Tensor:
    """prime-rl's default loss of an advantage: `dppo_mask_low` and `dppo_mask_high` 0.2, `kl_tau` 1e-3.

    Over the tokens with an advantage (`filter_zero_advantages`).
    """
    advantage = advantage.expand_as(batch.mask)
    moved = batch.logp.detach().exp() - batch.old.exp()
    masked = torch.where(advantage > 0, moved > 0.2, moved < -0.2)
    log_ratio = batch.logp - batch.old
    loss = -(log_ratio.exp() * advantage * ~masked) + 1e-3 * log_ratio.square()
    counted = batch.mask * (advantage != 0)
    return (loss * counted).sum() / counted.sum().clamp(min=1)


def prime_rl(batch: Rows) -> Tensor:
    """prime-rl's default: rewards are centred alone."""
    rewards = batch.by_group()
    # What rounding leaves of equal rewards is no advantage.
    constant = rewards.amax(1, keepdim=True) == rewards.amin(1, keepdim=True)
    centred = torch.where(constant, 0.0, rewards - rewards.mean(1, keepdim=True))
    return prime_loss(batch, centred.reshape(-1, 1))


def prime_maxrl(batch: Rows) -> Tensor:
    """prime-rl's `max_rl`: centred rewards over their group's mean, 0 where that is 0 or less."""
    rewards = batch.by_group()
    mean = rewards.mean(1, keepdim=True)
    return prime_loss(batch, torch.where(mean > 0, (rewards - mean) / mean, 0.0).reshape(-1, 1))


def tunix_grpo(batch: Rows, beta: float = 0.04) -> Tensor:
    """tunix's default: `sequence-mean-token-mean`, epsilon 1e-6, `kl_loss_mode=kl`, which is k1 in the loss."""
    loss = surrogate((batch.logp - batch.old).exp(), group_scores(batch, epsilon=1e-6), 0.2, 0.2)
    return sequence_mean(loss + beta * (batch.logp - batch.reference), batch)


NEMO, SLIME, SKYRL, AREAL, PRIME, TUNIX = "NeMo-RL", "slime", "SkyRL", "AReaL", "prime-rl", "tunix"
TRINITY = "Trinity-RFT"
BAND = {"correction.of.low": ICEPOP[0], "correction.of.high": ICEPOP[1]}
PRIME_LOSS = {
    "correction": CreditedOnly(),
    "objective": find("divergence-ppo").objective,
    "regularisers": (LogRatioPenalty(coefficient=1e-3, level="decision"),),
}
OTHERS = GroupRelative(scale=None, leave_one_out=True, weigh=(OverOthersDeviation(),))

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(
        f"{NEMO}, its default",
        nemo_grpo,
        "grpo",
        TOKENS | {"credit": OTHERS},
        "mean and deviation both leave the sample out, and nothing is divided where the others agree; mean over tokens",
    ),
    PeerComparison(
        f"{NEMO}, reinforce_plus_plus with minus_baseline",
        nemo_reinforce_plus_plus,
        "reinforce++-baseline",
        {"credit": WhitenedTokens(of=GroupRelative(scale=None), ddof=0, epsilon=0.0), "regularisers": ()},
        "whitened over tokens, ddof 0; no KL in the loss",
    ),
    PeerComparison(
        f"{NEMO}, icepop from 0.8 to 1.25",
        nemo_icepop,
        "icepop",
        TOKENS | BAND,
        "mean over tokens; without its leave-one-out default",
        proximal=True,
    ),
    PeerComparison(f"{SLIME}, icepop from 0.8 to 1.25", slime_icepop, "icepop", BAND, "the band", proximal=True),
    PeerComparison(
        f"{SLIME}, TIS from 0.9 to 1.1",
        slime_tis,
        "grpo-tis",
        {"correction": BoundedImportance(floor=0.9, cap=1.1)},
        "the bounds: the recipe's are 0 and 2, slime's defaults too",
        proximal=True,
    ),
    PeerComparison(
        f"{SLIME}, opsm_delta 0.1",
        slime_sequence_mask,
        "grpo-sequence-mask",
        {"objective.threshold": 0.1},
        "the threshold",
    ),
    PeerComparison(
        f"{SKYRL}, dual_clip, prompt_mean",
        skyrl_dual_clip,
        "grpo",
        {"objective": Aggregated(of=ClippedSurrogate(dual=3.0), form="prompt-mean")},
        "mean over a prompt's tokens, then over prompts; dual clip at 3",
    ),
    PeerComparison(
        f"{SKYRL}, dppo, binary_kl at 0.01",
        skyrl_dppo_kl,
        "divergence-ppo-kl",
        {"objective.low": 0.01, "objective.high": 0.01},
        "the thresholds",
    ),
    PeerComparison(f"{SKYRL}, maxrl", skyrl_maxrl, "maxrl", TOKENS, "mean over tokens"),
    PeerComparison(
        f"{AREAL}, m2_threshold 0.04 and rejection_sampling, first update",
        areal_m2po,
        "m2po",
        {"objective.counted": False},
        "masked tokens leave the denominator; later updates keep the first one's mask; without rejection_sampling "
        "nothing is multiplied by the ratio to the policy that sampled, and the loss is another",
    ),
    PeerComparison(
        f"{PRIME}, its default",
        prime_rl,
        "divergence-ppo",
        {
            "credit.scale": None,
            "correction": CreditedOnly(),
            "regularisers": (LogRatioPenalty(coefficient=1e-3, level="decision"),),
        },
        "no deviation is divided by; 1e-3 (log r)^2; tokens without advantage are left out",
    ),
    PeerComparison(
        f"{PRIME}, max_rl",
        prime_maxrl,
        "maxrl",
        {"credit.epsilon": 0.0, **PRIME_LOSS},
        "no epsilon; its default loss: a mask in probability, 1e-3 (log r)^2, mean over the tokens that have an "
        "advantage",
    ),
    PeerComparison(
        f"{TUNIX}, its default, beta 0.04",
        tunix_grpo,
        "grpo-kl",
        {"regularisers.0.estimator": "k1"},
        "its KL is k1, whose expected gradient is 0 on the policy's own samples",
    ),
    PeerComparison(f"{TRINITY}, rec, ring", trinity_ring, "rec-ring", {}, "equal as shipped"),
    PeerComparison(
        f"{TRINITY}, rec, gspo-one-side",
        trinity_sequence,
        "rec-one-side-sequence",
        {"objective.aggregate": "sequence-mean"},
        "mean over an answer's tokens, then over answers",
    ),
)
