"""Of losses: what they are equal to on the policy's own samples, and what they do away from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.credit.pairs import BestAgainstWorst
from hocket.lab.microscope import inspect
from hocket.lab.theorems.theorem import (
    Theorem,
    advantages,
    apart,
    batch,
    bent,
    column,
    excess,
    flat,
    gradient,
    mixed,
    of,
    rewarded,
    rewards,
)
from hocket.objectives.drift import clip_drift, quadratic_drift, tanh_drift
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.surrogate import ClippedSurrogate, clipped_surrogate

SAMPLES = 4


def _lengths(document: dict[str, Any]) -> list[int]:
    return [len(row["logp"]) for row in document["trajectories"]]


def _summed(document: dict[str, Any], name: str) -> Tensor:
    """A per-decision field summed over each trajectory, `[N]`."""
    return torch.tensor([sum(row[name]) for row in document["trajectories"]], dtype=torch.float64)


def _per_decision(values: Tensor, document: dict[str, Any]) -> Tensor:
    return torch.repeat_interleave(values, torch.tensor(_lengths(document)))


def _on_policy(key: Key) -> float:
    document = batch(key, gap=0.0)
    plain = of("grpo", objective=PolicyGradient(aggregate="sequence-mean"))
    return apart(gradient(of("grpo"), document), gradient(plain, document))


def _clip_idle(key: Key) -> float:
    document = batch(key, gap=0.0)
    wide = of("grpo", objective__low=0.9, objective__high=9.0)
    return apart(gradient(of("grpo"), document), gradient(wide, document))


def _pessimistic(key: Key) -> float:
    document = batch(key)
    ratio = (column(document, "logp") - column(document, "logp_behaviour")).exp()
    gain = _per_decision(advantages(of("grpo"), document), document)
    return excess(-clipped_surrogate(ratio, gain, 0.2, 0.2), ratio * gain)


def _dual(key: Key) -> float:
    rng = key.numpy()
    ratio, gain = torch.from_numpy(rng.exponential(5.0, 50)), -torch.from_numpy(rng.random(50))
    return excess(clipped_surrogate(ratio, gain, 0.2, 0.2, 3.0), -3.0 * gain)


def _geometric_on_policy(key: Key) -> float:
    document = batch(key, gap=0.0)
    return apart(gradient(of("gmpo"), document), gradient(of("grpo"), document))


def _means(key: Key) -> float:
    """The geometric mean of ratios never exceeds the arithmetic one."""
    document = batch(key)
    gap = column(document, "logp") - column(document, "logp_behaviour")
    parts = torch.split(gap, _lengths(document))
    return max(excess(part.mean().exp(), part.exp().mean()) for part in parts)


def _outlier(key: Key) -> float:
    """One ratio R among T ones moves GMPO's objective by R^(1/T)."""
    document = mixed(batch(key, gap=0.0, groups=1, samples=2))
    first = document["trajectories"][0]
    first["logp"] = list(first["logp_behaviour"])
    first["logp"][0] += 0.3
    free = of("gmpo", objective__low=5.0, objective__high=5.0)
    gains = advantages(free, document)
    expected = -(float(gains[0]) * math.exp(0.3 / len(first["logp"])) + float(gains[1])) / 2
    return abs(float(inspect(free, document)["loss"]) - expected)


def _sequence_ratio(key: Key) -> float:
    document = batch(key)
    wide: dict[str, Any] = {"objective__low": 0.9, "objective__high": 9.0}
    return apart(gradient(of("gspo", **wide), document), gradient(of("gspo-token", **wide), document))


def _one_token(key: Key) -> float:
    """With one token an answer sequence and token ratios are the same thing."""
    document = batch(key, longest=1)
    same: dict[str, Any] = {"objective__low": 0.2, "objective__high": 0.2}
    return max(
        apart(gradient(of("gspo", **same), document), gradient(of("grpo"), document)),
        apart(gradient(of("dapo", **same, shaping=()), document), gradient(of("grpo"), document)),
    )


def _centred_regression(key: Key) -> float:
    """GVPO's gradient, its weights held constant, is that of half the squared gap of centred rewards."""
    document = batch(key, samples=SAMPLES)
    beta = 0.1
    logp = column(document, "logp").requires_grad_()
    sums = torch.stack([part.sum() for part in torch.split(logp, _lengths(document))])
    implied = beta * (sums - _summed(document, "logp_ref"))
    reward = rewards(document)
    gaps = [value.view(-1, SAMPLES) - value.view(-1, SAMPLES).mean(1, keepdim=True) for value in (reward, implied)]
    half = 0.5 * (gaps[0] - gaps[1]).square().sum(1) / (SAMPLES - 1)
    (expected,) = torch.autograd.grad(half.mean(), logp)
    return apart(gradient(of("gvpo"), document), expected)


def _closed_form(key: Key) -> float:
    """At pi_ref exp(R/beta)/Z GVPO's gradient is 0 whoever sampled."""
    document = batch(key, samples=SAMPLES)
    for row in document["trajectories"]:
        lift = row["scores"]["reward"] / 0.1 - 3.0  # Any log Z.
        row["logp"] = [value + lift / len(row["logp"]) for value in row["logp_ref"]]
    scale = float(gradient(of("gvpo"), batch(key, samples=SAMPLES)).abs().max())
    return float(gradient(of("gvpo"), document).abs().max()) / max(scale, 1e-6)


def _mirror(key: Key) -> float:
    """Kimi k1.5's gradient: centred REINFORCE minus tau/2 times that of the squared log-ratio."""
    document = batch(key, samples=SAMPLES)
    recipe = of("kimi-k1-5", shaping=())
    tau = recipe.objective.temperature  # type: ignore[attr-defined]
    logp = column(document, "logp").requires_grad_()
    sums = torch.stack([part.sum() for part in torch.split(logp, _lengths(document))])
    drift = sums - _summed(document, "logp_behaviour")
    reward = rewards(document).view(-1, SAMPLES)
    centred = (reward - reward.mean(1, keepdim=True)).flatten()
    (expected,) = torch.autograd.grad((-centred * sums + tau / 2 * drift.square()).mean(), logp)
    return apart(gradient(recipe, document), expected)


def _opmd(key: Key) -> float:
    """The gradient of mean (A - tau d)^2 is 2 tau times that of -A log pi + tau/2 d^2."""
    rng = key.numpy()
    gain = torch.from_numpy(rng.normal(size=8))
    drift = torch.from_numpy(rng.normal(size=8)).requires_grad_()
    tau = 0.3
    (square,) = torch.autograd.grad((gain - tau * drift).square().mean(), drift)
    (plain,) = torch.autograd.grad((-gain * drift + tau / 2 * drift.square()).mean(), drift)
    return apart(square, 2 * tau * plain)


def _lowered(key: Key) -> float:
    """AsymRE: lowering the baseline by d adds d times the likelihood's gradient."""
    document = batch(key)
    lifted = gradient(of("rec-asymre"), document) - gradient(of("rec-reinforce"), document)
    return bent(-torch.ones_like(lifted), lifted)


def _regressive(key: Key) -> float:
    """Reg-GRPO at the sampling policy against the unclipped surrogate of whole answers."""
    document = batch(key, gap=0.0)
    recipe = of("deepvideo-r1", shaping=(), update__epochs=1, update__minibatches=1)
    plain = of(recipe, objective=PolicyGradient(aggregate="sequence-sum"))
    return bent(gradient(plain, document), gradient(recipe, document))


def _negative_aware(key: Key) -> float:
    """NFT with weight sqrt((1-q)/q) against GRPO, per-decision coefficients on-policy."""
    document = mixed(batch(key, gap=0.0, samples=SAMPLES, graded=False))
    rate = rewards(document).view(-1, SAMPLES).mean(1).repeat_interleave(SAMPLES)
    right = rewards(document) > 0
    weight = ((1 - rate) / rate).sqrt()
    coefficient = torch.where(right, weight, -weight * rate / (1 - rate))
    values = advantages(of("grpo", credit__epsilon=0.0, credit__ddof=0), document)
    return apart(coefficient, values)


def _pairs(key: Key) -> float:
    document = batch(key)
    moved = rewarded(document, lambda group, value: math.exp(3 * value) + float(group[-1]))
    pairwise = of("online-dpo", credit=BestAgainstWorst())
    return apart(gradient(pairwise, document), gradient(pairwise, moved))


def _levels(key: Key) -> float:
    """TRPA reads the order of rewards only."""
    document = batch(key, graded=False)
    moved = rewarded(document, lambda _, value: 4.0 * value**3 - 1.0)
    recipe = of("trpa")
    levels = [len({row["scores"]["reward"] for row in variant["trajectories"]}) for variant in (document, moved)]
    assert levels[0] == levels[1]
    return apart(gradient(recipe, document), gradient(recipe, moved))


def _importance(key: Key) -> float:
    """CISPO on-policy is the policy gradient."""
    document = batch(key, gap=0.0)
    plain = of("cispo", objective=PolicyGradient(aggregate="token-mean"))
    return apart(gradient(of("cispo"), document), gradient(plain, document))


def _kept(key: Key) -> float:
    """Far above the clip PPO has no gradient for a positive decision; CISPO keeps its cap, SPO pulls back."""
    size = 20
    logp = torch.from_numpy(key.numpy().uniform(0.5, 2.0, size)).requires_grad_()
    gain = torch.ones(size, dtype=torch.float64)
    (clipped,) = torch.autograd.grad(clipped_surrogate(logp.exp(), gain, 0.2, 0.2).sum(), logp)
    (pulled,) = torch.autograd.grad((quadratic_drift(logp, gain, 0.2) - logp.exp() * gain).sum(), logp)
    return max(float(clipped.abs().max()), excess(0.0, pulled))


def _stationary(key: Key) -> float:
    """SPO's rho A - |A| (rho - 1)^2 / (2 eps) is stationary at 1 + eps sign(A)."""
    gain = torch.from_numpy(key.numpy().normal(size=20))
    epsilon = 0.2
    log_ratio = (1 + epsilon * gain.sign()).log().requires_grad_()
    (found,) = torch.autograd.grad(
        (log_ratio.exp() * gain - quadratic_drift(log_ratio, gain, epsilon)).sum(), log_ratio
    )
    return float(found.abs().max())


def _drifts(key: Key) -> float:
    """f >= 0, f(1) = 0 and zero gradient at 1, for the clip, the closed-form and the quadratic drift."""
    rng = key.numpy()
    gain = torch.from_numpy(rng.normal(size=50))
    away = torch.from_numpy(rng.normal(size=50))
    at = torch.zeros(50, dtype=torch.float64, requires_grad=True)
    worst = 0.0
    drifts: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda x: clip_drift(x, gain, 0.2, 0.2),
        lambda x: tanh_drift(x, gain, 2.0, 0.6),
        lambda x: quadratic_drift(x, gain, 0.2),
    )
    for drift in drifts:
        (slope,) = torch.autograd.grad(drift(at).sum(), at)
        worst = max(worst, excess(0.0, drift(away)), float(drift(at).detach().abs().max()), float(slope.abs().max()))
    return worst


def _same_start(key: Key) -> float:
    """First gradient of a batch: PPO's clip, SPO and the drift of Lu et al. agree."""
    document = batch(key, gap=0.0)
    clipped = of("ppo", update__epochs=1, update__minibatches=1)
    gradients = [gradient(of(clipped, objective=of(name).objective), document) for name in ("ppo", "spo")]
    return apart(*gradients)


def _aggregates(key: Key) -> float:
    """At equal lengths all four aggregates are proportional."""
    document = batch(key, longest=1)
    kinds = ("token-mean", "sequence-mean", "sequence-sum", "constant-length")
    gradients = [gradient(of("grpo", objective__aggregate=kind), document) for kind in kinds]
    return max(bent(gradients[0], other) for other in gradients)


def _saturation(key: Key) -> float:
    """Beyond 50 nats value and gradient are those at 50."""
    gap = 50.0 + 100.0 * float(key.numpy().random())
    rows = [
        {"group": "a", "scores": {"reward": float(number)}, "logp": [0.0], "logp_behaviour": [beyond]}
        for number, beyond in enumerate((gap, gap))
    ]
    at = [{**row, "logp_behaviour": [50.0]} for row in rows]
    wide = of("grpo", objective=ClippedSurrogate(low=1.0, high=1e30))
    left, right = (inspect(wide, {"version": 1, "trajectories": each}) for each in (rows, at))
    return max(apart(flat(left["gradient"]), flat(right["gradient"])), abs(float(left["loss"]) - float(right["loss"])))


def _first_order(key: Key) -> float:
    document = batch(key, gap=0.0)
    return apart(gradient(of("gspo"), document), gradient(of("grpo"), document))


def _token_sequence_claim() -> float:
    document = batch(Key.of(5), gap=0.3, groups=2, samples=4)
    wide: dict[str, Any] = {"objective__low": 0.9, "objective__high": 9.0}
    return bent(gradient(of("grpo", **wide), document), gradient(of("gspo", **wide), document))


THEOREMS = (
    Theorem(
        "On the policy's own samples GRPO's gradient is REINFORCE's with its advantages, answers weighted 1/(N n_i).",
        "DeepSeekMath, arXiv:2402.03300",
        "gradient",
        _on_policy,
    ),
    Theorem(
        "On the policy's own samples clipping changes no gradient.", "PPO, arXiv:1707.06347", "gradient", _clip_idle
    ),
    Theorem("The clipped surrogate never exceeds the unclipped one.", "PPO, arXiv:1707.06347", "value", _pessimistic),
    Theorem(
        "Dual clip bounds the loss of a negative decision by c |A|.", "Ye et al. 2020, arXiv:1912.09729", "value", _dual
    ),
    Theorem(
        "On the policy's own samples GMPO's gradient is GRPO's.",
        "GMPO, arXiv:2507.20673",
        "gradient",
        _geometric_on_policy,
    ),
    Theorem(
        "The geometric mean of an answer's ratios never exceeds their arithmetic mean.",
        "GMPO, arXiv:2507.20673",
        "value",
        _means,
    ),
    Theorem(
        "One outlier ratio R among T tokens moves GMPO's objective by R^(1/T) alone.",
        "GMPO, arXiv:2507.20673",
        "value",
        _outlier,
        1e-8,
    ),
    Theorem(
        "GSPO and GSPO-token have equal gradients where an answer's advantage is one number.",
        "GSPO, arXiv:2507.18071",
        "gradient",
        _sequence_ratio,
    ),
    Theorem(
        "On the policy's own samples GSPO's gradient is GRPO's.",
        "derived; GSPO, arXiv:2507.18071",
        "gradient",
        _first_order,
        counter=_token_sequence_claim,
        claim="sequence and token ratios differ in variance only (off-policy their gradients differ in direction)",
    ),
    Theorem("With one token an answer GRPO, GSPO and DAPO's loss are one method.", "derived", "gradient", _one_token),
    Theorem(
        "GVPO's gradient is that of half the squared gap between centred rewards and centred implicit rewards.",
        "GVPO, arXiv:2504.19599",
        "gradient",
        _centred_regression,
    ),
    Theorem(
        "At pi_ref exp(R/beta)/Z GVPO's gradient is 0 on any samples.",
        "GVPO, arXiv:2504.19599",
        "gradient",
        _closed_form,
        1e-8,
    ),
    Theorem(
        "Kimi k1.5's gradient is centred REINFORCE minus tau/2 times that of the squared log-ratio.",
        "Kimi k1.5, arXiv:2501.12599",
        "gradient",
        _mirror,
    ),
    Theorem(
        "The gradient of mean (A - tau d)^2 is 2 tau times that of -A log pi + tau/2 d^2.",
        "Group-relative REINFORCE, arXiv:2509.24203",
        "gradient",
        _opmd,
    ),
    Theorem(
        "Lowering the baseline by d adds d times the gradient of the log-likelihood.",
        "Group-relative REINFORCE, arXiv:2509.24203",
        "gradient",
        _lowered,
    ),
    Theorem(
        "At the sampling policy Reg-GRPO's gradient is proportional to the unclipped group-relative one.",
        "derived; DeepVideo-R1, arXiv:2506.07464",
        "gradient",
        _regressive,
    ),
    Theorem(
        "NFT's coefficients at ratio 1 with weight sqrt((1-q)/q) are GRPO's advantages.",
        "NFT, arXiv:2505.18116",
        "value",
        _negative_aware,
    ),
    Theorem(
        "A preference loss on the best and the worst sample reads the order of rewards alone.",
        "derived; DPO, arXiv:2305.18290",
        "gradient",
        _pairs,
    ),
    Theorem(
        "TRPA's gradient is unchanged by any increasing map of rewards.", "TRPA, arXiv:2504.04524", "gradient", _levels
    ),
    Theorem(
        "On the policy's own samples CISPO's gradient is the policy gradient.",
        "MiniMax-M1, arXiv:2506.13585",
        "gradient",
        _importance,
    ),
    Theorem(
        "Far above the clip a positive decision has no gradient under PPO and is pulled back under SPO.",
        "SPO, arXiv:2401.16025",
        "gradient",
        _kept,
    ),
    Theorem(
        "SPO's objective is stationary at rho = 1 + eps sign(A).", "SPO, arXiv:2401.16025", "gradient", _stationary
    ),
    Theorem(
        "Clip, tanh and quadratic drift are non-negative, 0 and flat at ratio 1.",
        "Mirror Learning, arXiv:2201.02373; DPO, arXiv:2210.05639",
        "value and gradient",
        _drifts,
    ),
    Theorem(
        "The first gradient of a batch is the same under PPO's clip and SPO.",
        "SPO, arXiv:2401.16025",
        "gradient",
        _same_start,
    ),
    Theorem("At equal lengths the four aggregates differ by a factor.", "derived", "gradient", _aggregates),
    Theorem(
        "Beyond 50 nats a log-ratio has the value and the gradient it has at 50.",
        "derived",
        "value and gradient",
        _saturation,
    ),
)
