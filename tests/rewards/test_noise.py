"""The maps of a noisy verifier, and the judges that stand in."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import AlwaysRight

from hocket.core.keys import Key
from hocket.methods.group_relative.noisy_verifier_correction.noise import backward, forward
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
from hocket.types import Scenario, Trajectory, Turn

RATES = st.tuples(st.floats(0, 0.45), st.floats(0, 0.45))


def answer(text, number=0, sample=0):
    turn = Turn("solo", "solo", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)
    return Trajectory(Scenario(str(number)), [turn], sample)


# ---------------------------------------------------------------- maps


@given(RATES)
def test_both_maps_are_right_in_the_mean(rates):
    low, high = (torch.tensor(rate, dtype=torch.float64) for rate in rates)
    one, nothing = torch.tensor(1.0).double(), torch.tensor(0.0).double()
    for truth, accepted in ((1.0, 1 - high), (0.0, low)):
        back = accepted * backward(one, low, high) + (1 - accepted) * backward(nothing, low, high)
        ahead = accepted * forward(one, high) + (1 - accepted) * forward(nothing, high)
        assert float(back) == pytest.approx(truth, abs=1e-12)
        assert float(ahead) == pytest.approx(float(1 - low - high) * (truth - 1), abs=1e-12)


# ---------------------------------------------------------------- judges


def judged(judge, trajectories, seed=0):
    return asyncio.run(judge(trajectories, key=Key.of(seed)))


def test_a_noisy_judge_errs_at_its_rates_and_repeats_itself():
    many = [answer("x", number, sample) for number in range(50) for sample in range(40)]
    low = judged(NoisyJudge(AlwaysRight(), 0.0, 0.3), many)
    assert abs(sum(low) / len(low) - 0.7) < 0.04
    assert low == judged(NoisyJudge(AlwaysRight(), 0.0, 0.3), many)
    assert low != judged(NoisyJudge(AlwaysRight(), 0.0, 0.3), many, seed=1)
    assert low[:5] == judged(NoisyJudge(AlwaysRight(), 0.0, 0.3), many[:5]), "a draw is the answer's own"
    assert judged(NoisyJudge(AlwaysRight()), many[:3]) == [1.0] * 3


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
