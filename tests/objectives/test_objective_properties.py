"""Stated properties of the papers, one by one."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, batches, close, total_of, value_and_gradient

from hocket.core.batch import Level, RecordedNumbers
from hocket.core.errors import HocketError
from hocket.objectives.divergence import KLToReference
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.importance import ClippedImportanceWeight, clipped_importance_weight
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.measures import LogRatio
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.preference import Pairwise
from hocket.objectives.ratios import BOUND, saturated
from hocket.objectives.surrogate import ClippedSurrogate, clipped_surrogate
from hocket.objectives.value import ValueLoss
from hocket.types import Evaluation

many = settings(max_examples=60, deadline=None)
AGGREGATES = ["token-mean", "sequence-mean", "sequence-sum", "constant-length"]


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def one_decision(advantage: float, log_ratio: float, objective, dtype=torch.float64):
    """Loss and gradient of a batch of one decision."""
    batch = batch_of([[0]], behaviour=torch.zeros(1, dtype=dtype), advantage=torch.tensor([advantage], dtype=dtype))
    return value_and_gradient(total_of(objective, batch), torch.tensor([log_ratio], dtype=dtype))


# ---------------------------------------------------------------- aggregation


def lengths_10_and_100():
    rows = [list(range(10)), list(range(10, 110))]
    return batch_of(rows, behaviour=torch.zeros(110).double(), advantage=-torch.ones(110).double())


def test_dr_grpo_gives_tokens_of_short_and_long_answers_equal_gradient_and_grpo_ten_times_more_to_short_ones():
    batch, logp = lengths_10_and_100(), torch.zeros(110).double()
    constant = value_and_gradient(total_of(ClippedSurrogate(aggregate="constant-length"), batch), logp)[1]
    assert constant.unique().numel() == 1
    per_sequence = value_and_gradient(total_of(ClippedSurrogate(aggregate="sequence-mean"), batch), logp)[1]
    assert float(per_sequence[0] / per_sequence[10]) == pytest.approx(10.0)


def test_the_constant_length_is_a_constant():
    batch, logp = lengths_10_and_100(), torch.zeros(110).double()
    short, long = (
        total_of(ClippedSurrogate(aggregate="constant-length", horizon=horizon), batch)(logp) for horizon in (100, 1000)
    )
    close(short, 10 * long)
    close(long, doubles(110 / (2 * 1000))[0])


def test_filtered_trajectories_are_not_counted_and_importance_weights_do_not_change_denominators():
    rows = [[0, 1], [2, 3], [4]]
    weight = doubles(1, 1, 0, 0, 1)
    batch = batch_of(rows, behaviour=doubles(0, 0, 0, 0, 0), weight=weight, advantage=torch.ones(5).double())
    gradient = value_and_gradient(total_of(ClippedSurrogate(), batch), torch.zeros(5).double())[1]
    close(gradient, doubles(-1 / 4, -1 / 4, 0, 0, -1 / 2))
    halved = batch.credited(weight=weight * doubles(0.5, 1, 1, 1, 1))
    gradient = value_and_gradient(total_of(ClippedSurrogate(), halved), torch.zeros(5).double())[1]
    close(gradient, doubles(-1 / 8, -1 / 4, 0, 0, -1 / 2))


# ---------------------------------------------------------------- surrogates


@many
@given(batches(), st.sampled_from(AGGREGATES))
def test_at_the_old_policy_the_surrogates_have_the_gradient_of_reinforce(drawn, aggregate):
    batch, _ = drawn
    old = batch.logp["behaviour"].values
    expected = value_and_gradient(total_of(PolicyGradient(aggregate), batch), old)[1]
    for objective in (
        ClippedSurrogate(aggregate=aggregate),
        ClippedSurrogate(dual=3.0, aggregate=aggregate),
        ClippedSurrogate(ratio="sequence-token", aggregate=aggregate),
        ClippedImportanceWeight(aggregate=aggregate),
    ):
        close(value_and_gradient(total_of(objective, batch), old)[1], expected)


@many
@given(batches(credit=["zero", "trajectory"]), st.sampled_from(AGGREGATES))
def test_gspo_and_gspo_token_have_equal_gradients_for_constant_advantages(drawn, aggregate):
    batch, logp = drawn
    batch = batch.credited(weight=(batch.occurrences.weight != 0).double())
    whole, token = (
        value_and_gradient(total_of(ClippedSurrogate(3e-4, 4e-4, ratio=ratio, aggregate=aggregate), batch), logp)
        for ratio in ("sequence", "sequence-token")
    )
    close(whole[0], token[0])
    close(whole[1], token[1])


def test_gspo_clips_whole_sequences():
    old, advantage = torch.zeros(4).double(), doubles(1, 1, 1, 1)
    batch = batch_of([[0, 1], [2, 3]], behaviour=old, advantage=advantage)
    logp = doubles(0.5, -0.5, 0.5, 0.1)  # means 0 and 0.3: the second sequence is clipped, the first is not
    gradient = value_and_gradient(total_of(ClippedSurrogate(ratio="sequence"), batch), logp)[1]
    close(gradient, doubles(-0.25, -0.25, 0, 0))
    terms = ClippedSurrogate(ratio="sequence")(Evaluation(logp), batch)
    assert terms.unit is Level.TRAJECTORY
    assert float(terms.metrics["ratio/clipped"]) == 0.5


@many
@given(st.floats(-8, 8), st.floats(-3, 3), st.floats(1.01, 5))
def test_the_dual_clip_bounds_the_loss(log_ratio, advantage, dual):
    ratio = doubles(math.exp(log_ratio))
    plain = clipped_surrogate(ratio, doubles(advantage), 0.2, 0.2)
    bounded = clipped_surrogate(ratio, doubles(advantage), 0.2, 0.2, dual)
    assert float(bounded) <= float(plain)
    if advantage < 0:
        assert float(bounded) <= dual * -advantage + 1e-12
    else:
        assert float(bounded) == float(plain)


@pytest.mark.parametrize(
    ("advantage", "log_ratio", "moves"), [(1, 1, False), (1, -1, True), (-1, 1, True), (-1, -1, False)]
)
def test_the_clip_takes_the_gradient_only_where_the_step_went_too_far(advantage, log_ratio, moves):
    _, gradient = one_decision(advantage, log_ratio, ClippedSurrogate())
    assert (float(gradient) != 0) == moves
    _, kept = one_decision(advantage, log_ratio, ClippedImportanceWeight(high=0.2))
    assert float(kept) == pytest.approx(-advantage * min(math.exp(log_ratio), 1.2))


@many
@given(st.floats(-49, 49), st.floats(-3, 3).filter(lambda a: abs(a) > 1e-3))
def test_cispo_never_loses_a_decision(log_ratio, advantage):
    _, gradient = one_decision(advantage, log_ratio, ClippedImportanceWeight())
    assert float(gradient) == pytest.approx(-advantage * min(math.exp(log_ratio), 5.0))


def test_cispo_treats_the_ratio_as_a_constant_whoever_calls():
    weight = doubles(2.0).requires_grad_()
    assert not clipped_importance_weight(doubles(-1.0), weight, doubles(1.0), None, 4.0).requires_grad


def test_cispo_clips_below_only_when_asked():
    assert float(one_decision(1, -5, ClippedImportanceWeight())[1]) == pytest.approx(-math.exp(-5))
    assert float(one_decision(1, -5, ClippedImportanceWeight(low=0.2))[1]) == pytest.approx(-0.8)


def test_metrics_of_the_ratio():
    batch = batch_of([[0, 1, 2, 3]], behaviour=torch.zeros(4).double(), advantage=doubles(1, -1, 1, 0))
    logp = doubles(1.0, 60.0, 0.0, 70.0)
    metrics = ClippedSurrogate()(Evaluation(logp), batch).metrics
    assert float(metrics["ratio/clipped"]) == pytest.approx(1 / 3)
    assert float(metrics["ratio/saturated"]) == 1
    assert float(ClippedSurrogate(dual=3.0)(Evaluation(logp), batch).metrics["ratio/clipped"]) == pytest.approx(2 / 3)


# ---------------------------------------------------------------- saturation

RATIO_LOSSES = [
    ClippedSurrogate(),
    ClippedSurrogate(dual=3.0),
    ClippedSurrogate(ratio="sequence"),
    ClippedSurrogate(ratio="sequence-token"),
    ClippedImportanceWeight(low=0.5),
    KLToReference("k1"),
    KLToReference("k2"),
    KLToReference("k3"),
    PolicyGradient(),
    NegativeLogLikelihood(),
]


@pytest.mark.parametrize("objective", RATIO_LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [50.0, -50.0, 300.0, -300.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_everything_is_finite_far_away(objective, dtype, gap, advantage):
    rows = [list(range(10)), [10]]
    old = torch.zeros(11, dtype=dtype)
    batch = batch_of(rows, behaviour=old, reference=old, advantage=torch.full((11,), advantage, dtype=dtype))
    value, gradient = value_and_gradient(total_of(objective, batch), old + gap)
    assert bool(value.isfinite())
    assert bool(gradient.isfinite().all())


def test_beyond_the_bound_a_ratio_has_the_value_and_gradient_of_the_bound():
    for gap in (BOUND, BOUND + 1, 10 * BOUND):
        value, gradient = one_decision(-1.0, gap, ClippedSurrogate())
        assert float(value) == float(gradient) == math.exp(BOUND)
    for gap in (-BOUND, -BOUND - 1, -10 * BOUND):
        value, gradient = one_decision(1.0, gap, ClippedSurrogate())
        assert float(value) == float(gradient) == pytest.approx(-math.exp(-BOUND), rel=1e-12)
        assert float(gradient) != 0


def test_k3_keeps_its_pull_beyond_the_bound():
    batch = batch_of([[0]], reference=torch.zeros(1).double())
    objective = total_of(KLToReference("k3", 1.0), batch)
    at, beyond = (value_and_gradient(objective, doubles(-gap)) for gap in (BOUND, BOUND + 30))
    close(at[0], beyond[0])
    close(at[1], beyond[1])
    assert float(beyond[1]) == pytest.approx(1 - math.exp(BOUND))


@many
@given(st.floats(-500, 500))
def test_saturation_changes_nothing_within_the_bound(x):
    value, gradient = value_and_gradient(lambda leaf: saturated(leaf).sum(), doubles(x))
    assert float(value) == max(-BOUND, min(BOUND, x))
    assert float(gradient) == 1.0


# ---------------------------------------------------------------- what a ratio is taken against


def test_the_ratio_is_against_the_proximal_policy_when_it_is_known():
    batch = batch_of([[0, 1]], behaviour=doubles(0, 0), proximal=doubles(-1, -1), advantage=doubles(1, 1))
    logp = doubles(-1, -1)
    assert float(total_of(ClippedSurrogate(), batch)(logp)) == -1.0
    partial = batch.but(logp={**batch.logp, "proximal": RecordedNumbers(doubles(-1, -1), torch.tensor([True, False]))})
    assert float(total_of(ClippedSurrogate(), partial)(logp)) == pytest.approx(-math.exp(-1))


def test_a_missing_log_prob_is_named_only_if_it_counts():
    batch = batch_of([[0, 1]], behaviour=doubles(0, 0), advantage=doubles(1, 1))
    holes = batch.but(logp={"behaviour": RecordedNumbers(doubles(0, 0), torch.tensor([True, False]))})
    with pytest.raises(HocketError, match="1 decisions have no behaviour"):
        ClippedSurrogate()(Evaluation(doubles(0, 0)), holes)
    unused = holes.credited(weight=doubles(1, 0))
    assert float(total_of(ClippedSurrogate(), unused)(doubles(0, 0))) == -1.0
    with pytest.raises(HocketError, match="reference"):
        KLToReference()(Evaluation(doubles(0, 0)), batch)


# ---------------------------------------------------------------- KL on a small vocabulary, by enumeration


def enumerated(old_logits):
    """One trajectory whose 'decisions' are all actions of one state, weighted by the probability of sampling each."""
    reference = torch.log_softmax(doubles(0.3, -1.0, 0.5, 2.0, -0.7), 0)
    old = torch.log_softmax(old_logits, 0)
    return batch_of([[0, 1, 2, 3, 4]], behaviour=old, reference=reference, weight=old.exp()), reference


def reverse_kl(logits, reference):
    logp = torch.log_softmax(logits, 0)
    return (logp.exp() * (logp - reference)).sum()


def forward_kl(logits, reference):
    return (reference.exp() * (reference - torch.log_softmax(logits, 0))).sum()


LOGITS = doubles(-0.5, 0.8, 0.1, -1.2, 0.4)


def expected(estimator, *, unbiased=False, old_logits=LOGITS):
    """E_old[estimate] and its gradient in the logits, the distribution sampled from held fixed."""
    batch, reference = enumerated(old_logits)
    objective = KLToReference(estimator, 1.0, "sequence-sum", unbiased=unbiased)
    loss = total_of(objective, batch)
    return (*value_and_gradient(lambda logits: loss(torch.log_softmax(logits, 0)), LOGITS), reference)


def test_k1_has_the_right_value_and_no_gradient():
    value, gradient, reference = expected("k1")
    close(value, reverse_kl(LOGITS, reference))
    close(gradient, torch.zeros(5).double())


def test_k2_has_the_gradient_of_the_reverse_kl_and_not_its_value():
    value, gradient, reference = expected("k2")
    close(gradient, value_and_gradient(lambda x: reverse_kl(x, reference), LOGITS)[1])
    assert abs(float(value - reverse_kl(LOGITS, reference))) > 1e-2


def test_k3_has_the_value_of_the_reverse_and_the_gradient_of_the_forward_kl():
    value, gradient, reference = expected("k3")
    close(value, reverse_kl(LOGITS, reference))
    close(gradient, value_and_gradient(lambda x: forward_kl(x, reference), LOGITS)[1])
    assert not torch.allclose(gradient, value_and_gradient(lambda x: reverse_kl(x, reference), LOGITS)[1], atol=1e-2)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_with_the_ratio_value_and_gradient_are_exact_for_samples_of_any_policy(estimator):
    for old_logits in (LOGITS, doubles(1.0, 0.0, -1.0, 0.5, 0.2)):
        value, gradient, reference = expected(estimator, unbiased=True, old_logits=old_logits)
        close(value, reverse_kl(LOGITS, reference))
        close(gradient, value_and_gradient(lambda x, r=reference: reverse_kl(x, r), LOGITS)[1])


@many
@given(st.floats(-45, 45))
def test_k3_is_never_negative_and_k2_and_k3_agree_near_the_reference(difference):
    from hocket.objectives.divergence import kl_estimate

    assert float(kl_estimate(doubles(difference), "k3")) >= 0
    small = doubles(difference * 1e-4)
    assert float(kl_estimate(small, "k3")) == pytest.approx(float(kl_estimate(small, "k2")), rel=5e-3, abs=1e-18)


# ---------------------------------------------------------------- pairs


def pairs_batch(weight=None):
    rows, pairs = [[0, 1], [2], [3, 4, 5], [6]], torch.tensor([[0, 1], [3, 2]])
    reference = doubles(-1, -2, -0.5, -1, -1.5, -2, -0.1)
    return batch_of(rows, reference=reference, weight=weight).credited(pairs=pairs)


LOGP = doubles(-0.9, -1.0, -2.0, -1.1, -0.2, -0.3, -4.0)


def naive_dpo(x, beta, smoothing, normalised):
    reference, total = pairs_batch().logp["reference"].values, 0.0
    for better, worse in (([0, 1], [2]), ([6], [3, 4, 5])):
        sides = [sum(x[t] - reference[t] for t in side) / (len(side) if normalised else 1) for side in (better, worse)]
        p = 1 / (1 + torch.exp(-beta * (sides[0] - sides[1])))
        total = total - ((1 - smoothing) * torch.log(p) + smoothing * torch.log(1 - p)) / 2
    return total


@pytest.mark.parametrize("beta", [0.1, 1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("normalised", [False, True])
def test_dpo(beta, smoothing, normalised):
    found = value_and_gradient(
        total_of(Pairwise(beta, smoothing, measure=LogRatio(length_normalised=normalised)), pairs_batch()), LOGP
    )
    expected = value_and_gradient(lambda x: naive_dpo(x, beta, smoothing, normalised), LOGP)
    close(found[0], expected[0])
    close(found[1], expected[1])


def test_dpo_sees_only_differences_within_a_pair():
    """The prompt's normaliser cancels: a shift of both sides, of the policy or of the reference, changes nothing."""
    loss, batch = Pairwise(), pairs_batch()
    shift = doubles(3, 0, 3, 0, 0, 0, 0)
    close(total_of(loss, batch)(LOGP + shift), total_of(loss, batch)(LOGP))
    moved = batch.but(logp={"reference": RecordedNumbers(batch.logp["reference"].values + shift, torch.ones(7).bool())})
    before, after = (value_and_gradient(total_of(loss, b), LOGP) for b in (batch, moved))
    close(before[0], after[0])
    close(before[1], after[1])


def test_dpo_raises_the_better_lowers_the_worse_and_starts_at_log_two():
    batch = pairs_batch()
    value, gradient = value_and_gradient(total_of(Pairwise(0.1), batch), batch.logp["reference"].values)
    assert float(value) == pytest.approx(math.log(2))
    close(gradient, doubles(-1, -1, 1, 1, 1, 1, -1) * 0.1 / 2 / 2)


def test_dpo_is_finite_and_keeps_its_gradient_at_any_margin():
    for gap in (500.0, -500.0):
        batch = batch_of([[0], [1]], reference=doubles(0, 0)).credited(pairs=torch.tensor([[0, 1]]))
        value, gradient = value_and_gradient(total_of(Pairwise(1.0), batch), doubles(gap, 0))
        assert bool(value.isfinite())
        assert bool(gradient.isfinite().all())
    close(gradient, doubles(-1, 1))


def test_a_pair_with_a_filtered_side_is_not_counted():
    weight = doubles(1, 1, 0, 1, 1, 1, 1)
    terms = Pairwise()(Evaluation(LOGP), pairs_batch(weight))
    assert terms.unit is Level.PAIR
    assert terms.weight.tolist() == [0.0, 1.0]
    assert float(terms.metrics["pairs/total"]) == 1


def test_no_pairs_is_no_loss_and_no_pairing_is_an_error():
    none = pairs_batch().credited(pairs=torch.zeros(0, 2, dtype=torch.long))
    value, gradient = value_and_gradient(total_of(Pairwise(), none), LOGP)
    assert float(value) == 0
    assert not gradient.any()
    with pytest.raises(HocketError, match="pairs"):
        Pairwise()(Evaluation(LOGP), pairs_batch().credited(pairs=None))


# ---------------------------------------------------------------- values and refusals


def test_the_value_loss_wants_targets_and_recorded_values():
    batch = batch_of([[0]], behaviour=doubles(0))
    with pytest.raises(HocketError, match="GAE"):
        ValueLoss()(Evaluation(doubles(0), value=doubles(0)), batch)
    with pytest.raises(HocketError, match="clip"):
        ValueLoss(clip=0.2)(Evaluation(doubles(0), value=doubles(0)), batch.credited(target=doubles(1)))
    with pytest.raises(ValueError, match="needs"):
        EntropyBonus()(Evaluation(doubles(0)), batch)


def test_explained_variance():
    batch = batch_of([[0, 1, 2]]).credited(target=doubles(1, 2, 3))
    explained = [
        float(ValueLoss()(Evaluation(values, value=values), batch).metrics["value/explained"])
        for values in (doubles(1, 2, 3), doubles(5, 5, 5), doubles(3, 2, 1))
    ]
    assert explained == pytest.approx([1.0, 0.0, -3.0])


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ClippedSurrogate, {"aggregate": "tokens"}),
        (ClippedSurrogate, {"ratio": "token"}),
        (ClippedSurrogate, {"low": 1.5}),
        (ClippedSurrogate, {"dual": 1.0}),
        (ClippedSurrogate, {"horizon": 0}),
        (ClippedImportanceWeight, {"high": -0.1}),
        (KLToReference, {"estimator": "k4"}),
        (KLToReference, {"coefficient": -1.0}),
        (Pairwise, {"beta": 0.0}),
        (Pairwise, {"label_smoothing": 0.5}),
        (ValueLoss, {"clip": 0.0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, settings):
    name = next(iter(settings))
    with pytest.raises(ValueError, match=name):
        kind(**settings)
