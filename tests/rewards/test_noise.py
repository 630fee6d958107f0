"""Corrections of a noisy verifier, appeals, and the judges that stand in."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rollout_cases import Stage, assignments

from hocket.core.keys import Key
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.curr_reft import Selected
from hocket.methods.group_relative.noisy_verifier_correction import (
    AppealedCorrection,
    NoiseCorrection,
    WithAppeals,
    false_negative_rate,
    true_share,
)
from hocket.rewards.judge import (
    NoisyJudge,
    TextJudge,
    accuracy,
    fit_preferences,
    fit_scores,
    fit_verdicts,
    heads,
    logistic,
    pair_accuracy,
)
from hocket.rewards.noise import backward, forward
from hocket.types import Scenario, Trajectory, Turn

RATES = st.tuples(st.floats(0, 0.45), st.floats(0, 0.45))


def batch_of(verdicts, info=None):
    rows = [{"id": str(n), "group": "g", "scores": {"reward": v}, "logp": [-1.0]} for n, v in enumerate(verdicts)]
    for row, told in zip(rows, info or [], strict=False):
        row["info"] = told
    return RecordedBatch({"version": 1, "trajectories": rows}).batch


def answer(text, number=0, sample=0):
    turn = Turn("solo", "solo", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)
    return Trajectory(Scenario(str(number)), [turn], sample)


# ---------------------------------------------------------------- formulas


@given(RATES)
def test_both_maps_are_right_in_the_mean(rates):
    low, high = (torch.tensor(rate, dtype=torch.float64) for rate in rates)
    one, nothing = torch.tensor(1.0).double(), torch.tensor(0.0).double()
    for truth, accepted in ((1.0, 1 - high), (0.0, low)):
        back = accepted * backward(one, low, high) + (1 - accepted) * backward(nothing, low, high)
        ahead = accepted * forward(one, high) + (1 - accepted) * forward(nothing, high)
        assert float(back) == pytest.approx(truth, abs=1e-12)
        assert float(ahead) == pytest.approx(float(1 - low - high) * (truth - 1), abs=1e-12)


@given(RATES, st.integers(1, 50), st.integers(0, 50))
def test_the_rate_is_recovered_from_exact_counts(rates, right, wrong):
    low, high = rates
    accepted = (1 - high) * right + low * wrong
    rejected = high * right + (1 - low) * wrong
    share = high * right / rejected if rejected else 0.0
    assert false_negative_rate(accepted, rejected, share, low) == pytest.approx(high, abs=1e-9)


@given(RATES, st.floats(0, 1))
def test_a_judges_own_errors_are_allowed_for(rates, share):
    low, high = rates
    said = share * (1 - high) + (1 - share) * low
    assert true_share(said, low, high) == pytest.approx(share, abs=1e-9)


def test_an_answer_may_tell_its_own_rates():
    batch = batch_of([1.0, 1.0, 0.0], [{"false_negative": 0.5}, {}, {"metadata": {"false_positive": 0.4}}])
    found = NoiseCorrection("backward", 0.0, 0.0)(batch).scores["reward"].values.tolist()
    assert found == pytest.approx([2.0, 1.0, -0.4 / 0.6])
    both = NoiseCorrection("backward", 0.1, 0.2)(batch_of([1.0, 0.0])).scores["reward"].values.tolist()
    assert both == pytest.approx([0.9 / 0.7, -0.1 / 0.7])


@pytest.mark.parametrize("settings", [{"form": "sideways"}, {"false_positive": 0.6, "false_negative": 0.5}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match=r"form|sum to less than 1"):
        NoiseCorrection(**settings)


def test_rates_of_an_answer_are_checked_too():
    with pytest.raises(ValueError, match="sum to less than 1"):
        NoiseCorrection("backward", 0.1, 0.1)(batch_of([1.0], [{"false_positive": 0.95}]))


# ---------------------------------------------------------------- appeals


def test_the_estimate_waits_then_counts_and_forgets():
    correction = AppealedCorrection("forward", least=2, initial=0.05)
    state = correction.init()
    batch, state = correction(batch_of([1.0, 0.0, 0.0], [{}, {"appeal": 1.0}, {"appeal": None}]), state)
    assert correction.estimate(state) == 0.05
    batch, state = correction(batch_of([1.0, 0.0, 0.0], [{}, {"appeal": 0.0}, {}]), state)
    assert state == {"accepted": 2.0, "rejected": 4.0, "appeals": 2.0, "upheld": 1.0}
    # Half of four rejections were right: 2 of 4 right answers were rejected.
    assert correction.estimate(state) == pytest.approx(0.5)
    assert batch.scores["reward"].values.tolist() == pytest.approx([0.5, -0.5, -0.5])
    _, faded = AppealedCorrection(momentum=0.5)(batch_of([1.0]), state)
    assert faded["accepted"] == 2.0


def test_an_estimate_never_makes_a_verifier_useless():
    correction = AppealedCorrection("backward", false_positive=0.2, least=1)
    state = {"accepted": 0.0, "rejected": 9.0, "appeals": 9.0, "upheld": 9.0}
    assert 0.2 + correction.estimate(state) <= 0.95


def test_only_rejected_answers_are_appealed_and_rewards_stay():
    stage = Stage(lambda name, sample: None if sample == 3 else float(sample % 2))
    judge = NoisyJudge(_Right(), name="judge")
    found = stage.collect(WithAppeals(samples=4, judge=judge, share=1.0), assignments("a", "b"))
    said = [(t.sample, t.info["appeal"]) for t in found.trajectories]
    assert said == [(0, 1.0), (1, None), (2, 1.0), (3, None)] * 2
    assert found.metrics == {"appeals": 4.0, "appeals/upheld": 4.0}
    assert [t.scores["verdict"].value for t in found.trajectories if t.sample == 0] == [0.0, 0.0]


def test_nobody_is_asked_without_a_judge_or_a_share():
    for rollout in (WithAppeals(samples=2), WithAppeals(samples=2, judge=NoisyJudge(_Right()), share=0.0)):
        found = Stage(lambda name, sample: 0.0).collect(rollout, assignments("a"))
        assert [t.info["appeal"] for t in found.trajectories] == [None, None]


def test_about_a_share_of_rejections_is_appealed():
    stage = Stage(lambda name, sample: 0.0)
    found = stage.collect(WithAppeals(samples=400, judge=NoisyJudge(_Right()), share=0.25), assignments("a"))
    assert 70 < found.metrics["appeals"] < 130


class _Right:
    name, weight = "truth", 1.0

    async def __call__(self, trajectories, *, key):
        return [1.0] * len(trajectories)


class _First(_Right):
    """Thinks well of the first sample alone."""

    async def __call__(self, trajectories, *, key):
        return [float(trajectory.sample == 0) for trajectory in trajectories]


def test_rejection_sampling_keeps_what_scores_and_convinces():
    stage = Stage(lambda name, sample: None if sample == 3 else sample / 2)
    found = stage.collect(Selected(samples=4, least=0.5), assignments("a"))
    assert [t.sample for t in found.trajectories] == [1, 2]
    assert [t.sample for t in found.discarded] == [0, 3]
    assert found.metrics == {"rollout/kept": 0.5}
    assert [t.sample for t in stage.collect(Selected(4, 0.0, _First()), assignments("a")).trajectories] == [0]


# ---------------------------------------------------------------- judges


def judged(judge, trajectories, seed=0):
    return asyncio.run(judge(trajectories, key=Key.of(seed)))


def test_a_noisy_judge_errs_at_its_rates_and_repeats_itself():
    many = [answer("x", number, sample) for number in range(50) for sample in range(40)]
    low = judged(NoisyJudge(_Right(), 0.0, 0.3), many)
    assert abs(sum(low) / len(low) - 0.7) < 0.04
    assert low == judged(NoisyJudge(_Right(), 0.0, 0.3), many)
    assert low != judged(NoisyJudge(_Right(), 0.0, 0.3), many, seed=1)
    assert low[:5] == judged(NoisyJudge(_Right(), 0.0, 0.3), many[:5]), "a draw is the answer's own"
    assert judged(NoisyJudge(_Right()), many[:3]) == [1.0] * 3


GOOD, BAD = (
    ("kind words here", "very kind of you", "so kind", "how kind"),
    ("rude words here", "very rude of you", "rude"),
)


def test_a_fitted_judge_tells_good_from_bad_and_says_how_well():
    model = fit_verdicts([*GOOD, *BAD], [1.0] * 4 + [0.0] * 3)
    assert accuracy(model, ["a kind man", "a rude man"], [1.0, 0.0]) == 1.0
    assert judged(TextJudge(model, verdict=True), [answer("kind"), answer("rude")]) == [1.0, 0.0]


def test_preferences_are_those_of_bradley_and_terry():
    model = fit_preferences(list(zip(GOOD, BAD, strict=False)))
    assert pair_accuracy(model, [("be kind", "be rude"), ("kind", "rude")]) == 1.0
    score = judged(TextJudge(model), [answer("be kind"), answer("be rude")])
    assert score[0] > score[1]


def test_heads_regress_each_its_own_aspect():
    texts = [f"{a} {b}" for a in ("kind", "rude", "calm") for b in ("short", "long", "broad")]
    wanted = torch.tensor([[float("kind" in t), 2.0 * ("long" in t)] for t in texts])
    model = fit_scores(texts, wanted, ridge=1e-6)
    torch.testing.assert_close(model(texts), wanted.double(), atol=1e-3, rtol=0)
    first, second = heads(model, {"manner": 1.0, "size": 0.5})
    assert (first.name, first.head, second.weight) == ("manner", 0, 0.5)


@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_logistic_regression_is_at_its_optimum(ridge):
    generator = Key.of(3).torch()
    inputs = torch.randn(40, 5, generator=generator).double()
    labels = (torch.rand(40, generator=generator) < 0.5).double()
    weight = logistic(inputs, labels, ridge).requires_grad_()
    scores = inputs @ weight
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss + ridge / 2 * weight.square().sum(), weight)
    assert float(gradient.abs().max()) < 1e-7
    with pytest.raises(ValueError, match="ridge"):
        logistic(inputs, labels, 0.0)
