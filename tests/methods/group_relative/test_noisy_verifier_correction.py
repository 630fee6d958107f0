"""Rates of a noisy verifier, corrections and appeals; the page on them says what the checks find."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import AlwaysRight
from rollout_cases import Stage, assignments

from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.claims.noisy_verifier_correction import PAGE, claim
from hocket.methods.group_relative.noisy_verifier_correction.method import (
    AppealedCorrection,
    NoiseCorrection,
    WithAppeals,
    false_negative_rate,
    true_share,
)
from hocket.rewards.judge import NoisyJudge

TEXT = (Path(__file__).parents[3] / "docs" / "noisy-verifiers.md").read_text()


def test_its_words_are_those_of_the_module():
    assert TEXT.startswith(PAGE.split("{figures}")[0])


@pytest.mark.parametrize("check", [one for one in claim if not one.slow], ids=lambda one: one.run.__name__)
def test_its_exact_claims_and_figures_are_the_checks_own(check):
    line = next(line for line in TEXT.splitlines() if check.claim[1:] in line)
    kinds = [part for part in check().saw.replace(":", " ").split() if "e-" not in part]
    assert all(part in line for part in kinds)


def test_every_check_has_its_line():
    told = [check for check in claim if not check.shipped]
    assert all(sum(check.claim[1:] in line for line in TEXT.splitlines()) == 1 for check in told)


USELESS = ((-0.1, 0.2), (0.2, -0.1), (0.5, 0.5), (0.7, 0.4))
RATES = st.tuples(st.floats(0, 0.45), st.floats(0, 0.45))


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


def batch_of(verdicts, info=None):
    rows = [{"id": str(n), "group": "g", "scores": {"reward": v}, "logp": [-1.0]} for n, v in enumerate(verdicts)]
    for row, told in zip(rows, info or [], strict=False):
        row["info"] = told
    return RecordedBatch({"version": 1, "trajectories": rows}).batch


def test_an_answer_may_tell_its_own_rates():
    batch = batch_of([1.0, 1.0, 0.0], [{"false_negative": 0.5}, {}, {"metadata": {"false_positive": 0.4}}])
    found = NoiseCorrection("backward", 0.0, 0.0)(batch).scores["reward"].values.tolist()
    assert found == pytest.approx([2.0, 1.0, -0.4 / 0.6])
    both = NoiseCorrection("backward", 0.1, 0.2)(batch_of([1.0, 0.0])).scores["reward"].values.tolist()
    assert both == pytest.approx([0.9 / 0.7, -0.1 / 0.7])


@pytest.mark.parametrize("settings", [("sideways",), *(("backward", *one) for one in USELESS)])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match=r"form|sum to less than 1"):
        NoiseCorrection(*settings)


def test_rates_of_an_answer_are_checked_too():
    with pytest.raises(ValueError, match="sum to less than 1"):
        NoiseCorrection("backward", 0.1, 0.1)(batch_of([1.0], [{"false_positive": 0.95}]))


def test_an_estimate_never_makes_a_verifier_useless():
    correction = AppealedCorrection("backward", false_positive=0.2, least=1)
    state = {"accepted": 0.0, "rejected": 9.0, "appeals": 9.0, "upheld": 9.0}
    assert 0.2 + correction.estimate(state) <= 0.95


def test_only_rejected_answers_are_appealed_and_rewards_stay():
    stage = Stage(lambda name, sample: None if sample == 3 else float(sample % 2))
    judge = NoisyJudge(AlwaysRight(), name="judge")
    found = stage.collect(WithAppeals(samples=4, judge=judge, share=1.0), assignments("a", "b"))
    said = [(t.sample, t.info["appeal"]) for t in found.trajectories]
    assert said == [(0, 1.0), (1, None), (2, 1.0), (3, None)] * 2
    assert found.metrics == {"appeals": 4.0, "appeals/upheld": 4.0}
    assert [t.scores["verdict"].value for t in found.trajectories if t.sample == 0] == [0.0, 0.0]


def test_nobody_is_asked_without_a_judge_or_a_share():
    for rollout in (WithAppeals(samples=2), WithAppeals(samples=2, judge=NoisyJudge(AlwaysRight()), share=0.0)):
        found = Stage(lambda name, sample: 0.0).collect(rollout, assignments("a"))
        assert [t.info["appeal"] for t in found.trajectories] == [None, None]
