"""Geometric means, masks, adaptive clips, NFT, DisCO and preference levels, against loops in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, batches, close, naive_total, occurrences, total_of, value_and_gradient

from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.methods.group_relative.bapo import AdaptiveClip, positive_share
from hocket.methods.group_relative.disco import Discriminative, discrimination
from hocket.methods.group_relative.gmpo import GeometricMean
from hocket.methods.group_relative.group_relative_reinforce import MaskedPolicyGradient
from hocket.methods.group_relative.nft import NegativeAwareLikelihood, negative_likelihood
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.preference import DPO
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.types import Evaluation

many = settings(max_examples=60, deadline=None)
AGGREGATES = st.sampled_from(["token-mean", "sequence-mean", "sequence-sum", "constant-length"])


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def near_an_edge(batch, logp, *edges: float) -> bool:
    """Whether some log-ratio stands on a bound, where any subgradient is right."""
    gap = (logp - batch.logp["behaviour"].values)[batch.occurrences.decision]
    return any(bool(((gap - edge).abs() < 1e-9).any()) for edge in edges)


# ---------------------------------------------------------------- geometric mean


@many
@given(batches())
def test_the_geometric_mean(drawn):
    batch, logp = drawn
    old = batch.logp["behaviour"].values
    if near_an_edge(batch, logp, 0.4, -0.2):
        return

    def naive(x):
        parts = []
        for row in occurrences(batch):
            part = []
            ratios = [
                torch.exp(
                    torch.maximum(x[d] - old[d], doubles(-0.2)) if a < 0 else torch.minimum(x[d] - old[d], doubles(0.4))
                )
                for d, a, _ in row
            ]
            whole = torch.stack(ratios).prod() ** (1 / len(row)) if row else doubles(1)
            part += [(weight, -advantage * whole) for _, advantage, weight in row]
            parts.append(part)
        return naive_total(parts, "sequence-mean", 1)

    found = value_and_gradient(total_of(GeometricMean(low=0.2, high=0.4), batch), logp)
    wanted = value_and_gradient(lambda x: naive(x).sum(), logp)
    close(found[0], wanted[0], 1e-7)
    close(found[1], wanted[1], 1e-7)


@many
@given(batches(credit=["zero", "trajectory"]))
def test_at_the_old_policy_it_is_grpo(drawn):
    batch, _ = drawn
    batch = batch.credited(weight=(batch.occurrences.weight != 0).double())
    old = batch.logp["behaviour"].values
    ours = value_and_gradient(total_of(GeometricMean(), batch), old)
    theirs = value_and_gradient(total_of(ClippedSurrogate(), batch), old)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


# ---------------------------------------------------------------- masks


@many
@given(batches(), AGGREGATES)
def test_mask_and_ratio_make_ppo(drawn, aggregate):
    batch, logp = drawn
    if near_an_edge(batch, logp, math.log(0.8), math.log(1.2)):
        return
    ours = value_and_gradient(total_of(MaskedPolicyGradient(weighted=True, aggregate=aggregate), batch), logp)[1]
    close(ours, value_and_gradient(total_of(ClippedSurrogate(aggregate=aggregate), batch), logp)[1])


@many
@given(batches(), AGGREGATES)
def test_no_mask_is_reinforce_and_two_sides_keep_less_than_one(drawn, aggregate):
    batch, logp = drawn
    plain = value_and_gradient(total_of(PolicyGradient(aggregate), batch), logp)[1]
    free, one, two = (
        value_and_gradient(total_of(MaskedPolicyGradient(sides=sides, aggregate=aggregate), batch), logp)[1]
        for sides in ("none", "one", "two")
    )
    close(free, plain)
    if len(set(batch.occurrences.decision.tolist())) == len(batch.occurrences):
        assert bool(((one == 0) | (one == plain)).all())
        assert bool(((two == 0) | (two == one)).all())


# ---------------------------------------------------------------- adaptive clip


@many
@given(batches(), AGGREGATES)
def test_bounds_that_cannot_move_make_ppo(drawn, aggregate):
    batch, logp = drawn
    fixed = AdaptiveClip(low=0.7, low_limit=0.7, high=1.5, high_limit=1.5, dual=4.0, aggregate=aggregate)
    ours = value_and_gradient(total_of(fixed, batch), logp)
    theirs = value_and_gradient(total_of(ClippedSurrogate(0.3, 0.5, dual=4.0, aggregate=aggregate), batch), logp)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


@many
@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_search_stops_at_the_first_bounds_that_suffice(seed, share):
    noise = Key.of(seed).numpy()
    ratio = torch.from_numpy(noise.uniform(0.1, 4.0, 40))
    gain = torch.from_numpy(noise.normal(size=40) - 0.5)
    objective = AdaptiveClip(share=share)
    low, high = objective.bounds(ratio, gain)
    reached = positive_share(ratio, gain, low, high, 3.0) >= share
    assert reached or (low, high) == (0.9, 3.0)
    if low > 0.6 and high == 1.2:
        assert positive_share(ratio, gain, max(0.6, low - 0.05), high, 3.0) < share
    if high > 1.2:
        assert low == 0.9


@many
@given(st.integers(0, 10**6))
def test_the_share_rises_with_either_bound(seed):
    noise = Key.of(seed).numpy()
    ratio, gain = torch.from_numpy(noise.uniform(0.1, 4.0, 30)), torch.from_numpy(noise.normal(size=30))
    lows = [positive_share(ratio, gain, low, 1.2, 3.0) for low in (0.5, 0.7, 0.9, 1.0)]
    highs = [positive_share(ratio, gain, 0.8, high, 3.0) for high in (1.0, 1.5, 2.5, 5.0)]
    assert lows == sorted(lows)
    assert highs == sorted(highs)


# ---------------------------------------------------------------- nft


@many
@given(st.floats(-5, 5), st.floats(0.02, 0.98), st.floats(0.05, 1.0))
def test_negative_likelihood_is_the_logarithm_above_its_floor_and_a_line_below(gap, rate, floor):
    value, slope = value_and_gradient(lambda x: negative_likelihood(x.exp(), doubles(rate), floor).sum(), doubles(gap))
    implied = (1 - rate * math.exp(gap)) / (1 - rate)
    bounded = max(implied, floor)
    assert float(value) == pytest.approx(-math.log(bounded), abs=1e-12)
    assert float(slope) == pytest.approx(rate * math.exp(gap) / (1 - rate) / bounded)


def test_nft_reads_verdict_and_rate_off_the_advantage():
    """One right answer of four, two decisions each: loss and gradient by hand."""
    rows = [[0, 1], [2, 3], [4, 5], [6, 7]]
    advantage = doubles(0.75, 0.75, *[-0.25] * 6)
    batch = batch_of(rows, behaviour=doubles(*[-1] * 8), advantage=advantage)
    logp = doubles(-0.9, -1.2, -1.1, -1.0, -0.8, -2.0, -1.0, -1.0)
    loss = NegativeAwareLikelihood(floor=0.1, prompts="failure", aggregate="sequence-sum")
    value, gradient = value_and_gradient(total_of(loss, batch), logp)
    ratio = (logp + 1).exp()
    wanted = torch.where(advantage > 0, -(logp + 1), -((1 - 0.25 * ratio) / 0.75).log())
    close(value, 0.75 * wanted.sum() / 4)
    slope = torch.where(advantage > 0, -torch.ones(8).double(), 0.25 * ratio / (1 - 0.25 * ratio))
    close(gradient, 0.75 * slope / 4)


# ---------------------------------------------------------------- disco


@many
@given(st.integers(0, 10**6), st.sampled_from([None, 0.1, 1.0, 10.0]))
def test_discrimination_by_hand(seed, temperature):
    noise = Key.of(seed).numpy()
    score = torch.from_numpy(noise.normal(size=12) * 3)
    right = torch.from_numpy(noise.random(12) < 0.5)
    group = torch.from_numpy(noise.integers(0, 3, 12))
    wrong = ~right & torch.from_numpy(noise.random(12) < 0.8)
    found = value_and_gradient(lambda s: discrimination(s, right, wrong, group, 4, temperature).sum(), score)

    def naive(s):
        total = (s * 0).sum()
        for g in range(3):
            good, bad = s[right & (group == g)], s[wrong & (group == g)]
            if len(good) and len(bad):
                top = bad.mean() if temperature is None else temperature * (bad / temperature).exp().mean().log()
                total = total + top - good.mean()
        return total

    wanted = value_and_gradient(naive, score)
    close(found[0], wanted[0], 1e-8)
    close(found[1], wanted[1], 1e-8)


def test_a_colder_soft_max_looks_at_the_hardest_wrong_answer():
    score, right = doubles(0.0, 1.0, 2.0), torch.tensor([True, False, False])
    group = torch.zeros(3, dtype=torch.long)
    cold = discrimination(score, right, ~right, group, 1, 0.01)
    assert float(cold) == pytest.approx(2.0, abs=0.01)


# ---------------------------------------------------------------- preference levels


def test_top_pairs_weigh_more_and_lone_trajectories_move_by_their_sign():
    reference = doubles(-1, -1, -1, -1)
    rows, pairs = [[0], [1], [2], [3]], torch.tensor([[0, 1]])
    advantage = doubles(1, -1, 1, -1)
    batch = batch_of(rows, reference=reference, advantage=advantage).credited(pairs=pairs)
    logp = doubles(-0.8, -1.1, -0.9, -1.3)
    value, gradient = value_and_gradient(total_of(DPO(0.1, top=2.5, lone=True), batch), logp)
    terms = [math.log1p(math.exp(-0.25 * 0.3)), math.log1p(math.exp(-0.1)), math.log1p(math.exp(-0.3))]
    assert float(value) == pytest.approx(sum(terms) / 3)
    down = 1 / (1 + math.exp(0.3))
    close(gradient[3], doubles(down / 3)[0])
    assert float(gradient[0]) == pytest.approx(-0.25 / (1 + math.exp(0.075)) / 3)


# ---------------------------------------------------------------- limits

LOSSES = [
    GeometricMean(),
    MaskedPolicyGradient(),
    MaskedPolicyGradient(weighted=True),
    MaskedPolicyGradient(sides="none"),
    AdaptiveClip(),
    NegativeAwareLikelihood(),
    NegativeAwareLikelihood(floor=0.01, prompts="deviation"),
    Discriminative(),
    Discriminative(score="ratio", temperature=1.0),
    Discriminative(score="ratio", temperature=None),
]


@pytest.mark.parametrize("objective", LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [50.0, -50.0, 300.0])
def test_everything_is_finite_far_away(objective, dtype, gap):
    rows = [list(range(10)), [10], [11, 12]]
    old = torch.zeros(13, dtype=dtype)
    advantage = torch.tensor([0.4] * 10 + [-0.6] + [0.4] * 2, dtype=dtype)
    batch = batch_of(rows, behaviour=old, advantage=advantage)
    value, gradient = value_and_gradient(total_of(objective, batch), old + gap)
    assert bool(value.isfinite())
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("objective", LOSSES, ids=repr)
def test_nothing_counted_and_no_advantage_are_no_gradient(objective):
    for weight, advantage in ((doubles(0, 0), doubles(1, -1)), (doubles(1, 1), doubles(0, 0))):
        batch = batch_of([[0], [1]], behaviour=doubles(-1, -1), weight=weight, advantage=advantage)
        value, gradient = value_and_gradient(total_of(objective, batch), doubles(-1.5, -0.2))
        assert float(value) == 0
        assert not gradient.any()


@many
@given(batches(), st.sampled_from(LOSSES))
def test_values_are_finite_and_weightless_decisions_have_no_gradient(drawn, objective):
    batch, logp = drawn
    value, gradient = value_and_gradient(total_of(objective, batch), logp)
    assert bool(value.isfinite())
    used = set(batch.occurrences.decision[batch.occurrences.weight != 0].tolist())
    idle = [d for d in range(batch.decisions) if d not in used]
    assert not gradient[idle].any()


def test_units_say_what_may_not_be_split():
    batch = batch_of([[0], [1]], behaviour=doubles(-1, -1), advantage=doubles(0.5, -0.5))
    units = {GeometricMean(): Level.TRAJECTORY, AdaptiveClip(): Level.BATCH, Discriminative(): Level.GROUP}
    for objective, unit in units.items():
        assert objective.couples is unit
        assert objective(Evaluation(doubles(-1, -1)), batch).unit is unit


@pytest.mark.parametrize(
    ("kind", "given_settings"),
    [
        (GeometricMean, {"low": -0.1}),
        (MaskedPolicyGradient, {"sides": "both"}),
        (MaskedPolicyGradient, {"low": 2.0}),
        (AdaptiveClip, {"low": 0.95}),
        (AdaptiveClip, {"low_step": 0.0}),
        (AdaptiveClip, {"share": 2.0}),
        (AdaptiveClip, {"dual": 1.0}),
        (NegativeAwareLikelihood, {"floor": 0.0}),
        (NegativeAwareLikelihood, {"prompts": "all"}),
        (Discriminative, {"score": "sum"}),
        (Discriminative, {"temperature": 0.0}),
        (DPO, {"top": 0.0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, given_settings):
    with pytest.raises(ValueError, match=next(iter(given_settings))):
        kind(**given_settings)
