"""What pairs carry, links and measures in their limits, answers labelled one by one, and lists."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, doubles, total_of, value_and_gradient

from hocket.core.batch import Level, LevelScores
from hocket.core.columns import MISMATCHED, PAIR_MARGIN, PAIR_TARGET, PAIR_WEIGHT
from hocket.core.errors import HocketError
from hocket.credit.pairs import BestAgainstWorst
from hocket.methods.preference.bco import RunningReward
from hocket.methods.preference.kto.labels import Desirability
from hocket.methods.preference.kto.method import MismatchedDivergence
from hocket.objectives.collision import COLLISION
from hocket.objectives.links import (
    Aot,
    AotUnpaired,
    ApoDown,
    ApoZero,
    Bco,
    DiscoPop,
    Exo,
    Hinge,
    Logistic,
    Nca,
    Robust,
    Sppo,
    Squared,
)
from hocket.objectives.listwise import ListMle, Listwise, SoftmaxRanking
from hocket.objectives.measures import Likelihood, LogRatio, Odds
from hocket.objectives.preference import Pairwise
from hocket.objectives.unpaired_answers import SHIFT, Unpaired
from hocket.types import Evaluation

many = settings(max_examples=60, deadline=None)
numbers = st.floats(-3, 3)
OF_MARGIN = [Logistic(), Hinge(), Squared(), Exo(0.1), Robust(0.2), DiscoPop(1.0)]
EACH = [Nca(), Bco(), Sppo(), ApoZero(), ApoDown(), Aot(), AotUnpaired()]


def two_pairs(**numbers_of_pairs):
    """Two pairs of answers of two and one decisions."""
    batch = batch_of(
        [[0, 1], [2], [3, 4], [5]], reference=doubles(-1, -2, -1.5, -0.5, -1, -2), advantage=doubles(*[1] * 6)
    )
    carried = {name: doubles(*values) for name, values in numbers_of_pairs.items()}
    return batch.credited(pairs=torch.tensor([[0, 1], [3, 2]]), **carried)


LOGP = doubles(-0.9, -2.2, -1.1, -0.7, -0.8, -2.5)
GAPS = (0.1 - 0.2 - 0.4, -0.5 + 0.2 - 0.2)
"""The differences of log-ratios of both pairs."""


def loss_of(objective, batch, logp=LOGP):
    return value_and_gradient(total_of(objective, batch), logp)


# ---------------------------------------------------------------- what pairs carry


def test_weights_multiply_and_a_weight_of_zero_leaves_the_pair_out():
    losses = [math.log1p(math.exp(-0.1 * gap)) for gap in GAPS]
    value, _ = loss_of(Pairwise(), two_pairs(pair_weight=(3, 1)))
    assert float(value) == pytest.approx((3 * losses[0] + losses[1]) / 2)
    value, gradient = loss_of(Pairwise(), two_pairs(pair_weight=(0, 1)))
    assert float(value) == pytest.approx(losses[1])
    assert gradient[:3].abs().max() == 0


@pytest.mark.parametrize("link", OF_MARGIN, ids=repr)
def test_a_margin_of_the_data_is_one_of_the_settings(link):
    told, _ = loss_of(Pairwise(link=link), two_pairs(pair_margin=(0.7, 0.7)))
    set_so, _ = loss_of(Pairwise(link=link, margin=0.7), two_pairs())
    assert float(told) == pytest.approx(float(set_so), abs=1e-12)
    assert float(told) != pytest.approx(float(loss_of(Pairwise(link=link), two_pairs())[0]), abs=1e-6)


@pytest.mark.parametrize("link", EACH, ids=repr)
def test_links_that_judge_each_answer_refuse_margins_and_measures(link):
    with pytest.raises(HocketError, match="pairs carry margins"):
        Pairwise(link=link)(Evaluation(LOGP), two_pairs(pair_margin=(0.7, 0.0)))
    for wrong in ({"margin": 1.0}, {"measure": Likelihood()}, {"measure": LogRatio("forward-kl")}):
        with pytest.raises(ValueError, match="judges each answer"):
            Pairwise(link=link, **wrong)


@pytest.mark.parametrize("link", [*OF_MARGIN, *EACH], ids=repr)
@many
@given(target=st.floats(0, 1), smoothing=st.floats(0, 0.49))
def test_a_target_mixes_both_orders_and_smoothing_flips_it(link, target, smoothing):
    batch = two_pairs()
    turned = batch.credited(pairs=batch.occurrences.pairs.flip(1))
    plain, wrong = (float(loss_of(Pairwise(link=link), one)[0]) for one in (batch, turned))
    mixed = target * (1 - smoothing) + (1 - target) * smoothing
    found, _ = loss_of(Pairwise(link=link, label_smoothing=smoothing), two_pairs(pair_target=(target, target)))
    assert float(found) == pytest.approx(mixed * plain + (1 - mixed) * wrong, abs=1e-9)


def test_a_target_of_one_half_has_its_minimum_where_both_are_equal():
    batch = two_pairs(pair_target=(0.5, 0.5))
    logp = batch.logp["reference"].values
    for link in OF_MARGIN[:3]:
        assert loss_of(Pairwise(link=link), batch, logp)[1].abs().max() < 1e-12


def test_numbers_go_from_the_preferred_trajectory_to_the_pair_and_through_selection():
    batch = scored(batch_of([[0], [1], [2], [3]]), 1, 0, 0, 1)
    batch = batch.but(
        scenario=torch.tensor([0, 0, 1, 1]),
        names={"scenario": ("a", "b")},
        info={
            **batch.info,
            PAIR_WEIGHT.name: [2.0, 9.0, 9.0, None],
            PAIR_MARGIN.name: [0.5, 9.0, 9.0, 0.25],
            PAIR_TARGET.name: [None, 9.0, 9.0, 0.75],
        },
    )
    seen = BestAgainstWorst()(batch)
    assert seen.pairs.tolist() == [[0, 1], [3, 2]]
    assert [seen.pair_weight.tolist(), seen.pair_margin.tolist(), seen.pair_target.tolist()] == [
        [2.0, 1.0],
        [0.5, 0.25],
        [1.0, 0.75],
    ]
    part = batch.but(occurrences=seen).select(torch.tensor([2, 3])).occurrences
    assert part.pairs.tolist() == [[1, 0]]
    assert (part.pair_weight.item(), part.pair_margin.item(), part.pair_target.item()) == (1.0, 0.25, 0.75)


# ---------------------------------------------------------------- links


@many
@given(st.floats(0, 0.45), numbers, numbers)
def test_the_robust_loss_is_unbiased_under_flips(flip, own, other):
    logp = doubles(own, other, *LOGP[2:])
    batch, turned = two_pairs(), two_pairs()
    turned = turned.credited(pairs=turned.occurrences.pairs.flip(1))
    robust = Pairwise(link=Robust(flip))
    expected = (1 - flip) * loss_of(robust, batch, logp)[0] + flip * loss_of(robust, turned, logp)[0]
    assert float(expected) == pytest.approx(float(loss_of(Pairwise(), batch, logp)[0]), abs=1e-9)


def test_ipo_ends_at_its_target_and_dpo_does_not_end():
    batch = two_pairs()
    gap = torch.tensor(0.0, dtype=torch.float64)
    for _ in range(200):
        logp = batch.logp["reference"].values.clone()
        logp[[0, 5]] += gap / 2
        logp[[2, 3]] -= gap / 2
        # Both members move by half, so each pair's gap of log-ratios is `gap`.
        gap = gap - 0.2 * (loss_of(Pairwise(link=Squared()), batch, logp)[1][0] * 2)
    assert float(gap) == pytest.approx(1 / (2 * 0.1), rel=0.05)


def test_aot_does_not_care_which_pair_an_answer_is_of():
    batch = two_pairs()
    swapped = batch.credited(pairs=torch.tensor([[0, 2], [3, 1]]))
    first, second = (float(loss_of(Pairwise(link=AotUnpaired()), one)[0]) for one in (batch, swapped))
    assert first == pytest.approx(second)
    assert float(loss_of(Pairwise(), batch)[0]) != pytest.approx(float(loss_of(Pairwise(), swapped)[0]))


# ---------------------------------------------------------------- measures and weights


@pytest.mark.parametrize("divergence", ["reverse-kl", "forward-kl", "jensen-shannon", "alpha"])
def test_divergences_are_the_derivatives_of_their_functions(divergence):
    functions = {
        "reverse-kl": lambda u: u * u.log() - u + 1,
        "forward-kl": lambda u: -u.log() + u - 1,
        "jensen-shannon": lambda u: u * u.log() - (u + 1) * ((u + 1) / 2).log(),
        "alpha": lambda u: (u**0.5 - 0.5 * u - 0.5) / (0.5 * (0.5 - 1)),
    }
    ratio = torch.linspace(-3, 3, 13, dtype=torch.float64).exp().requires_grad_()
    (slope,) = torch.autograd.grad(functions[divergence](ratio).sum(), ratio)
    found = LogRatio(divergence)(ratio.log(), ratio.log(), torch.ones(13))
    torch.testing.assert_close(found.detach(), slope, rtol=1e-9, atol=1e-9)


def test_alpha_at_one_is_the_plain_log_ratio_and_alphapo_at_zero_the_likelihood():
    gap, lengths = doubles(-2, 0.5, 3), torch.tensor([1, 2, 3])
    torch.testing.assert_close(LogRatio("alpha", alpha=1.0)(gap, gap, lengths), gap)
    torch.testing.assert_close(LogRatio("alpha", alpha=1 + 1e-7)(gap, gap, lengths), gap, rtol=1e-5, atol=1e-5)
    own = -gap.abs() - 0.1
    torch.testing.assert_close(Likelihood(alpha=1e-7)(own, own, lengths), own, rtol=1e-5, atol=1e-5)


def test_odds_are_finite_when_an_answer_is_certain():
    own = doubles(0.0, -1e-12, -700.0).requires_grad_()
    found = Odds()(own, own, torch.ones(3))
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert torch.isfinite(own.grad).all()


@many
@given(st.floats(0, 1))
def test_the_tail_counts_what_lies_beyond_the_shorter_answer(tail):
    value, gradient = loss_of(Pairwise(tail=tail), two_pairs())
    # Answers 0 and 2 have two decisions and meet one of one: their second counts the tail.
    gaps = (0.1 - tail * 0.2 - 0.4, -0.5 - (-0.2 + tail * 0.2 - 0.0) - 0.4 + 0.2)
    first = math.log1p(math.exp(-0.1 * gaps[0]))
    sums = {"pair": first}
    assert float(gradient[1]) == pytest.approx(tail * float(gradient[0]), abs=1e-12)
    second = 2 * float(value) - sums["pair"]
    own = LOGP - two_pairs().logp["reference"].values
    assert second == pytest.approx(math.log1p(math.exp(-0.1 * float(own[5] - own[3] - tail * own[4]))))


def test_on_policy_weights_are_the_aligned_likelihoods_of_both_members():
    collision = doubles(-0.5, -0.25, -1, -0.1, -0.2, -0.3)
    batch = two_pairs().but(annotations={COLLISION.name: collision})
    aligned = LOGP - collision
    weights = [
        math.exp(float(aligned[:2].mean() + aligned[2])),
        math.exp(float(aligned[5] + aligned[3:5].mean())),
    ]
    own = LOGP - two_pairs().logp["reference"].values
    gaps = (float(own[0] + own[1] - own[2]), float(own[5] - own[3] - own[4]))
    losses = [math.log1p(math.exp(-0.1 * gap)) for gap in gaps]
    value, gradient = loss_of(Pairwise(on_policy_weight=True), batch)
    assert float(value) == pytest.approx(sum(w * x for w, x in zip(weights, losses, strict=True)) / 2)
    slope = -0.1 * weights[0] / (1 + math.exp(0.1 * gaps[0])) / 2
    assert float(gradient[0]) == pytest.approx(slope)


# ---------------------------------------------------------------- one by one


def scored(batch, *scores):
    return batch.but(scores={"reward": LevelScores(Level.TRAJECTORY, doubles(*scores))})


def labelled(*labels, mismatched=(), proximal=None):
    batch = scored(batch_of([[0, 1], [2], [3]], reference=doubles(-1, -1, -1, -1)), *labels)
    told = {MISMATCHED.name: [place in mismatched for place in range(3)]}
    batch = batch.but(info={**batch.info, **told})
    if proximal is not None:
        batch = batch.but(logp={**batch.logp, "proximal": replace_values(batch, proximal)})
    return batch


def replace_values(batch, values):
    return batch.logp["reference"]._replace(values=doubles(*values))


def test_kto_measures_from_what_mismatched_answers_drift_and_learns_nothing_from_them():
    logp = (-0.5, -0.9, -1.6, -0.2)
    batch = MismatchedDivergence(beta=0.5)(labelled(1, 0, 1, mismatched=(2,), proximal=logp))
    assert SHIFT.rows(batch) == [pytest.approx(0.5 * 0.8)] * 3
    batch = batch.but(occurrences=Desirability()(batch))
    value, gradient = value_and_gradient(total_of(Unpaired(beta=0.5, desirable=2.0), batch), doubles(*logp))
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    good, bad = 1 - sigmoid(0.5 * (0.6 - 0.8)), 1 - sigmoid(0.5 * (0.8 + 0.6))
    assert float(value) == pytest.approx((2 * good + bad) / 2)
    assert float(gradient[3]) == 0
    assert float(gradient[0]) < 0 < float(gradient[2])


def test_a_negative_drift_shifts_nothing():
    batch = MismatchedDivergence()(labelled(1, 0, 1, mismatched=(2,), proximal=(-1, -1, -1, -3)))
    assert SHIFT.rows(batch) == [0.0] * 3


def test_bco_measures_from_the_mean_of_all_rewards_so_far():
    shape = RunningReward(beta=0.5)
    first, state = shape(labelled(1, 0, 1, proximal=(-0.5, -0.9, -1.6, -0.2)), shape.init())
    mean = 0.5 * (0.6 - 0.6 + 0.8) / 3
    assert SHIFT.rows(first) == [pytest.approx(mean)] * 3
    second, state = shape(labelled(1, 0, 1, proximal=(-1, -1, -1, -1)), state)
    assert SHIFT.rows(second) == [pytest.approx(mean / 2)] * 3
    assert state["count"] == 6


# ---------------------------------------------------------------- lists


def listed(*scores):
    batch = batch_of([[0], [1], [2]], reference=doubles(-1, -1, -1))
    return batch.credited(advantage=doubles(*scores))


def test_the_list_likelihood_is_plackett_luce_and_of_two_it_is_dpo():
    logp = doubles(-0.5, -1.5, -0.7)
    s = (0.1 * (logp + 1)).exp()
    value, _ = value_and_gradient(total_of(Listwise(ListMle()), listed(2, 0, 1)), logp)
    expected = -math.log(s[0] / s.sum()) - math.log(s[2] / (s[2] + s[1]))
    assert float(value) == pytest.approx(expected)
    pair = batch_of([[0], [1]], reference=doubles(-1, -1))
    ours = value_and_gradient(total_of(Listwise(ListMle()), pair.credited(advantage=doubles(0, 1))), logp[:2])
    dpo = value_and_gradient(total_of(Pairwise(), pair.credited(pairs=torch.tensor([[1, 0]]))), logp[:2])
    assert float(ours[0]) == pytest.approx(float(dpo[0]))
    torch.testing.assert_close(ours[1], dpo[1])


def test_a_softmax_ranking_is_the_cross_entropy_of_the_labels_shares():
    logp = doubles(-0.5, -1.5, -0.7)
    chance = torch.softmax(0.1 * (logp + 1), 0)
    value, _ = value_and_gradient(total_of(Listwise(SoftmaxRanking()), listed(3, 0, 1)), logp)
    assert float(value) == pytest.approx(-0.75 * math.log(chance[0]) - 0.25 * math.log(chance[2]))


def test_a_list_of_equals_does_not_count():
    value, gradient = value_and_gradient(total_of(Listwise(), listed(1, 1, 1)), doubles(-0.5, -1.5, -0.7))
    assert float(value) == 0
    assert gradient.abs().max() == 0


def test_settings_out_of_range_are_refused():
    for wrong in ({"tail": 1.5}, {"beta": 0.0}, {"label_smoothing": 0.5}):
        with pytest.raises(ValueError, match="beta must be positive"):
            Pairwise(**wrong)
    with pytest.raises(ValueError, match="flip"):
        Exo(0.0)
    with pytest.raises(ValueError, match="divergence is"):
        LogRatio("kl")  # type: ignore[arg-type]
    assert replace(Pairwise(), link=Hinge()).link == Hinge()
