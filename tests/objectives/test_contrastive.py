"""Limits of geometric means, masks, adaptive clips, NFT and DisCO, and top pairs beside lone trajectories."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, batches, close, doubles, total_of, value_and_gradient

from hocket.core.batch import Level
from hocket.methods.group_relative.bapo import AdaptiveClip
from hocket.methods.group_relative.disco import Discriminative
from hocket.methods.group_relative.gmpo import GeometricMean
from hocket.methods.group_relative.group_relative_reinforce import MaskedPolicyGradient
from hocket.methods.group_relative.nft import NegativeAwareLikelihood
from hocket.objectives.preference import Pairwise
from hocket.types import Evaluation

many = settings(max_examples=60, deadline=None)


# ---------------------------------------------------------------- preference levels


def test_top_pairs_weigh_more_and_lone_trajectories_move_by_their_sign():
    reference = doubles(-1, -1, -1, -1)
    rows, pairs = [[0], [1], [2], [3]], torch.tensor([[0, 1]])
    advantage = doubles(1, -1, 1, -1)
    batch = batch_of(rows, reference=reference, advantage=advantage).credited(pairs=pairs)
    logp = doubles(-0.8, -1.1, -0.9, -1.3)
    value, gradient = value_and_gradient(total_of(Pairwise(0.1, top=2.5, lone=True), batch), logp)
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
        (Pairwise, {"top": 0.0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, given_settings):
    with pytest.raises(ValueError, match=next(iter(given_settings))):
        kind(**given_settings)
