"""Of KL estimators and closed forms, by enumeration over a small policy."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.theorems.theorem import Theorem, apart, excess
from hocket.objectives.divergence import Estimator, kl_estimate

ACTIONS = 4


def _policies(key: Key) -> tuple[Tensor, Tensor]:
    """Logits of a policy, differentiable, and log-probs of a reference."""
    rng = key.numpy()
    logits = torch.from_numpy(rng.normal(size=ACTIONS)).requires_grad_()
    return logits, torch.log_softmax(torch.from_numpy(rng.normal(size=ACTIONS)), 0)


def _kl(left: Tensor, right: Tensor) -> Tensor:
    return (left.exp() * (left - right)).sum()


def _value(estimator: Estimator, key: Key) -> tuple[float, float]:
    """The expected estimate under the policy, and KL(pi || ref)."""
    logits, reference = _policies(key)
    logp = torch.log_softmax(logits, 0)
    expected = (logp.exp() * kl_estimate(logp - reference, estimator)).sum()
    return float(expected.detach()), float(_kl(logp, reference).detach())


def _slope(estimator: Estimator, key: Key, *, weighted: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """The expected gradient with samples held fixed, and those of KL(pi || ref) and KL(ref || pi)."""
    logits, reference = _policies(key)
    logp = torch.log_softmax(logits, 0)
    ratio = (logp - logp.detach()).exp() if weighted else 1.0
    term = (logp.detach().exp() * (ratio * kl_estimate(logp - reference, estimator))).sum()
    wanted = (term, _kl(logp, reference), _kl(reference, logp))
    gradients = [torch.autograd.grad(value, logits, retain_graph=True)[0] for value in wanted]
    return gradients[0], gradients[1], gradients[2]


def _k3_positive(key: Key) -> float:
    return excess(0.0, kl_estimate(torch.from_numpy(3 * key.numpy().normal(size=100)), "k3"))


def _unbiased(key: Key) -> float:
    return max(abs(estimate - truth) for estimate, truth in (_value("k1", key), _value("k3", key)))


def _k1_idle(key: Key) -> float:
    return float(_slope("k1", key)[0].abs().max())


def _k2_forward(key: Key) -> float:
    slope, forward, _ = _slope("k2", key)
    return apart(slope, forward)


def _k3_reverse(key: Key) -> float:
    slope, _, reverse = _slope("k3", key)
    return apart(slope, reverse)


def _k3_claim() -> float:
    slope, forward, _ = _slope("k3", Key.of(2))
    return apart(slope, forward)


def _weighted(key: Key) -> float:
    slopes = [_slope(estimator, key, weighted=True) for estimator in ("k1", "k3")]
    return max(apart(slope[0], slope[1]) for slope in slopes)


def _tilt(reference: Tensor, value: Tensor, beta: float) -> Tensor:
    """pi_ref exp(value/beta)/Z as log-probs."""
    return torch.log_softmax(reference + value / beta, 0)


def _optimum(key: Key) -> float:
    """The tilt has zero gradient of E[R] - beta KL, and no neighbour is better."""
    _, reference = _policies(key)
    rng = key.derive("value").numpy()
    value, beta = torch.from_numpy(rng.random(ACTIONS)), 0.2 + float(rng.random())
    logits = _tilt(reference, value, beta).clone().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    gain = (logp.exp() * value).sum() - beta * _kl(logp, reference)
    (slope,) = torch.autograd.grad(gain, logits)
    other = torch.log_softmax(logits.detach() + 0.1 * torch.from_numpy(rng.normal(size=ACTIONS)), 0)
    beside = (other.exp() * value).sum() - beta * _kl(other, reference)
    return max(float(slope.abs().max()), excess(beside, gain.detach()))


def _weight_rises(key: Key) -> float:
    """Along the optimum, E[r_k] rises with its weight: its derivative is Var(r_k)/beta."""
    _, reference = _policies(key)
    rng = key.derive("value").numpy()
    value, beta, step = torch.from_numpy(rng.random(ACTIONS)), 0.5, 1e-5
    weight = float(rng.random())

    def mean(w: float) -> float:
        return float((_tilt(reference, w * value, beta).exp() * value).sum())

    logp = _tilt(reference, weight * value, beta)
    variance = float((logp.exp() * value.square()).sum()) - mean(weight) ** 2
    slope = (mean(weight + step) - mean(weight - step)) / (2 * step)
    return abs(slope - variance / beta)


def _recurrence(rate: float, reference: float, beta: float, epsilon: float) -> float:
    """h(p): the next success rate of GRPO's exact KL-regularised round (Mroueh 2025)."""
    odds = (1 - reference) / reference * math.exp(-1 / (beta * math.sqrt(rate * (1 - rate) + epsilon)))
    return 1 / (1 + odds)


def _recurrence_is_the_tilt(key: Key) -> float:
    """h(p) is the success rate of the tilt by the two advantages at p."""
    rng = key.numpy()
    reference, rate, beta, epsilon = 0.02 + 0.9 * rng.random(), 0.02 + 0.9 * rng.random(), 0.3 + rng.random(), 1e-3
    spread = math.sqrt(rate * (1 - rate) + epsilon)
    logp = _tilt(
        torch.tensor([reference, 1 - reference], dtype=torch.float64).log(),
        torch.tensor([(1 - rate) / spread, -rate / spread], dtype=torch.float64),
        beta,
    )
    return abs(float(logp[0].exp()) - _recurrence(rate, reference, beta, epsilon))


def _amplified(key: Key) -> float:
    """The fixed point of h lies above the reference's success rate, where the iteration settles."""
    rng = key.numpy()
    reference, beta = 0.02 + 0.9 * rng.random(), 1.0 + 4 * rng.random()
    rate = reference
    for _ in range(2000):
        rate = _recurrence(rate, reference, beta, 1e-2)
    return max(abs(rate - _recurrence(rate, reference, beta, 1e-2)), excess(reference, rate))


def _temper(key: Key) -> float:
    """AEPO's term with every answer right: minus the gradient of the cross-entropy to the tempered policy."""
    rng = key.numpy()
    logits = torch.from_numpy(rng.normal(size=ACTIONS)).requires_grad_()
    hot = 0.4 + 2 * float(rng.random())
    logp = torch.log_softmax(logits, 0)
    tempered = torch.softmax(logits.detach() / hot, 0)
    (found,) = torch.autograd.grad((tempered * logp).sum(), logits, retain_graph=True)
    entropy = -(logp.exp() * logp).sum()
    (rise,) = torch.autograd.grad(entropy, logits)
    # A step along it raises entropy exactly when the samples were hotter.
    return apart(found, tempered - logp.exp().detach()) + excess(0.0, (found @ rise) * (1.0 if hot > 1 else -1.0))


THEOREMS = (
    Theorem("k3 is never negative.", "Schulman 2020", "value", _k3_positive),
    Theorem(
        "k1 and k3 are unbiased for KL(pi || ref) under samples from pi.", "Schulman 2020", "expectation", _unbiased
    ),
    Theorem(
        "k1 as a loss has expected gradient 0.",
        "derived; Tang and Munos 2025, arXiv:2506.09477",
        "expectation",
        _k1_idle,
    ),
    Theorem(
        "k2 as a loss has the expected gradient of KL(pi || ref).",
        "derived; arXiv:2506.09477",
        "expectation",
        _k2_forward,
    ),
    Theorem(
        "k3 as a loss has the expected gradient of KL(ref || pi).",
        "derived; arXiv:2506.09477",
        "expectation",
        _k3_reverse,
        counter=_k3_claim,
        claim="GRPO's k3 term is an unbiased KL(pi || ref) penalty: its value is, its gradient is not",
    ),
    Theorem(
        "k1 and k3 times the differentiable ratio have the expected gradient of KL(pi || ref).",
        "DeepSeek-V3.2, arXiv:2512.02556",
        "expectation",
        _weighted,
    ),
    Theorem(
        "E[R] - beta KL(pi || ref) is largest at pi_ref exp(R/beta)/Z.",
        "Peters et al. 2010; DPO, arXiv:2305.18290",
        "value and gradient",
        _optimum,
    ),
    Theorem(
        "On that optimum E[r_k] rises with its weight at the rate Var(r_k)/beta.",
        "derived",
        "expectation",
        _weight_rises,
        1e-6,
    ),
    Theorem(
        "One exact round of GRPO takes the success rate p to h(p).",
        "Mroueh 2025, arXiv:2503.06639",
        "expectation",
        _recurrence_is_the_tilt,
    ),
    Theorem(
        "The fixed point of h lies above the reference's success rate.",
        "Mroueh 2025, arXiv:2503.06639",
        "value",
        _amplified,
        1e-6,
    ),
    Theorem(
        "Learning from tempered samples of one's own raises entropy above temperature 1 and lowers it below.",
        "derived; AEPO, arXiv:2510.08141",
        "gradient",
        _temper,
    ),
)
