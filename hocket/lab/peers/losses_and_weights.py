"""Losses and weights beside the common ones: prime-rl's ipo, Trinity's truncated REC, TRL's TPO and A*-PO, verl's
PF-PPO, torchrl's KL-penalty PPO, and normalised values of MAPPO's and HAPPO's authors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.keys import Key
from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import Rows, group_scores, surrogate, token_mean


def prime_ipo(batch: Rows, threshold: float = 0.1, tau: float = 1e-3) -> Tensor:
    """prime-rl's `ipo` loss: `ipo_threshold` 0.1, `kl_tau` 1e-3, over the tokens with an advantage."""
    rewards = batch.by_group()
    constant = rewards.amax(1, keepdim=True) == rewards.amin(1, keepdim=True)
    advantage = torch.where(constant, 0.0, rewards - rewards.mean(1, keepdim=True)).reshape(-1, 1)
    log_ratio = batch.logp - batch.old
    inside = (batch.logp.detach().exp() - batch.old.exp()).abs() <= threshold
    loss = -(inside * advantage * log_ratio.exp()) + tau * log_ratio.square()
    counted = batch.mask * (advantage != 0)
    return (loss * counted).sum() / counted.sum().clamp(min=1)


def trinity_truncated(batch: Rows, low: float = 0.6, high: float = 2.0) -> Tensor:
    """Trinity-RFT's `rec`, `weight=truncated_importance_sampling`, no clip; rewards are centred alone."""
    weight = (batch.logp - batch.old).exp().detach().clamp(1 - low, 1 + high)
    return token_mean(-group_scores(batch, epsilon=None) * weight * batch.logp, batch)


def triples(batch: Rows) -> tuple[list[tuple[int, int]], list[int]]:
    """The best and the worst answer of each group but for its last, where one is better; and the last, gold ones."""
    rewards = batch.by_group()
    size, pairs = rewards.shape[1], []
    for group, row in enumerate(rewards[:, :-1].tolist()):
        if max(row) > min(row):
            pairs.append((group * size + row.index(max(row)), group * size + row.index(min(row))))
    return pairs, [group * size + size - 1 for group in range(batch.groups)]


def trl_tpo(batch: Rows, *, beta: float = 0.01, alpha: float = 1.0, gamma: float | None = None) -> Tensor:
    """TPOTrainer, `sigmoid`, or with `gamma` (`tpo_l_gamma`) `tpo-l`; `tpo_alpha` times the gold answers' NLL."""
    pairs, gold = triples(batch)
    score = (batch.logp * batch.mask).sum(1)
    if gamma is not None:
        score = score / batch.mask.sum(1)
    shift = 0.0 if gamma is None else gamma / beta
    losses = [-logsigmoid(beta * (score[chosen] - score[rejected] - shift)) for chosen, rejected in pairs]
    contrast = torch.stack(losses).mean() if losses else 0.0 * score.sum()
    return contrast - alpha * (batch.logp * batch.mask)[gold].sum() / batch.mask[gold].sum()


def trl_tpo_l(batch: Rows) -> Tensor:
    """TPOTrainer, `loss_type=tpo-l`."""
    return trl_tpo(batch, gamma=0.5)


def trl_a2po(batch: Rows, beta1: float = 0.5, beta2: float = 1e-3) -> Tensor:
    """A2POTrainer on the first two answers of each prompt; the last two are the reference's, which measure V*.

    With `filter_all_incorrect`, its default: prompts whose reference answers earned nothing are dropped.
    """
    rewards = batch.by_group()
    errors = []
    for group, row in enumerate(rewards):
        if float(row[-2:].sum()) == 0:
            continue
        optimal = beta1 * (row[-2:] / beta1).exp().mean().log()
        for member in range(2):
            place = group * len(row) + member
            implicit = beta2 * ((batch.logp - batch.reference)[place] * batch.mask[place]).sum()
            errors.append((implicit - (row[member] - optimal)).square())
    return torch.stack(errors).mean() if errors else 0.0 * batch.logp.sum()


def advantages(batch: Rows, values: Tensor, *, lam: float = 0.95) -> tuple[Tensor, Tensor]:
    """GAE without discount of rewards at the end, and the targets, both `[N, L]`, 0 at padding; not whitened."""
    advantage = torch.zeros_like(values)
    for row in range(len(values)):
        length, ahead, running = int(batch.mask[row].sum()), 0.0, 0.0
        for place in reversed(range(length)):
            reward = float(batch.reward[row]) if place == length - 1 else 0.0
            running = reward + ahead - float(values[row, place]) + lam * running
            advantage[row, place], ahead = running, float(values[row, place])
    return advantage, (advantage + values) * batch.mask


def whitened(values: Tensor, batch: Rows, *, ddof: int, epsilon: float) -> Tensor:
    """Over all tokens."""
    used = values[batch.mask > 0]
    spread = used.var(correction=ddof).sqrt() if len(used) > ddof else torch.zeros(())
    return (values - used.mean()) / (spread + epsilon) * batch.mask


def verl_pf_ppo(batch: Rows, power: float = 2.0) -> Tensor:
    """verl's `compute_pf_ppo_reweight_data` with `pow`, then its clipped loss and half the squared error of values.

    The draws are those of the recipe's first step; what is compared is what is made of them.
    """
    advantage, target = advantages(batch, batch.value.detach())
    advantage = whitened(advantage, batch, ddof=1, epsilon=1e-8)
    chance = (batch.reward.abs() ** power + 1e-8).clamp(min=1e-8).numpy()
    generator = Key.of(0).derive("pf-ppo", 1).numpy()
    rows = generator.choice(len(chance), size=len(chance), p=chance / chance.sum())
    loss = surrogate((batch.logp - batch.old).exp(), advantage, 0.2, 0.2) + 0.5 * (batch.value - target).square()
    return (loss * batch.mask)[rows].sum() / batch.mask[rows].sum()


def torchrl_kl_penalty(batch: Rows, beta: float = 1.0) -> Tensor:
    """KLPENPPOLoss, `beta` 1, `loss_critic_type=l2`, `critic_coeff` 1/2, no entropy; the KL from recorded actions."""
    advantage, target = advantages(batch, batch.value.detach())
    gain = (batch.logp - batch.old).exp() * advantage - beta * (batch.old - batch.logp)
    return token_mean(-gain + 0.5 * (target - batch.value).square(), batch)


def author_mappo(batch: Rows) -> Tensor:
    """The `on-policy` code: ValueNorm at its start, Huber's loss at 10, clipped values, coefficient 1, entropy 0.01.

    Its `gamma` is 1 here; one update, so that statistics are renewed once.
    """
    deviation = 0.01**0.5  # Of a ValueNorm that knows nothing.
    advantage, target = advantages(batch, batch.value.detach() * deviation)
    advantage = whitened(advantage, batch, ddof=0, epsilon=1e-5)
    used = target[batch.mask > 0]
    mean, variance = used.mean(), (used.square().mean() - used.mean() ** 2).clamp(min=1e-2)
    aim = (target - mean) / variance.sqrt()
    old = batch.value.detach()
    near = old + (batch.value - old).clamp(-0.2, 0.2)

    def huber(error: Tensor) -> Tensor:
        small = error.abs() <= 10.0
        return small * error.square() / 2 + ~small * 10.0 * (error.abs() - 5.0)

    values = torch.maximum(huber(aim - batch.value), huber(aim - near))
    loss = surrogate((batch.logp - batch.old).exp(), advantage, 0.2, 0.2)
    return token_mean(loss + values - 0.01 * batch.entropy, batch)


WHITENED = {"credit.of.ddof": 0, "credit.of.epsilon": 1e-5}

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison("prime-rl, ipo", prime_ipo, "prime-ipo", {}, "equal as shipped"),
    PeerComparison(
        "Trinity-RFT, rec, truncated_importance_sampling", trinity_truncated, "rec-truncated", {}, "equal as shipped"
    ),
    PeerComparison("TRL 1.16, TPOTrainer", trl_tpo, "tpo", {}, "equal as shipped", last=("expert", 1)),
    PeerComparison(
        "TRL 1.16, TPOTrainer, loss_type tpo-l", trl_tpo_l, "tpo-l", {}, "equal as shipped", last=("expert", 1)
    ),
    PeerComparison(
        "TRL 1.16, A2POTrainer",
        trl_a2po,
        "a-star-po",
        {},
        "equal as shipped, at given answers of the reference; there all values are measured before training, here each "
        "at its prompt's first visit",
        last=("baseline", 2),
    ),
    PeerComparison(
        "verl 0.9, PF-PPO, pow",
        verl_pf_ppo,
        "pf-ppo",
        {},
        "equal as shipped, at the same draws; values are not clipped",
    ),
    PeerComparison(
        "torchrl, KLPENPPOLoss",
        torchrl_kl_penalty,
        "ppo-kl-penalty",
        {"credit.whiten": False},
        "advantages are not whitened unless normalize_advantage is set; the KL has a closed form there, where the "
        "distribution has; half the squared error of values and no entropy",
    ),
    PeerComparison(
        "on-policy (MAPPO's authors), ValueNorm and Huber's loss",
        author_mappo,
        "mappo-value-norm",
        WHITENED,
        "advantages are whitened with ddof 0 and 1e-5; at the first update, since there statistics are renewed at "
        "every mini-batch; at gamma 1",
    ),
)
