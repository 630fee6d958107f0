"""The losses of public implementations, on padded arrays in float64, to be compared with recipes.

Each is written here from what the named release computes, with its own conventions: what it divides by, where it adds
an epsilon, what it clips. `LEDGER` says which recipe it corresponds to, and which settings make the two agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipe import Recipe
from hocket.recipes import find


@dataclass(frozen=True)
class Padded:
    """A batch as most codebases hold it: N answers side by side, padded to the longest.

    Attributes:
        logp, old, reference: `[N, L]`, 0 at padding; `logp` is differentiable.
        mask: `[N, L]`, 1 at tokens. reward: `[N]`. groups: `[N]`, each group's members adjacent, all of one size.
    """

    logp: Tensor
    old: Tensor
    reference: Tensor
    mask: Tensor
    reward: Tensor
    groups: int

    @staticmethod
    def of(document: Mapping[str, Any]) -> Padded:
        """From a microscope document whose groups are adjacent and of one size."""
        rows = document["trajectories"]
        longest = max(len(row["logp"]) for row in rows)

        def column(name: str) -> Tensor:
            return torch.tensor(
                [[*row[name], *[0.0] * (longest - len(row[name]))] for row in rows], dtype=torch.float64
            )

        mask = torch.tensor([[1.0] * len(r["logp"]) + [0.0] * (longest - len(r["logp"])) for r in rows]).double()
        reward = torch.tensor([float(row["scores"]["reward"]) for row in rows], dtype=torch.float64)
        groups = len({row["group"] for row in rows})
        return Padded(
            column("logp").requires_grad_(), column("logp_behaviour"), column("logp_ref"), mask, reward, groups
        )

    def by_group(self) -> Tensor:
        """Rewards `[groups, samples]`."""
        return self.reward.view(self.groups, -1)


Loss = Callable[[Padded], Tensor]

# ---------------------------------------------------------------- pieces


def group_scores(batch: Padded, *, epsilon: float | None) -> Tensor:
    """Rewards minus their group's mean, over its sample deviation (`torch.std`) plus epsilon; None: over 1."""
    rewards = batch.by_group()
    centred = rewards - rewards.mean(1, keepdim=True)
    if epsilon is not None:
        centred = centred / (rewards.std(1, keepdim=True) + epsilon)
    return centred.reshape(-1, 1)


def leave_one_out(batch: Padded) -> Tensor:
    """Rewards minus the mean of the group's others, `[N, 1]`."""
    rewards = batch.by_group()
    return (rewards - (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)).reshape(-1, 1)


def surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """PPO's clipped loss per token; with `dual` never above `-dual * advantage` where the advantage is negative."""
    loss = torch.maximum(-ratio * advantage, -ratio.clamp(1 - low, 1 + high) * advantage)
    return loss if dual is None else torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)


def token_mean(loss: Tensor, batch: Padded) -> Tensor:
    """Over all tokens of the batch."""
    return (loss * batch.mask).sum() / batch.mask.sum()


def sequence_mean(loss: Tensor, batch: Padded) -> Tensor:
    """Over an answer's tokens, then over answers."""
    return ((loss * batch.mask).sum(1) / batch.mask.sum(1)).mean()


def mean_log_ratio(batch: Padded) -> Tensor:
    """The mean log-ratio of an answer's tokens, `[N, 1]`."""
    return (((batch.logp - batch.old) * batch.mask).sum(1) / batch.mask.sum(1))[:, None]


# ---------------------------------------------------------------- TRL 1.16: GRPOTrainer, RLOOTrainer


TRL_EPSILON = 1e-4


def trl_grpo(batch: Padded) -> Tensor:
    """`loss_type="grpo"`, `scale_rewards="group"`, beta 0."""
    ratio = (batch.logp - batch.old).exp()
    return sequence_mean(surrogate(ratio, group_scores(batch, epsilon=TRL_EPSILON), 0.2, 0.2), batch)


def trl_dapo(batch: Padded) -> Tensor:
    """`loss_type="dapo"`, the default: the same, over all tokens of the generation batch."""
    ratio = (batch.logp - batch.old).exp()
    return token_mean(surrogate(ratio, group_scores(batch, epsilon=TRL_EPSILON), 0.2, 0.2), batch)


def trl_dr_grpo(batch: Padded, longest: int = 128) -> Tensor:
    """`loss_type="dr_grpo"`, `scale_rewards="none"`, `max_completion_length` 128."""
    ratio = (batch.logp - batch.old).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=None), 0.2, 0.2)
    return (loss * batch.mask).sum() / (len(loss) * longest)


def trl_gspo(batch: Padded) -> Tensor:
    """`importance_sampling_level="sequence"`, `loss_type="grpo"`, `epsilon=3e-4`, `epsilon_high=4e-4`."""
    ratio = mean_log_ratio(batch).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=TRL_EPSILON), 3e-4, 4e-4)
    return sequence_mean(loss.expand_as(batch.logp), batch)


def trl_cispo(batch: Padded, cap: float = 5.0) -> Tensor:
    """`loss_type="cispo"`, `epsilon_high=5.0`, which here is the cap itself and not its distance from 1."""
    weight = (batch.logp - batch.old).exp().clamp(max=cap).detach()
    return token_mean(-weight * group_scores(batch, epsilon=TRL_EPSILON) * batch.logp, batch)


def trl_kl(batch: Padded, beta: float = 0.04) -> Tensor:
    """`loss_type="grpo"`, `beta=0.04`: k3 in the loss."""
    gap = batch.reference - batch.logp
    return trl_grpo(batch) + beta * sequence_mean(gap.exp() - gap - 1, batch)


def trl_two_sided(batch: Padded, delta: float = 3.0) -> Tensor:
    """`loss_type="grpo"`, `delta=3`: the unclipped ratio is capped for either sign."""
    ratio, advantage = (batch.logp - batch.old).exp(), group_scores(batch, epsilon=TRL_EPSILON)
    loss = -torch.minimum(ratio.clamp(max=delta) * advantage, ratio.clamp(0.8, 1.2) * advantage)
    return sequence_mean(loss, batch)


def soft_gated(ratio: Tensor, advantage: Tensor) -> Tensor:
    """SAPO's objective per token, with temperatures 1 and 1.05."""
    temperature = torch.full_like(advantage, 1.05).masked_fill(advantage > 0, 1.0)
    return torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * advantage


def trl_sapo(batch: Padded) -> Tensor:
    """`loss_type="sapo"`."""
    ratio = (batch.logp - batch.old).exp()
    return sequence_mean(-soft_gated(ratio, group_scores(batch, epsilon=TRL_EPSILON)), batch)


def trl_vespo(batch: Padded) -> Tensor:
    """`loss_type="vespo"`: token sums over the generation batch, the gamma weight of whole answers detached."""
    advantage = group_scores(batch, epsilon=TRL_EPSILON)
    whole = ((batch.logp - batch.old) * batch.mask).sum(1, keepdim=True).clamp(math.log(1e-8), 20.0).detach()
    power = torch.full_like(advantage, 3.0).masked_fill(advantage >= 0, 2.0)
    decay = torch.full_like(advantage, 2.0).masked_fill(advantage >= 0, 3.0)
    weight = (decay + power * whole - decay * whole.exp()).exp()
    return token_mean(-weight * advantage * batch.logp, batch)


def trl_sequence_mask(batch: Padded, threshold: float = 0.2) -> Tensor:
    """`loss_type="grpo"`, `off_policy_mask_threshold=0.2`."""
    advantage, ratio = group_scores(batch, epsilon=TRL_EPSILON), (batch.logp - batch.old).exp()
    kept = (advantage >= 0) | (-mean_log_ratio(batch).detach() <= threshold)
    return sequence_mean(surrogate(ratio, advantage, 0.2, 0.2) * kept, batch)


def trl_rloo(batch: Padded) -> Tensor:
    """`RLOOTrainer`, beta 0: a clipped ratio of whole answers, the product of their tokens' ratios."""
    ratio = ((batch.logp - batch.old) * batch.mask).sum(1, keepdim=True).exp()
    return surrogate(ratio, leave_one_out(batch), 0.2, 0.2).mean()


# ---------------------------------------------------------------- verl: core_algos.py, version of October 2025


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


# ---------------------------------------------------------------- others


def openrlhf_group_norm(batch: Padded) -> Tensor:
    """OpenRLHF 0.8: `group_norm`, `PolicyLoss` over all tokens, epsilon 1e-9."""
    ratio = (batch.logp - batch.old).exp()
    return token_mean(surrogate(ratio, group_scores(batch, epsilon=1e-9), 0.2, 0.2), batch)


def oat_dr_grpo(batch: Padded, longest: int = 128) -> Tensor:
    """The Dr. GRPO authors' `train_zero_math.py`: token sums over the generation limit, mean over answers."""
    ratio = (batch.logp - batch.old).exp()
    loss = surrogate(ratio, group_scores(batch, epsilon=None), 0.2, 0.2)
    return ((loss * batch.mask).sum(1) / longest).mean()


# ---------------------------------------------------------------- the ledger


@dataclass(frozen=True)
class PeerComparison:
    """One implementation beside one recipe.

    Attributes:
        name: package, version and settings. loss: what it computes. recipe: the one it corresponds to.
        changes: settings of the recipe with which both agree, value and gradient; None when nothing makes them.
        differs: what separates it from the recipe as shipped, in words.
        gradient_only: their values differ even then, their gradients do not.
        on_policy_only: they agree only where the policy has not moved since sampling.
    """

    name: str
    loss: Loss
    recipe: str
    changes: Mapping[str, Any] | None
    differs: str
    gradient_only: bool = False
    on_policy_only: bool = False

    def settled(self) -> Recipe:
        """The recipe with the changes."""
        return find(self.recipe).but(dict(self.changes or {}))


TRL, VERL, VERL_9 = "TRL 1.16", "verl (Oct 2025)", "verl 0.9"
SMALL = {"credit.epsilon": TRL_EPSILON}
TOKENS = {"objective.aggregate": "token-mean"}

LEDGER: Sequence[PeerComparison] = (
    PeerComparison(f"{TRL}, loss_type grpo", trl_grpo, "grpo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{TRL}, loss_type dapo (its default)", trl_dapo, "grpo", SMALL | TOKENS, "epsilon 1e-4; mean over tokens"
    ),
    PeerComparison(f"{TRL}, loss_type grpo, beta 0.04", trl_kl, "grpo-kl", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{TRL}, loss_type dr_grpo, scale_rewards none", trl_dr_grpo, "dr-grpo", {}, "nothing, at equal lengths L"
    ),
    PeerComparison(f"{TRL}, sequence level", trl_gspo, "gspo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{TRL}, loss_type cispo, epsilon_high 5", trl_cispo, "cispo", SMALL, "epsilon 1e-4; its bound is the cap"
    ),
    PeerComparison(
        f"{TRL}, loss_type grpo, delta 3",
        trl_two_sided,
        "grpo",
        SMALL | {"objective.dual": 3.0},
        "epsilon 1e-4; a cap on large ratios, which matters for negative advantages only",
    ),
    PeerComparison(f"{TRL}, loss_type sapo", trl_sapo, "sapo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{TRL}, off_policy_mask_threshold 0.2", trl_sequence_mask, "grpo-sequence-mask", SMALL, "epsilon 1e-4"
    ),
    PeerComparison(f"{TRL}, loss_type vespo", trl_vespo, "vespo", SMALL, "epsilon 1e-4"),
    PeerComparison(
        f"{TRL}, RLOOTrainer",
        trl_rloo,
        "rloo",
        {},
        "a clipped ratio of whole answers; the recipe is the plain policy gradient",
        gradient_only=True,
        on_policy_only=True,
    ),
    PeerComparison(
        f"{VERL}, grpo",
        verl_grpo,
        "grpo",
        TOKENS | {"objective.dual": 3.0},
        "mean over tokens; dual clip at 3; log-ratios cut at 20; a group of one keeps its reward as advantage",
    ),
    PeerComparison(
        f"{VERL}, grpo without deviation, seq-mean-token-sum-norm",
        verl_dr_grpo,
        "dr-grpo",
        None,
        "not divided by the number of answers; divided by the batch's own width; dual clip at 3",
    ),
    PeerComparison(
        f"{VERL}, rloo",
        verl_rloo,
        "grpo",
        TOKENS | {"credit.scale": None, "credit.leave_one_out": True, "objective.dual": 3.0},
        "PPO's clipped loss over tokens, so it is grpo with a leave-one-out mean, and not rloo's policy gradient",
    ),
    PeerComparison(f"{VERL}, gspo", verl_gspo, "gspo-token", {}, "log-ratios cut at 10"),
    PeerComparison(
        f"{VERL}, gpg",
        verl_gpg,
        "gpg",
        None,
        "scaled by batch size over the count of non-zero rewards; the authors' code by that of valid groups",
    ),
    PeerComparison(f"{VERL_9}, sapo", verl_sapo, "sapo", {}, "log-ratios cut at 20"),
    PeerComparison(f"{VERL_9}, opo", verl_opo, "opo", {}, "dual clip at 3, which no ratio of these batches reaches"),
    PeerComparison(
        f"{VERL_9}, grpo_passk",
        verl_pass_at_k,
        "grpo-pass-at-k",
        {"credit.scale": "std", "objective.dual": 3.0},
        "divided by the deviation, epsilon 1e-6; dual clip at 3",
    ),
    PeerComparison(
        "OpenRLHF 0.8, group_norm",
        openrlhf_group_norm,
        "grpo",
        TOKENS | {"credit.epsilon": 1e-9},
        "epsilon 1e-9; mean over tokens",
    ),
    PeerComparison("Oat, Dr. GRPO (its authors' code)", oat_dr_grpo, "dr-grpo", {}, "nothing, at equal lengths L"),
)


@dataclass(frozen=True)
class Distance:
    """How far a recipe lies from an implementation: largest relative difference of values, and of gradients.

    `factor` is what the implementation's gradient is multiplied with in the recipe where it is one number for all
    tokens, None where there is none.
    """

    value: float
    gradient: float
    factors: tuple[float | None, ...] = field(default=())

    @property
    def word(self) -> str:
        """`equal`, `equal gradient`, `proportional` or `different`."""
        if self.gradient < 1e-9:
            return "equal" if self.value < 1e-9 else "equal gradient"
        return "different" if None in self.factors else "proportional"


def distance(entry: PeerComparison, recipe: Recipe, *, gap: float, batches: int = 10) -> Distance:
    """Over random batches whose policy has moved by `gap` nats a token since sampling."""
    value = gradient = 0.0
    factors: list[float | None] = []
    for number in range(batches):
        document = _document(number, gap)
        batch = Padded.of(document)
        theirs = entry.loss(batch)
        (pulled,) = torch.autograd.grad(theirs, batch.logp)
        ours = inspect(recipe, document)
        mine = torch.tensor([v for row in ours["gradient"] for v in row], dtype=torch.float64)
        flat = pulled[batch.mask > 0]
        scale = max(float(flat.abs().max()), float(mine.abs().max()), 1e-12)
        value = max(value, abs(float(theirs.detach()) - ours["loss"]) / max(abs(ours["loss"]), scale))
        gradient = max(gradient, float((flat - mine).abs().max()) / scale)
        ratio = float(flat @ mine / (flat @ flat)) if float(flat @ flat) > 0 else 1.0
        factors.append(ratio if float((ratio * flat - mine).abs().max()) < 1e-9 * scale else None)
    return Distance(value, gradient, tuple(factors))


def _document(number: int, gap: float) -> dict[str, Any]:
    """A random batch without what only some recipes read: truncation, segments, a proximal policy."""
    document = random_document(Key.of(number).derive("peers"), gap=gap, graded=number % 2 == 1)
    for row in document["trajectories"]:
        row["truncated"] = False
        for name in ("segment", "logp_proximal"):
            row.pop(name)
    return document
