"""TRL's losses of preferences: DPO, KTO, CPO and ORPO of 1.16, BCO, Nash-MD and XPO of 1.12."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.lab.peers.comparing import PeerComparison
from hocket.lab.peers.padded_batch import Rows
from hocket.objectives.divergence import KLToReference
from hocket.objectives.links import (
    Aot,
    AotUnpaired,
    ApoDown,
    ApoZero,
    Bco,
    DiscoPop,
    Exo,
    Hinge,
    Link,
    Logistic,
    Nca,
    Robust,
    Sppo,
    Squared,
)
from hocket.objectives.measures import Likelihood, LogRatio

DIVERGENCES = {
    "reverse_kl": "reverse-kl",
    "forward_kl": "forward-kl",
    "js_divergence": "jensen-shannon",
    "alpha_divergence": "alpha",
}
"""What TRL calls each, and what it is called here."""


def pairs_of(batch: Rows) -> tuple[Tensor, Tensor]:
    """The best and the worst answer of each group, the first among equals, where one is better: `[P]` each."""
    rewards = batch.by_group()
    best, worst = rewards.argmax(1), rewards.argmin(1)
    groups = torch.nonzero(rewards.amax(1) > rewards.amin(1)).flatten()
    start = groups * rewards.shape[1]
    return start + best[groups], start + worst[groups]


def summed(batch: Rows, column: Tensor, tail: float = 1.0) -> tuple[Tensor, Tensor]:
    """Sums over chosen and over rejected answers, `[P]` each; tokens past the shorter one's end count `tail`."""
    chosen, rejected = pairs_of(batch)
    lengths = batch.mask.sum(1)
    shared = torch.minimum(lengths[chosen], lengths[rejected])[:, None]
    places = torch.arange(1, batch.mask.shape[1] + 1)
    counts = torch.where(places <= shared, 1.0, torch.tensor(tail, dtype=torch.float64))
    first, second = ((column[rows] * batch.mask[rows] * counts).sum(1) for rows in (chosen, rejected))
    return first, second


def f_score(log_ratio: Tensor, divergence: str, alpha: float = 0.5) -> Tensor:
    """DPOTrainer's score of a log-ratio under `f_divergence_type`."""
    if divergence == "forward_kl":
        return 1 - torch.exp(-log_ratio)
    if divergence == "js_divergence":
        return math.log(2) + logsigmoid(log_ratio)
    if divergence == "alpha_divergence":
        return (torch.exp((alpha - 1) * log_ratio) - 1) / (alpha - 1)
    return log_ratio


def trl_dpo(
    batch: Rows,
    loss: str = "sigmoid",
    divergence: str = "reverse_kl",
    *,
    beta: float = 0.1,
    smoothing: float = 0.0,
    tail: float = 1.0,
) -> Tensor:
    """DPOTrainer with `loss_type`, `f_divergence_type`, `label_smoothing` and `ld_alpha`."""
    chosen, rejected = pairs_of(batch)
    if not len(chosen):
        return 0.0 * batch.logp.sum()
    policy, reference = summed(batch, batch.logp, tail), summed(batch, batch.reference, tail)
    ratios = policy[0] - reference[0], policy[1] - reference[1]
    scores = f_score(ratios[0], divergence), f_score(ratios[1], divergence)
    lengths = batch.mask.sum(1)
    if loss in ("ipo", "sigmoid_norm"):
        scores = scores[0] / lengths[chosen], scores[1] / lengths[rejected]
    delta, gaps = scores[0] - scores[1], (policy[0] - policy[1], reference[0] - reference[1])
    losses: Tensor = _PER_PAIR[loss](beta, delta, ratios, gaps, smoothing)
    return losses.mean()


def _mixed(margin: Tensor, smoothing: float) -> Tensor:
    return -logsigmoid(margin) * (1 - smoothing) - logsigmoid(-margin) * smoothing


def _exo(beta: float, delta: Tensor, ratios: Any, gaps: Any, smoothing: float) -> Tensor:
    win, lose = torch.sigmoid(beta * delta), torch.sigmoid(-beta * delta)
    return win * (win.log() - math.log1p(-smoothing)) + lose * (lose.log() - math.log(smoothing))


def _discopop(beta: float, delta: Tensor, ratios: Any, gaps: Any, smoothing: float) -> Tensor:
    logits = beta * delta
    share = torch.sigmoid(logits / 0.05)
    return -logsigmoid(logits) * (1 - share) + torch.exp(-logits) * share


_PER_PAIR: Mapping[str, Any] = {
    "sigmoid": lambda b, d, r, g, e: -logsigmoid(b * d),
    "sigmoid_norm": lambda b, d, r, g, e: -logsigmoid(b * d),
    "hinge": lambda b, d, r, g, e: torch.relu(1 - b * d),
    "ipo": lambda b, d, r, g, e: (d - 1 / (2 * b)) ** 2,
    "exo_pair": _exo,
    "nca_pair": lambda b, d, r, g, e: -logsigmoid(b * r[0]) - 0.5 * logsigmoid(-b * r[0]) - 0.5 * logsigmoid(-b * r[1]),
    "robust": lambda b, d, r, g, e: (-(1 - e) * logsigmoid(b * d) + e * logsigmoid(-b * d)) / (1 - 2 * e),
    "bco_pair": lambda b, d, r, g, e: -logsigmoid(b * r[0]) - logsigmoid(-b * r[1]),
    "sppo_hard": lambda b, d, r, g, e: (r[0] - 0.5 / b) ** 2 + (r[1] + 0.5 / b) ** 2,
    "aot": lambda b, d, r, g, e: _mixed(b * (g[0].sort().values - g[1].sort().values), e),
    "aot_unpaired": lambda b, d, r, g, e: _mixed(b * (r[0].sort().values - r[1].sort().values), e),
    "apo_zero": lambda b, d, r, g, e: 1 - torch.sigmoid(b * r[0]) + torch.sigmoid(b * r[1]),
    "apo_down": lambda b, d, r, g, e: torch.sigmoid(b * r[0]) + 1 - torch.sigmoid(b * (r[0] - r[1])),
    "discopop": _discopop,
}
"""Per pair, from beta, the difference of scores, both log-ratios, the policy's and the reference's gaps, smoothing."""

LINKS: Mapping[str, Link] = {
    "sigmoid": Logistic(),
    "sigmoid_norm": Logistic(),
    "hinge": Hinge(),
    "ipo": Squared(),
    "exo_pair": Exo(flip=0.1),
    "nca_pair": Nca(),
    "robust": Robust(flip=0.1),
    "bco_pair": Bco(),
    "sppo_hard": Sppo(),
    "aot": Aot(),
    "aot_unpaired": AotUnpaired(),
    "apo_zero": ApoZero(),
    "apo_down": ApoDown(),
    "discopop": DiscoPop(),
}
"""The link of each `loss_type`, at a label smoothing of 0.1 where the loss takes it for itself."""

OWN_SMOOTHING = ("exo_pair", "robust")
"""Losses that need `label_smoothing` for themselves."""


def link_settings(loss: str, divergence: str = "reverse_kl") -> dict[str, Any]:
    """The settings of recipe dpo that are DPOTrainer's with this loss and divergence."""
    measure = LogRatio(DIVERGENCES[divergence], length_normalised=loss in ("ipo", "sigmoid_norm"))  # type: ignore[arg-type]
    return {"objective.link": LINKS[loss], "objective.measure": measure}


def trl_cpo(batch: Rows, loss: str = "sigmoid", *, beta: float = 0.1, alpha: float = 0.0, nll: float = 1.0) -> Tensor:
    """CPOTrainer with `loss_type` sigmoid, hinge or simpo (`simpo_gamma` 1), AlphaPO's `alpha` and `cpo_alpha`."""
    chosen, rejected = pairs_of(batch)
    if not len(chosen):
        return 0.0 * batch.logp.sum()
    logp, lengths = summed(batch, batch.logp), batch.mask.sum(1)
    imitated = -logp[0].sum() / lengths[chosen].sum()
    if loss == "simpo":
        logp = logp[0] / lengths[chosen], logp[1] / lengths[rejected]
    if alpha:
        logp = tuple((1 - torch.exp(value).pow(-alpha)) / alpha for value in logp)  # type: ignore[assignment]
    logits = logp[0] - logp[1]
    if loss == "hinge":
        return torch.relu(1 - beta * logits).mean() + nll * imitated
    if loss == "simpo":
        logits = logits - 1.0 / beta
    return -logsigmoid(beta * logits).mean() + nll * imitated


def trl_orpo(batch: Rows, beta: float = 0.1) -> Tensor:
    """ORPOTrainer, its likelihood term over the answer's tokens."""
    chosen, rejected = pairs_of(batch)
    if not len(chosen):
        return 0.0 * batch.logp.sum()
    logp, lengths = summed(batch, batch.logp), batch.mask.sum(1)
    imitated = -logp[0].sum() / lengths[chosen].sum()
    mean = logp[0] / lengths[chosen], logp[1] / lengths[rejected]
    odds = (mean[0] - mean[1]) - (torch.log1p(-mean[0].exp()) - torch.log1p(-mean[1].exp()))
    return imitated - beta * logsigmoid(odds).mean()


def _labelled(batch: Rows) -> tuple[Tensor, Tensor]:
    ratio = ((batch.logp - batch.reference) * batch.mask).sum(1)
    return ratio, batch.reward >= 0.5


def trl_kto(batch: Rows, beta: float = 0.1) -> Tensor:
    """KTOTrainer, its divergence that of the batch's own answers (the learner's log-probs before the update)."""
    ratio, good = _labelled(batch)
    kl = ((batch.proximal - batch.reference) * batch.mask).sum(1).mean().clamp(min=0)
    chosen, rejected = 1 - torch.sigmoid(beta * (ratio - kl)), 1 - torch.sigmoid(beta * (kl - ratio))
    return torch.where(good, chosen, rejected).mean()


def trl_apo_unpaired(batch: Rows, beta: float = 0.1) -> Tensor:
    """KTOTrainer, `loss_type="apo_zero_unpaired"`."""
    ratio, good = _labelled(batch)
    return torch.where(good, 1 - torch.sigmoid(beta * ratio), torch.sigmoid(beta * ratio)).mean()


def trl_bco(batch: Rows, beta: float = 0.1) -> Tensor:
    """BCOTrainer's first step: delta is the mean of the batch's rewards."""
    ratio, good = _labelled(batch)
    delta = (beta * (batch.proximal - batch.reference) * batch.mask).sum(1).mean()
    return torch.where(good, -logsigmoid(beta * ratio - delta), -logsigmoid(delta - beta * ratio)).mean()


def trl_nash_md(batch: Rows, beta: float = 0.1) -> Tensor:
    """NashMDTrainer, the rewards being the probabilities of winning less 1/2."""
    logp = (batch.logp * batch.mask).sum(1)
    log_ratio = ((batch.logp - batch.reference) * batch.mask).detach()
    return (beta * (log_ratio * batch.logp).sum(1) - batch.reward * logp).mean()


def trl_xpo(batch: Rows, *, beta: float = 0.1, alpha: float = 1e-5, loss: str = "sigmoid") -> Tensor:
    """XPOTrainer: of each two answers the second is the reference's."""
    policy, reference = (((column * batch.mask).sum(1)).view(-1, 2) for column in (batch.logp, batch.reference))
    rewards = batch.by_group()
    sign = torch.where(rewards[:, 0] >= rewards[:, 1], 1.0, -1.0)
    logits = sign * ((policy[:, 0] - reference[:, 0]) - (policy[:, 1] - reference[:, 1]))
    losses = -logsigmoid(beta * logits) if loss == "sigmoid" else (logits - 1 / (2 * beta)) ** 2
    return (losses + alpha * policy[:, 1]).mean()


NAME = "TRL 1.16"

TOKEN_CHARGE = KLToReference(estimator="k2", coefficient=0.1, aggregate="sequence-sum")
"""NashMDTrainer's charge for leaving the reference."""

ENTRIES: Sequence[PeerComparison] = (
    PeerComparison(f"{NAME}, DPOTrainer", trl_dpo, "dpo", {}, "equal as shipped"),
    *(
        PeerComparison(
            f"{NAME}, DPOTrainer, loss_type {loss}",
            functools.partial(trl_dpo, loss=loss, smoothing=0.1 if loss in OWN_SMOOTHING else 0.0),
            "dpo",
            link_settings(loss),
            f"objective.link = {type(LINKS[loss]).__name__}"
            + (" of log-ratios averaged over tokens" if loss in ("ipo", "sigmoid_norm") else ""),
        )
        for loss in LINKS
        if loss != "sigmoid"
    ),
    *(
        PeerComparison(
            f"{NAME}, DPOTrainer, f_divergence_type {theirs}",
            functools.partial(trl_dpo, divergence=theirs),
            "dpo",
            {"objective.measure.divergence": ours},
            "losses that judge each answer by itself ignore the divergence there and refuse it here",
        )
        for theirs, ours in DIVERGENCES.items()
        if ours != "reverse-kl"
    ),
    PeerComparison(
        f"{NAME}, DPOTrainer, label_smoothing 0.1",
        lambda batch: _smoothed(batch, 0.1),
        "dpo",
        {"objective.label_smoothing": 0.1},
        "there label_smoothing acts in exo, robust and aot alone; here in every link, as conservative DPO",
    ),
    PeerComparison(
        f"{NAME}, DPOTrainer, ld_alpha 0.3",
        functools.partial(trl_dpo, tail=0.3),
        "dpo",
        {"objective.tail": 0.3},
        "what counts beyond the shorter answer",
    ),
    PeerComparison(f"{NAME}, CPOTrainer", trl_cpo, "cpo", {}, "equal as shipped"),
    PeerComparison(
        f"{NAME}, CPOTrainer, loss_type hinge",
        functools.partial(trl_cpo, loss="hinge"),
        "cpo",
        {"objective.link": Hinge()},
        "SLiC without a reference, beside imitation",
    ),
    PeerComparison(
        f"{NAME}, CPOTrainer, loss_type simpo, cpo_alpha 0, beta 2, simpo_gamma 1",
        functools.partial(trl_cpo, loss="simpo", beta=2.0, nll=0.0),
        "simpo",
        {},
        "there beta is 0.1 and gamma 0.5 unless set, and the likelihood term on",
    ),
    PeerComparison(
        f"{NAME}, CPOTrainer, loss_type simpo, alpha 0.25, cpo_alpha 0, beta 2, simpo_gamma 1",
        functools.partial(trl_cpo, loss="simpo", beta=2.0, nll=0.0, alpha=0.25),
        "simpo",
        {"objective.measure": Likelihood(length_normalised=True, alpha=0.25)},
        "AlphaPO, here recipe alphapo",
    ),
    PeerComparison(f"{NAME}, ORPOTrainer", trl_orpo, "orpo", {}, "its likelihood term is also of the prompt"),
    PeerComparison(
        f"{NAME}, KTOTrainer",
        trl_kto,
        "kto",
        {},
        "both estimate the divergence from mismatched answers of the step; compared here on a batch without any",
        proximal=True,
    ),
    PeerComparison(
        f"{NAME}, KTOTrainer, loss_type apo_zero_unpaired",
        trl_apo_unpaired,
        "apo-zero-unpaired",
        {},
        "equal as shipped",
    ),
    PeerComparison(
        "TRL 1.12, BCOTrainer",
        trl_bco,
        "bco",
        {},
        "equal as shipped, at the first step; density ratios are not there",
        proximal=True,
    ),
    PeerComparison(
        "TRL 1.12, NashMDTrainer",
        trl_nash_md,
        "nash-md",
        {"shaping": (), "regularisers": (TOKEN_CHARGE,)},
        "at given probabilities of winning, less 1/2; there a token is charged for itself alone (the gradient of k2), "
        "and the opponent is sampled from logits mixed token by token, here from whole answers",
        gradient_only=True,
    ),
    PeerComparison(
        "TRL 1.12, XPOTrainer",
        trl_xpo,
        "xpo",
        {},
        "equal as shipped but for ties, which there prefer the policy's answer",
        samples=2,
        others=True,
    ),
    PeerComparison(
        "TRL 1.12, XPOTrainer, loss_type ipo, alpha 0.1",
        functools.partial(trl_xpo, loss="ipo", alpha=0.1),
        "xpo",
        {"objective.link": Squared(), "regularisers.0.coefficient": 0.1},
        "objective.link = Squared, and the weight of optimism",
        samples=2,
        others=True,
    ),
)


def _smoothed(batch: Rows, smoothing: float, beta: float = 0.1) -> Tensor:
    """The logistic loss with `label_smoothing`, as DPOTrainer had it and CPOTrainer has it."""
    policy, reference = summed(batch, batch.logp), summed(batch, batch.reference)
    if not len(policy[0]):
        return 0.0 * batch.logp.sum()
    return _mixed(beta * ((policy[0] - reference[0]) - (policy[1] - reference[1])), smoothing).mean()
