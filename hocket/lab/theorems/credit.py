"""Of groups and what is made of their rewards."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.credit.formulas import leave_one_out as leave_one_out_of
from hocket.lab.theorems.theorem import (
    Theorem,
    advantages,
    apart,
    batch,
    bent,
    excess,
    gradient,
    mixed,
    of,
    rewarded,
    rewards,
)

SAMPLES = 6


def _leave_one_out(key: Key) -> float:
    document = batch(key, samples=SAMPLES)
    ours, centred = advantages(of("rloo"), document), advantages(of("dr-grpo"), document)
    return apart(ours, SAMPLES / (SAMPLES - 1) * centred)


def _means(key: Key) -> float:
    document = batch(key, samples=SAMPLES)
    sums = [advantages(of(name), document).view(-1, SAMPLES).sum(1) for name in ("grpo", "dr-grpo", "rloo")]
    return float(torch.stack(sums).abs().max())


def _shift(key: Key) -> float:
    document = batch(key)
    moved = rewarded(document, lambda group, value: value + 3.0 * float(group[-1]) - 5.0)
    names = ("grpo", "dr-grpo", "rloo", "gvpo")
    return max(apart(gradient(of(name), document), gradient(of(name), moved)) for name in names)


def _scale(key: Key) -> float:
    document = batch(key)
    stretched = rewarded(document, lambda _, value: 7.0 * value)
    scaled = of("grpo", credit__epsilon=0.0)
    plain = apart(7.0 * advantages(of("dr-grpo"), document), advantages(of("dr-grpo"), stretched))
    return max(apart(advantages(scaled, document), advantages(scaled, stretched)), plain)


def _unit(key: Key) -> float:
    document = mixed(batch(key, samples=SAMPLES))
    values = advantages(of("grpo", credit__epsilon=0.0), document).view(-1, SAMPLES)
    return float((values.std(1) - 1).abs().max())


def _bounded(key: Key) -> float:
    document = batch(key, samples=SAMPLES)
    sample = advantages(of("grpo", credit__epsilon=0.0), document).abs()
    population = advantages(of("grpo", credit__epsilon=0.0, credit__ddof=0), document).abs()
    return max(excess(sample, (SAMPLES - 1) / math.sqrt(SAMPLES)), excess(population, math.sqrt(SAMPLES - 1)), 0.0)


def _binary(key: Key) -> float:
    document = mixed(batch(key, samples=SAMPLES, graded=False))
    values = advantages(of("grpo", credit__epsilon=0.0, credit__ddof=0), document)
    right = rewards(document)
    rate = right.view(-1, SAMPLES).mean(1).repeat_interleave(SAMPLES)
    expected = torch.where(right > 0, 1 - rate, -rate) / (rate * (1 - rate)).sqrt()
    return apart(values, expected)


def _pair(key: Key) -> float:
    document = mixed(batch(key, samples=2, graded=False))
    sample = advantages(of("grpo", credit__epsilon=0.0), document)
    population = advantages(of("grpo", credit__epsilon=0.0, credit__ddof=0), document)
    sign = 2 * rewards(document) - 1
    return max(apart(population, sign), apart(sample, sign / math.sqrt(2)))


def _virtual(key: Key) -> float:
    document = rewarded(batch(key, samples=SAMPLES), lambda *_: 0.0)
    values = advantages(of("ngrpo", credit__epsilon=0.0), document)
    return apart(values, torch.full_like(values, -1 / math.sqrt(SAMPLES + 1)))


def _negative_mean(key: Key) -> float:
    document = batch(key, samples=SAMPLES, graded=False)
    return excess(advantages(of("ngrpo"), document).view(-1, SAMPLES).mean(1), 0.0)


def _half(key: Key) -> float:
    document = rewarded(batch(key, samples=4), lambda *_: 0.0)
    for number, row in enumerate(document["trajectories"]):
        row["scores"] = {"reward": float(number % 2)}
    return apart(advantages(of("mapo"), document), advantages(of("grpo"), document))


def _zero_variance(key: Key) -> float:
    document = rewarded(batch(key), lambda group, _: float(group[-1]))
    return max(float(gradient(of(name), document).abs().max()) for name in ("grpo", "dr-grpo", "rloo", "dapo"))


def _rates(key: Key) -> tuple[Tensor, Tensor]:
    rng = key.numpy()
    return torch.tensor(0.45 * rng.random(), dtype=torch.float64), torch.tensor(
        0.45 * rng.random(), dtype=torch.float64
    )


def _corrected(form: str, false_positive: Tensor, false_negative: Tensor) -> Tensor:
    """What a wrong and a right verdict become, `[2]`."""
    rates = {"false_positive": float(false_positive), "false_negative": float(false_negative)}
    settings = {f"shaping__0__{name}": value for name, value in {"form": form, **rates}.items()}
    document = mixed(batch(Key.of(0), samples=2))
    values = advantages(of("noisy-verifier-forward", **settings), document)
    return torch.stack([values[1], values[0]])


def _backward(key: Key) -> float:
    false_positive, false_negative = _rates(key)
    value = _corrected("backward", false_positive, false_negative)
    given_right = torch.stack([false_negative, 1 - false_negative])
    given_wrong = torch.stack([1 - false_positive, false_positive])
    return max(abs(float(given_right @ value) - 1.0), abs(float(given_wrong @ value)))


def _forward(key: Key) -> float:
    false_positive, false_negative = _rates(key)
    value = _corrected("forward", false_positive, false_negative)
    right = torch.stack([false_negative, 1 - false_negative]) @ value
    wrong = torch.stack([1 - false_positive, false_positive]) @ value
    return max(abs(float(right)), abs(float(wrong) + float(1 - false_positive - false_negative)))


def _cancelled(key: Key) -> float:
    document = batch(key, graded=False)
    false_positive, false_negative = (float(rate) for rate in _rates(key))
    span = 1 - false_positive - false_negative
    corrected = rewarded(document, lambda _, value: (value - false_positive) / span)
    scaled = of("grpo", credit__epsilon=0.0)
    same = apart(gradient(scaled, document), gradient(scaled, corrected))
    centred = apart(gradient(of("dr-grpo"), document) / span, gradient(of("dr-grpo"), corrected))
    return max(same, centred)


def _lengths(key: Key) -> float:
    """Two equally wrong answers: per-token gradients."""
    document = batch(key, groups=1, samples=4, longest=12)
    for number, row in enumerate(document["trajectories"]):
        row["scores"] = {"reward": float(number < 2)}
        row["logp"] = row["logp_behaviour"]
    left, right = document["trajectories"][2:]
    lengths = len(left["logp"]), len(right["logp"])
    start = sum(len(row["logp"]) for row in document["trajectories"][:2])
    constant, mean = gradient(of("dr-grpo"), document), gradient(of("grpo"), document)
    first, second = start, start + lengths[0]
    equal = abs(float(constant[first] - constant[second])) / float(constant[first].abs())
    ratio = abs(float(mean[first] / mean[second]) - lengths[1] / lengths[0]) * lengths[0] / lengths[1]
    return max(equal, ratio)


def _enumerated(probability: Tensor, value: Tensor, samples: int, *, scaled: bool, loo: bool = False) -> Tensor:
    """The expected gradient of a group of `samples` draws from a categorical policy, by enumeration."""
    actions = len(probability)
    total = torch.zeros(actions, dtype=torch.float64)
    score = torch.eye(actions, dtype=torch.float64) - probability
    for draw in torch.cartesian_prod(*[torch.arange(actions)] * samples):
        reward = value[draw]
        credit = reward - reward.mean()
        if loo:
            credit = leave_one_out_of(reward, torch.zeros(samples, dtype=torch.long), 1)
        elif scaled:
            spread = reward.std(unbiased=False)
            credit = credit / spread if spread > 0 else torch.zeros_like(credit)
        total += probability[draw].prod() * (credit[:, None] * score[draw]).mean(0)
    return total


def _bandit(key: Key) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities, values, and the true gradient of the expected value with respect to logits."""
    rng = key.numpy()
    probability = torch.softmax(torch.from_numpy(rng.normal(size=3)), 0)
    value = torch.from_numpy(rng.random(3))
    return probability, value, probability * (value - probability @ value)


def _unbiased(key: Key) -> float:
    probability, value, truth = _bandit(key)
    return apart(_enumerated(probability, value, 3, scaled=False, loo=True), truth)


def _shrunk(key: Key) -> float:
    probability, value, truth = _bandit(key)
    return apart(_enumerated(probability, value, 3, scaled=False), 2 / 3 * truth)


def _shrunk_claim() -> float:
    probability, value, truth = _bandit(Key.of(0))
    return apart(_enumerated(probability, value, 3, scaled=False), truth)


def _scaled_direction(key: Key) -> float:
    """For 0/1 values one question's expected direction is right, whatever the deviation."""
    probability, _, _ = _bandit(key)
    value = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    truth = probability * (value - probability @ value)
    return bent(truth, _enumerated(probability, value, 4, scaled=True))


def _scaled_claim() -> float:
    """With graded values it is not."""
    probability, _, _ = _bandit(Key.of(1))
    value = torch.tensor([1.0, 0.6, 0.0], dtype=torch.float64)
    truth = probability * (value - probability @ value)
    return bent(truth, _enumerated(probability, value, 4, scaled=True))


def _pair_weight(key: Key) -> float:
    """c_G(p) of group size: by enumeration against the binomial formula."""
    rate = 0.05 + 0.9 * float(key.numpy().random())
    probability = torch.tensor([rate, 1 - rate], dtype=torch.float64)
    value = torch.tensor([1.0, 0.0], dtype=torch.float64)
    direction = torch.tensor([1.0, -1.0], dtype=torch.float64)
    worst = 0.0
    for samples in (2, 4):
        expected = sum(
            math.comb(samples, k) * rate**k * (1 - rate) ** (samples - k) * math.sqrt(k / samples * (1 - k / samples))
            for k in range(samples + 1)
        )
        worst = max(worst, apart(_enumerated(probability, value, samples, scaled=True), expected * direction))
    return worst


THEOREMS = (
    Theorem(
        "Leave-one-out advantages are G/(G-1) times the mean-centred ones.",
        "Kool et al. 2019; LOOP, arXiv:2502.01600",
        "advantage",
        _leave_one_out,
    ),
    Theorem("Group advantages sum to 0 in every group.", "DeepSeekMath, arXiv:2402.03300", "advantage", _means),
    Theorem(
        "A constant added to all rewards of a scenario changes no gradient (GRPO, Dr. GRPO, RLOO, GVPO).",
        "derived",
        "gradient",
        _shift,
    ),
    Theorem(
        "Division by the deviation removes the scale of rewards; without it advantages scale with them.",
        "derived",
        "advantage",
        _scale,
    ),
    Theorem(
        "Normalised advantages of a mixed group have deviation 1.", "DeepSeekMath, arXiv:2402.03300", "advantage", _unit
    ),
    Theorem(
        "No normalised advantage exceeds sqrt(G-1) (population deviation) or (G-1)/sqrt(G) (sample deviation).",
        "derived (Samuelson's inequality)",
        "advantage",
        _bounded,
    ),
    Theorem(
        "For 0/1 rewards a success gets (1-p)/sqrt(p(1-p)) and a failure -p/sqrt(p(1-p)).",
        "Mroueh 2025, arXiv:2503.06639",
        "advantage",
        _binary,
    ),
    Theorem(
        "In a mixed pair advantages are +1 and -1 with the population deviation, +-1/sqrt(2) with the sample one.",
        "It Takes Two, arXiv:2510.00977",
        "advantage",
        _pair,
    ),
    Theorem(
        "A group of G pulls with weight E_k sqrt((k/G)(1-k/G)), k ~ Bin(G, p); p(1-p) for a pair.",
        "derived; It Takes Two, arXiv:2510.00977",
        "expectation",
        _pair_weight,
    ),
    Theorem(
        "With a virtual best sample an all-wrong group gets -1/sqrt(G+1) throughout.",
        "NGRPO, arXiv:2509.18851",
        "advantage",
        _virtual,
    ),
    Theorem(
        "With a virtual best sample the mean advantage of a group is never positive.",
        "derived; NGRPO, arXiv:2509.18851",
        "advantage",
        _negative_mean,
    ),
    Theorem("Half right, MAPO is GRPO.", "MAPO, arXiv:2509.18849", "advantage", _half, 1e-6),
    Theorem(
        "Scenarios whose rewards are all equal have no gradient.", "DAPO, arXiv:2503.14476", "gradient", _zero_variance
    ),
    Theorem(
        "The backward-corrected reward of a noisy verdict is unbiased for the true one.",
        "Natarajan et al. 2013; arXiv:2510.00915",
        "expectation",
        _backward,
        1e-6,
    ),
    Theorem(
        "The forward weights of a noisy verdict are (1 - rho0 - rho1)(r - 1) in expectation.",
        "arXiv:2510.00915",
        "expectation",
        _forward,
        1e-6,
    ),
    Theorem(
        "With constant rates the deviation cancels the backward correction; under mean-centring it rescales.",
        "derived; arXiv:2510.00915",
        "gradient",
        _cancelled,
    ),
    Theorem(
        "Equal advantages give equal gradients per token under Dr. GRPO, and inverse to the length under GRPO.",
        "Dr. GRPO, arXiv:2503.20783",
        "gradient",
        _lengths,
    ),
    Theorem("The leave-one-out gradient is unbiased.", "Kool et al. 2019", "expectation", _unbiased),
    Theorem(
        "The expected mean-centred gradient is (G-1)/G times the true one.",
        "derived; Dr. GRPO, arXiv:2503.20783",
        "expectation",
        _shrunk,
        counter=_shrunk_claim,
        claim="mean-centring alone leaves the policy gradient unbiased",
    ),
    Theorem(
        "For 0/1 rewards division by the deviation keeps the direction of one scenario's expected gradient.",
        "derived; Dr. GRPO, arXiv:2503.20783",
        "expectation",
        _scaled_direction,
        counter=_scaled_claim,
        claim="division by the deviation only re-weights scenarios (graded rewards: the direction bends)",
    ),
)
