"""One ratio per turn, and means over turns, against loops over turns."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW, batch_of, experiences
from hypothesis import given
from hypothesis import strategies as st
from objective_batches import value_and_gradient

from hocket.core.batch import RecordedNumbers
from hocket.core.keys import Key
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.turn_ratio import TurnSurrogate
from hocket.types import Evaluation

MEANS = ["geometric", "arithmetic", "product"]
OVER = ["turn-mean", "sequence-turn-mean", "token-mean", "sequence-sum"]


def filled(trajectories, seed, gap):
    """A batch with random advantages and weights in float64, and current log-probs."""
    batch = batch_of(trajectories)
    draw = Key.of(seed).torch()
    old = -torch.rand(batch.decisions, generator=draw, dtype=torch.float64)
    seen = batch.occurrences
    credit = torch.randn(len(seen), generator=draw, dtype=torch.float64)
    scale = torch.randint(1, 3, (len(seen),), generator=draw).double()
    known = torch.ones(batch.decisions, dtype=torch.bool)
    batch = batch.but(logp={"behaviour": RecordedNumbers(old, known)}).credited(
        advantage=credit, weight=seen.weight.double() * scale
    )
    return batch, old + gap * torch.randn(batch.decisions, generator=draw, dtype=torch.float64)


def turns_of(batch):
    """Per trajectory, per turn, (decision, advantage, weight) of what counts; turns without any are left out."""
    found = []
    for owner in range(batch.trajectories):
        turns = {}
        for decision, whose, advantage, weight in zip(
            *(c.tolist() for c in (batch.occurrences.decision, batch.occurrences.trajectory)),
            *(c.tolist() for c in (batch.occurrences.advantage, batch.occurrences.weight)),
            strict=True,
        ):
            if whose == owner and weight != 0:
                turns.setdefault(int(batch.turn[decision]), []).append((decision, advantage, weight))
        found.append(list(turns.values()))
    return found


def by_hand(batch, logp, objective):
    """The loss, turn by turn."""
    old = batch.logp["behaviour"].values
    sequences = [turns for turns in turns_of(batch) if turns]
    every = [turn for turns in sequences for turn in turns]
    decisions = sum(len(turn) for turn in every)
    total = torch.zeros((), dtype=torch.float64)
    for turns in sequences:
        for turn in turns:
            gaps = torch.stack([logp[d] - old[d] for d, _, _ in turn])
            gaps = gaps if objective.mean == "product" else gaps.clamp(-50, 50)
            log = {"geometric": gaps.mean(), "arithmetic": gaps.exp().mean().log(), "product": gaps.sum()}
            level = log[objective.mean].clamp(-50, 50)
            ratio = (level if objective.cap is None else level.clamp(max=objective.cap)).exp()
            credit = sum(a for _, a, _ in turn) / len(turn)
            gain = torch.minimum(ratio * credit, ratio.clamp(1 - objective.low, 1 + objective.high) * credit)
            if objective.dual is not None and credit < 0:
                gain = gain.clamp(min=objective.dual * credit)
            weight = sum(w for _, _, w in turn)
            share = {
                "turn-mean": weight / (len(turn) * len(every)),
                "sequence-turn-mean": weight / (len(turn) * len(turns) * len(sequences)),
                "token-mean": weight / max(decisions, 1),
                "sequence-sum": weight / len(sequences),
            }[objective.aggregate]
            total = total - share * gain
    return total


@LAW
@given(
    experiences(sources=("own", "own", "baseline")),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from(MEANS),
    st.sampled_from(OVER),
    st.sampled_from([(None, None), (3.0, 3.0), (1.5, 0.1)]),
)
def test_equals_a_loop_over_turns(trajectories, seed, gap, mean, aggregate, bounds):
    batch, logp = filled(trajectories, seed, gap)
    objective = TurnSurrogate(mean=mean, aggregate=aggregate, dual=bounds[0], cap=bounds[1])
    got = value_and_gradient(lambda now: objective(Evaluation(now), batch).total(), logp)
    want = value_and_gradient(lambda now: by_hand(batch, now, objective), logp)
    for mine, other in zip(got, want, strict=True):
        assert torch.allclose(mine, other, atol=1e-10, rtol=1e-9)


@LAW
@given(experiences(), st.integers(0, 10**6), st.sampled_from(MEANS), st.sampled_from([50.0, 500.0]))
def test_far_from_the_old_policy_everything_stays_finite(trajectories, seed, mean, gap):
    batch, logp = filled(trajectories, seed, gap)
    value, gradient = value_and_gradient(lambda now: TurnSurrogate(mean=mean)(Evaluation(now), batch).total(), logp)
    assert math.isfinite(float(value))
    assert bool(torch.isfinite(gradient).all())


@LAW
@given(experiences(), st.integers(0, 10**6))
def test_one_decision_per_turn_is_the_ordinary_surrogate(trajectories, seed):
    for trajectory in trajectories:
        for turn in trajectory.turns:
            for name in ("action", "logp", "forced"):
                column = getattr(turn, name)
                setattr(turn, name, None if column is None else column[:1])
        trajectory.scores.pop("steps", None)
    batch, logp = filled(trajectories, seed, 0.5)
    plain = ClippedSurrogate(aggregate="token-mean")
    want = value_and_gradient(lambda now: plain(Evaluation(now), batch).total(), logp)
    for mean in MEANS:
        turns = TurnSurrogate(mean=mean, aggregate="token-mean", dual=None, cap=None)
        got = value_and_gradient(lambda now, o=turns: o(Evaluation(now), batch).total(), logp)
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize(
    "settings", [{"mean": "median"}, {"dual": 1.0}, {"cap": 0.0}, {"low": 2.0}, {"aggregate": "turns"}]
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValueError, match=r"must|choose"):
        TurnSurrogate(**settings)
