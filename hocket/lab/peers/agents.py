"""Credit of turns, players and decisions: IGPO, SPIRAL and IMPALA by their authors, and prime-rl's form of SPIRAL's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.credit.nonzero_credit import CreditedOnly
from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.frameworks import PRIME, PRIME_LOSS, prime_loss
from hocket.lab.peers.padded_batch import Rows, low_variance_kl, surrogate, token_mean
from hocket.objectives.denominators import Aggregated
from hocket.objectives.divergence import KLToReference
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.value import ValueLoss
from hocket.recipes import find


def turn_ends(batch: Rows) -> tuple[Tensor, Tensor]:
    """Where a turn ends that is not the last, and where the answer does; both `[N, L]` bool."""
    shape = batch.mask[:, :1]
    trained = batch.mask > 0
    more = torch.cat([trained[:, 1:], torch.zeros_like(shape).bool()], dim=1)
    after = torch.cat([batch.turn[:, 1:], shape], dim=1)
    return trained & more & (after != batch.turn), trained & ~more


# ---------------------------------------------------------------- IGPO


def standard(values: Tensor, where: Tensor, groups: int) -> Tensor:
    """`(x - mean)/(sqrt(variance + 1e-8) + 1e-6)` over the places of each group, ddof 0; 0 elsewhere, `[N, L]`."""
    scores, size = torch.zeros_like(values), len(values) // groups
    for number in range(groups):
        rows = slice(number * size, (number + 1) * size)
        pool = values[rows][where[rows]]
        if len(pool) == 0:
            continue
        middle = pool.mean()
        deviation = ((pool - middle).square().mean() + 1e-8).sqrt() if len(pool) > 1 else torch.ones_like(middle)
        scores[rows] = torch.where(where[rows], (values[rows] - middle) / (deviation + 1e-6), 0.0)
    return scores


def gained(batch: Rows, *, apart: bool) -> Tensor:
    """What is credited to each token: normalised rewards summed from the end of its turn on, `[N, L]`."""
    between, last = turn_ends(batch)
    gain = torch.cat([batch.belief[:, 1:], batch.belief[:, -1:]], dim=1) - batch.belief
    # A gain of 0 marks no turn: its tokens are credited with the next one.
    between = between & (gain != 0)
    rewards = torch.where(last, batch.reward[:, None], gain)
    if apart:
        marks = standard(rewards, last, batch.groups) + standard(rewards, between, batch.groups)
    else:
        marks = standard(rewards, last | between, batch.groups)
    return marks.flip(1).cumsum(1).flip(1)


def igpo(batch: Rows, *, apart: bool) -> Tensor:
    """The clipped loss at 0.2 and 3 over all tokens, k3 at 1e-3, an entropy bonus of 1e-3."""
    loss = surrogate((batch.logp - batch.old).exp(), gained(batch, apart=apart), 0.2, 0.2, 3.0)
    return token_mean(loss + 1e-3 * low_variance_kl(batch) - 1e-3 * batch.entropy, batch)


def igpo_joint(batch: Rows) -> Tensor:
    """`info_gain_norm_mode=joint`, the default: gains and outcomes in one pool."""
    return igpo(batch, apart=False)


def igpo_separate(batch: Rows) -> Tensor:
    """`info_gain_norm_mode=separate`."""
    return igpo(batch, apart=True)


# ---------------------------------------------------------------- SPIRAL


def role_leads(batch: Rows, decay: float = 0.95) -> Tensor:
    """What a token's player earned in the game less its role's running mean of the games before, from 0, `[N, L]`."""
    lead, baseline = torch.zeros_like(batch.mask), [0.0, 0.0]
    for game in range(len(lead)):
        for role in (0, 1):
            tokens = (batch.turn[game] % 2 == role) & (batch.mask[game] > 0)
            earned = float(batch.paid[game][tokens].sum() + batch.reward[game])
            lead[game][tokens] = earned - baseline[role]
            baseline[role] = decay * baseline[role] + (1 - decay) * earned
    return lead


def spiral(batch: Rows, longest: int = 128) -> Tensor:
    """The release's `train_spiral.py` on Oat: a sum over a turn's tokens, over the limit of a reply; mean over turns.

    Turns without advantage are left out (`filter_zero_adv`), `gamma` is 1.
    """
    lead = role_leads(batch)
    counted = (lead != 0) & (batch.mask > 0)
    turns = sum(len(set(batch.turn[game][counted[game]].tolist())) for game in range(len(lead)))
    loss = surrogate((batch.logp - batch.old).exp(), lead, 0.2, 0.2)
    return (loss * counted).sum() / longest / max(turns, 1)


def prime_rae(batch: Rows) -> Tensor:
    """prime-rl's `rae` at its decay of 0.95, with its default loss."""
    return prime_loss(batch, role_leads(batch))


# ---------------------------------------------------------------- IMPALA


def impala(batch: Rows, gamma: float = 0.99) -> Tensor:
    """scalable_agent's `vtrace.py` and `experiment.py`: sums over the batch, values at 1/4, entropies at 2.5e-4."""
    trained = batch.mask > 0
    ratio = (batch.logp.detach() - batch.old).exp().clamp(max=1.0)
    value = torch.cat([batch.value.detach() * batch.mask, torch.zeros_like(batch.mask[:, :1])], dim=1)
    _, last = turn_ends(batch)
    reward = (batch.paid + last * batch.reward[:, None]).clamp(-1.0, 1.0)
    target = torch.zeros_like(value)
    advantage = torch.zeros_like(batch.mask)
    for place in reversed(range(trained.shape[1])):
        current, ahead = value[:, place], value[:, place + 1]
        weight, on = ratio[:, place], trained[:, place]
        step = weight * (reward[:, place] + gamma * ahead - current)
        corrected = current + step + gamma * weight * (target[:, place + 1] - ahead)
        advantage[:, place] = weight * (reward[:, place] + gamma * target[:, place + 1] - current)
        target[:, place] = torch.where(on, corrected, 0.0)
    error = target[:, :-1] - batch.value
    terms = -advantage * batch.logp + 0.25 * error.square() - 2.5e-4 * batch.entropy
    return (terms * batch.mask).sum()


# ---------------------------------------------------------------- the ledger

IGPO_NAME, SPIRAL_NAME = "IGPO (its authors' code)", "SPIRAL (its authors' code)"
IGPO_LOSS = {
    "objective.aggregate": "token-mean",
    "objective.dual": 3.0,
    "regularisers": (
        KLToReference(coefficient=1e-3, aggregate="token-mean"),
        EntropyBonus(coefficient=1e-3),
    ),
}
IGPO_DIFFERS = (
    "1e-8 added to the variance; mean over tokens; dual clip at 3, which no ratio of these batches reaches; KL and "
    "entropy at 1e-3; a gain of 0 ends no turn there, and here none is 0"
)

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(
        f"{IGPO_NAME}, joint",
        igpo_joint,
        "igpo",
        {"credit": find("igpo-separate").but({"credit.apart": False, "credit.floor": 1e-8}).credit, **IGPO_LOSS},
        IGPO_DIFFERS,
        turns="beliefs",
    ),
    PeerComparison(
        f"{IGPO_NAME}, separate",
        igpo_separate,
        "igpo-separate",
        {"credit.floor": 1e-8, **IGPO_LOSS},
        IGPO_DIFFERS,
        turns="beliefs",
    ),
    PeerComparison(
        SPIRAL_NAME,
        spiral,
        "spiral",
        {
            "correction": CreditedOnly(),
            "objective": Aggregated(of=ClippedSurrogate(), form="turn-constant-length"),
        },
        "a turn is a sample of its own, its sum divided by the limit L of a reply; clipped at 0.2, over two epochs; "
        "turns without advantage are left out; a player who never moved moves its role's baseline there",
        turns="rewards",
    ),
    PeerComparison(
        f"{PRIME}, rae",
        prime_rae,
        "spiral",
        PRIME_LOSS,
        "its default loss: a mask in probability, 1e-3 (log r)^2, mean over the tokens that have an advantage; "
        "baselines by environment and player",
        turns="rewards",
    ),
    PeerComparison(
        "scalable_agent (IMPALA's authors), its default",
        impala,
        "impala",
        {
            "objective": Aggregated(of=PolicyGradient(), form="token-sum"),
            "regularisers": (
                Aggregated(of=ValueLoss(coefficient=0.25), form="token-sum"),
                Aggregated(of=EntropyBonus(coefficient=2.5e-4), form="token-sum"),
            ),
        },
        "sums over the batch; value errors at 1/4 and entropies at 2.5e-4; rewards are cut to [-1, 1], which none of "
        "these pass",
        turns="rewards",
    ),
)
