"""Divergences beside independent formulas and those of TRL 1.16, with gradients, and where probabilities are 0."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hocket.core.divergences import (
    Alpha,
    Divergence,
    DivergencePart,
    JensenShannon,
    KLMixture,
    SkewedForward,
    SkewedReverse,
    TopActions,
)
from hocket.core.errors import ConfigurationError
from hocket.lab.policy import Tabular
from hocket.lab.world import World

FORMS = [
    *(JensenShannon(beta) for beta in (0.0, 0.1, 0.5, 0.9, 1.0)),
    *(SkewedForward(alpha) for alpha in (0.0, 0.1, 0.7)),
    *(SkewedReverse(alpha) for alpha in (0.0, 0.1, 0.7)),
    *(Alpha(alpha) for alpha in (0.0, 0.3, 1.0)),
    *(KLMixture(weight) for weight in (0.0, 0.3, 1.0)),
    TopActions(JensenShannon(0.5), 3),
    TopActions(JensenShannon(1.0), 2, by="policy", rest=False),
]


def logits(seed: int, rows: int = 5, width: int = 7) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = (2 * torch.randn(rows, width, generator=generator, dtype=torch.float64) for _ in range(2))
    return first.requires_grad_(), second


def kl(first: np.ndarray, second: np.ndarray) -> float:
    return sum(a * math.log(a / b) for a, b in zip(first, second, strict=True) if a > 0)


def by_hand(form: Divergence, p: np.ndarray, q: np.ndarray) -> float:
    """In probabilities, number by number."""
    match form:
        case JensenShannon(0.0) | SkewedForward(0.0) | Alpha(1.0):
            return kl(q, p)
        case JensenShannon(1.0) | SkewedReverse(0.0) | Alpha(0.0):
            return kl(p, q)
        case JensenShannon(b):
            m = (1 - b) * p + b * q
            return b * kl(q, m) + (1 - b) * kl(p, m)
        case SkewedForward(a):
            return kl(q, a * q + (1 - a) * p)
        case SkewedReverse(a):
            return kl(p, a * p + (1 - a) * q)
        case Alpha(a):
            return (1 - sum(q**a * p ** (1 - a))) / (a * (1 - a))
        case KLMixture(w):
            return w * kl(q, p) + (1 - w) * kl(p, q)
        case TopActions(of, count, by, rest):
            chosen = np.argsort(-(p if by == "policy" else q))[:count]
            parts = [one[chosen] for one in (p, q)]
            if rest:
                return by_hand(of, *(np.append(part, 1 - part.sum()) for part in parts))
            return by_hand(of, *(part / part.sum() for part in parts))
    raise AssertionError(form)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_each_is_its_formula_with_its_gradient(form):
    for seed in range(5):
        policy, reference = logits(seed)
        value = form(policy.log_softmax(-1), reference.log_softmax(-1))
        tables = policy.detach().softmax(-1).numpy(), reference.softmax(-1).numpy()
        assert value.tolist() == pytest.approx([by_hand(form, p, q) for p, q in zip(*tables, strict=True)], abs=1e-12)
        (slope,) = torch.autograd.grad(value.sum(), policy)
        moved = policy.detach().clone()
        moved[2, 3] += 1e-6
        there = by_hand(form, moved.softmax(-1)[2].numpy(), tables[1][2])
        moved[2, 3] -= 2e-6
        back = by_hand(form, moved.softmax(-1)[2].numpy(), tables[1][2])
        assert float(slope[2, 3]) == pytest.approx((there - back) / 2e-6, abs=1e-7)


@given(seed=st.integers(0, 10**6), form=st.sampled_from([form for form in FORMS if not isinstance(form, TopActions)]))
def test_none_is_negative_and_each_is_0_at_the_reference(seed, form):
    policy, reference = logits(seed)
    with torch.no_grad():
        value = form(policy.log_softmax(-1), reference.log_softmax(-1))
        same = form(reference.log_softmax(-1), reference.log_softmax(-1))
    assert bool((value > 0).all())
    assert same.abs().max() < 1e-12
    if isinstance(form, JensenShannon | SkewedForward | SkewedReverse):
        share = form.beta if isinstance(form, JensenShannon) else form.alpha
        bound = math.inf if share in (0, 1) else -math.log(min(share, 1 - share) if hasattr(form, "beta") else share)
        assert float(value.max()) <= bound + 1e-12


def test_towards_its_ends_the_jensen_shannon_form_becomes_the_two_kls():
    policy, reference = (one.detach().log_softmax(-1) for one in logits(3))
    for beta, end in ((1e-6, 0.0), (1 - 1e-6, 1.0)):
        scaled = JensenShannon(beta)(policy, reference) / min(beta, 1 - beta)
        assert torch.allclose(scaled, JensenShannon(end)(policy, reference), rtol=1e-4)


def test_what_has_no_probability_adds_nothing_and_has_no_gradient():
    policy, reference = logits(0)
    barred = torch.zeros(5, 7, dtype=torch.bool)
    barred[:, 4:] = True
    for form in FORMS:
        masked, other = (one.masked_fill(barred, -math.inf).log_softmax(-1) for one in (policy, reference))
        small = form(policy[:, :4].log_softmax(-1), reference[:, :4].log_softmax(-1))
        value = form(masked, other)
        assert torch.allclose(value, small, atol=1e-12), form
        (slope,) = torch.autograd.grad(value.sum(), policy)
        assert torch.isfinite(slope).all(), form
        assert not slope[:, 4:].any(), form


def test_a_reference_without_an_action_of_the_policy_is_infinitely_far_by_reverse_kl_alone():
    policy = torch.full((1, 2), 0.5, dtype=torch.float64).log()
    reference = torch.tensor([[0.0, -math.inf]], dtype=torch.float64)
    assert JensenShannon(1.0)(policy, reference).item() == math.inf
    assert JensenShannon(0.0)(policy, reference).item() == pytest.approx(math.log(2))
    assert Alpha(0.5)(policy, reference).item() == pytest.approx(4 * (1 - math.sqrt(0.5)))
    assert Alpha(0.5)(torch.tensor([[-math.inf, 0.0]]).double(), reference).item() == pytest.approx(4.0)


# ------------------------------------------------------------ TRL 1.16, written from its functions


def trl_jsd(student: Tensor, teacher: Tensor, beta: float) -> Tensor:
    """`generalized_jsd_loss` of GKDTrainer and `compute_divergence` of SDFT, from log-probs, per place."""
    if beta == 0:
        return F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)
    if beta == 1:
        return F.kl_div(teacher, student, reduction="none", log_target=True).sum(-1)
    mixture = torch.logsumexp(torch.stack([student + math.log1p(-beta), teacher + math.log(beta)]), 0)
    parts = (F.kl_div(mixture, one, reduction="none", log_target=True).sum(-1) for one in (teacher, student))
    return sum(share * part for share, part in zip((beta, 1 - beta), parts, strict=True))


def trl_top(student: Tensor, teacher: Tensor, count: int, beta: float, tail: bool) -> Tensor:
    """`compute_topk_self_distillation_loss` of SDFT: the student's likeliest tokens, with a tail or renormalised."""
    top, place = student.topk(count, -1)
    both = [top, teacher.gather(-1, place)]
    if not tail:
        return trl_jsd(*(one - one.logsumexp(-1, keepdim=True) for one in both), beta)
    sums = [one.logsumexp(-1, keepdim=True).clamp(max=-1e-7) for one in both]
    return trl_jsd(*(torch.cat([one, (-whole.expm1()).log()], -1) for one, whole in zip(both, sums, strict=True)), beta)


@pytest.mark.parametrize("beta", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("top", [None, (3, True), (3, False), (1, True)], ids=str)
def test_values_and_gradients_are_those_of_trl(beta, top):
    policy, reference = logits(11)
    student, teacher = policy.log_softmax(-1), reference.log_softmax(-1)
    form: Divergence = JensenShannon(beta)
    theirs = trl_jsd(student, teacher, beta)
    if top is not None:
        count, tail = top
        form, theirs = TopActions(form, count, by="policy", rest=tail), trl_top(student, teacher, count, beta, tail)
    ours = form(student, teacher)
    assert torch.allclose(ours, theirs, atol=1e-9)
    slopes = [torch.autograd.grad(one.mean(), policy, retain_graph=True)[0] for one in (ours, theirs)]
    assert torch.allclose(*slopes, atol=1e-9)


# ------------------------------------------------------------ NeMo-RL, written from its function


def nemo_kl(student: Tensor, teacher: Tensor, kind: str, weight: float) -> Tensor:
    """`DistillationLossFn` without `zero_outside_topk`, from log-probs over the teacher's top k, per place."""
    forward = teacher.exp() * (teacher - student)
    reverse = student.exp() * (student - teacher)
    mixed = weight * forward + (1.0 - weight) * reverse
    return {"forward": forward, "reverse": reverse, "mixed": mixed}[kind].sum(-1)


@pytest.mark.parametrize("kind", ["forward", "reverse", "mixed"])
def test_values_and_gradients_are_those_of_nemo_rl(kind):
    policy, reference = logits(12)
    top, place = reference.topk(4, -1)
    theirs = nemo_kl(policy.gather(-1, place).log_softmax(-1), top.log_softmax(-1), kind, 0.3)
    of = {"forward": JensenShannon(0.0), "reverse": JensenShannon(1.0), "mixed": KLMixture(0.3)}[kind]
    ours = TopActions(of, 4, by="reference", rest=False)(policy.log_softmax(-1), reference.log_softmax(-1))
    assert torch.allclose(ours, theirs, atol=1e-9)
    slopes = [torch.autograd.grad(one.mean(), policy, retain_graph=True)[0] for one in (ours, theirs)]
    assert torch.allclose(*slopes, atol=1e-9)


# ------------------------------------------------------------ what they are for


def test_with_the_rest_the_mass_outside_is_learnt_and_without_it_is_not():
    """The likeliest two of the teacher hold .9. The student starts with .2 there, in the right proportion."""
    reference = torch.tensor([[0.6, 0.3, 0.05, 0.05]], dtype=torch.float64).log()
    start = torch.tensor([[0.4 / 3, 0.2 / 3, 0.4, 0.4]], dtype=torch.float64).log()
    for rest, expected in ((True, 0.9), (False, 0.2)):
        policy = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([policy], 0.05)
        for _ in range(400):
            optimiser.zero_grad()
            TopActions(JensenShannon(0.0), 2, rest=rest)(policy.log_softmax(-1), reference).sum().backward()
            optimiser.step()
        assert float(policy.detach().softmax(-1)[0, :2].sum()) == pytest.approx(expected, abs=1e-3)


def moments(logp: Tensor) -> tuple[float, float]:
    """Mean and deviation of the place."""
    places, share = torch.arange(logp.shape[-1]), logp.exp()[0]
    mean = float((places * share).sum())
    return mean, math.sqrt(float(((places - mean) ** 2 * share).sum()))


def test_the_forward_form_covers_two_modes_and_the_reverse_form_chooses_one():
    """A student of one bump on a line of 21 places; the teacher has two."""
    places = torch.arange(21, dtype=torch.float64)
    bump = [-((places - centre) ** 2) / 4 for centre in (5, 15)]
    reference = torch.logaddexp(*bump).log_softmax(-1)[None]
    ends = {}
    for beta in (0.0, 1.0):
        parameters = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (7.0, 0.5)]
        optimiser = torch.optim.Adam(parameters, 0.1)
        for _ in range(400):
            optimiser.zero_grad()
            policy = (-((places - parameters[0]) ** 2) / (2 * parameters[1].exp() ** 2)).log_softmax(-1)[None]
            JensenShannon(beta)(policy, reference).sum().backward()
            optimiser.step()
        ends[beta] = moments(policy.detach())
    assert ends[0.0] == pytest.approx(moments(reference), abs=0.1)
    assert ends[1.0] == pytest.approx((5, math.sqrt(2)), abs=0.02)


def test_a_policy_has_one_divergence():
    policy = Tabular(World(1, 3, 1, lambda _, answer: 0.0))
    DivergencePart(JensenShannon(0.5)).install(policy)
    DivergencePart(JensenShannon(0.5)).install(policy)
    with pytest.raises(ConfigurationError, match="two divergences"):
        DivergencePart(JensenShannon(1.0)).install(policy)


@pytest.mark.parametrize(
    "make",
    [
        lambda: JensenShannon(-0.1),
        lambda: JensenShannon(1.1),
        lambda: SkewedForward(1.0),
        lambda: SkewedReverse(1.0),
        lambda: Alpha(2.0),
        lambda: TopActions(count=0),
        lambda: TopActions(by="nobody"),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r"must|choose"):
        make()


def test_more_actions_than_there_are_is_all_of_them():
    policy, reference = (one.detach().log_softmax(-1) for one in logits(2))
    whole = JensenShannon(0.5)(policy, reference)
    assert torch.equal(TopActions(count=7)(policy, reference), whole)
    shares = [float(TopActions(count=count)(policy, reference).sum()) for count in range(1, 8)]
    assert all(less <= more + 1e-12 for less, more in pairwise(shares))
