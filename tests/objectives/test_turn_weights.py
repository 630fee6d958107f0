"""DPO whose turns weigh less the later they come, against loops over turns."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW, batch_of, experiences, make
from hypothesis import given
from hypothesis import strategies as st
from objective_batches import value_and_gradient

from hocket.core.batch import RecordedNumbers
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.objectives.preference import Pairwise, turn_weight, turn_weights
from hocket.types import Evaluation


def filled(trajectories, seed, gap):
    """A batch with a reference, random weights and pairs of neighbours, and current log-probs; float64."""
    batch = batch_of(trajectories)
    draw = Key.of(seed).torch()
    reference = -torch.rand(batch.decisions, generator=draw, dtype=torch.float64)
    seen = batch.occurrences
    scale = torch.randint(0, 3, (len(seen),), generator=draw).double()
    places = torch.arange(batch.trajectories)
    pairs = torch.stack([places[:-1], places[1:]], 1)
    known = torch.ones(batch.decisions, dtype=torch.bool)
    batch = batch.but(logp={"reference": RecordedNumbers(reference, known)}).credited(
        weight=seen.weight.double() * scale, pairs=pairs
    )
    return batch, reference + gap * torch.randn(batch.decisions, generator=draw, dtype=torch.float64)


def weight_by_hand(place, turns, gamma):
    """phi as a quotient of two geometric sums."""
    return math.fsum(gamma**k for k in range(place, turns)) / math.fsum(gamma**k for k in range(turns))


def weights_by_hand(batch, gamma):
    """The weight of each occurrence that counts, None for the others."""
    seen = batch.occurrences
    columns = seen.trajectory, batch.turn[seen.decision], seen.weight
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    counted = {}
    for owner, turn, weight in rows:
        if weight != 0:
            counted.setdefault(owner, {}).setdefault(turn, len(counted[owner]))
    return [
        None if weight == 0 else weight_by_hand(counted[owner][turn], len(counted[owner]), gamma)
        for owner, turn, weight in rows
    ]


@LAW
@given(experiences(), st.integers(0, 99), st.sampled_from([0.3, 0.7, 1.0]))
def test_weights_by_hand(trajectories, seed, gamma):
    batch, _ = filled(trajectories, seed, 0.0)
    for found, wanted in zip(turn_weights(batch, gamma).tolist(), weights_by_hand(batch, gamma), strict=True):
        assert math.isfinite(found)
        assert wanted is None or found == pytest.approx(wanted, rel=1e-12)


@LAW
@given(experiences(), st.integers(0, 99), st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([0.5, 50.0]))
def test_the_loss_by_hand(trajectories, seed, gamma, gap):
    batch, logp = filled(trajectories, seed, gap)
    seen, weights = batch.occurrences, weights_by_hand(batch, gamma)
    score = [0.0] * batch.trajectories
    alive = [False] * batch.trajectories
    drift = (logp - batch.logp["reference"].values)[seen.decision].tolist()
    for owner, scale, phi, own in zip(seen.trajectory.tolist(), seen.weight.tolist(), weights, drift, strict=True):
        if phi is not None:
            score[owner] += scale * phi * own
            alive[owner] = True
    margins = [0.2 * (score[a] - score[b]) for a, b in seen.pairs.tolist() if alive[a] and alive[b]]
    wanted = math.fsum(max(-m, 0.0) + math.log1p(math.exp(-abs(m))) for m in margins) / max(1, len(margins))
    loss = Pairwise(0.2, turn_discount=gamma)
    value, gradient = value_and_gradient(lambda now: loss(Evaluation(now), batch).total(), logp)
    assert float(value) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert bool(torch.isfinite(gradient).all())
    idle = torch.ones(batch.decisions, dtype=torch.bool)
    idle[seen.decision[seen.weight != 0]] = False
    assert bool((gradient[idle] == 0).all())


@given(st.integers(1, 60), st.floats(0.01, 1.0))
def test_phi_is_a_quotient_of_sums(turns, gamma):
    found = turn_weight(torch.arange(turns), torch.tensor(turns), gamma).tolist()
    assert found[0] == pytest.approx(1, rel=1e-12)
    assert found == pytest.approx([weight_by_hand(place, turns, gamma) for place in range(turns)], rel=1e-9)


@pytest.mark.parametrize("gamma", [0.0, -0.1, 1.5])
def test_a_discount_out_of_range_is_refused(gamma):
    with pytest.raises(ValueError, match="turn_discount"):
        Pairwise(turn_discount=gamma)


def test_pairs_of_turns_have_no_places_to_weigh():
    batch, logp = filled([make("a", reward, length=2) for reward in (1.0, 0.0)], 1, 0.1)
    batch = batch.credited(compared=torch.zeros(len(batch.occurrences.pairs), 2, dtype=torch.long))
    with pytest.raises(HocketError, match="turn_discount"):
        Pairwise(turn_discount=0.7)(Evaluation(logp), batch)
