"""Values of messages: searched for, counted over what follows, and fitted by a head."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch
from credit_cases import LAW, PATHS, dialogues_of
from hypothesis import given
from rollout_cases import talk_bench, talked

from hocket.lab.talk import total
from hocket.methods.teams.masprm.method import MESSAGE_VALUES, MessageSearch, MessageValueLoss, MessageValues
from hocket.rollout.message_search import UCT
from hocket.types import Evaluation


def test_a_search_visits_add_up_and_episodes_say_what_their_messages_were_worth() -> None:
    found = talk_bench("masprm")
    rollout = MessageSearch(searches=10, rule=UCT(candidates=3))
    episodes = talked(rollout, found).trajectories
    assert all(len(MESSAGE_VALUES.get(one)) == 3 for one in episodes)
    for one in episodes:
        assert MESSAGE_VALUES.get(one)[-1] == 2 * total(one) - 1
        assert {turn.policy for turn in one.turns} == {"policy"}
        assert all(turn.logp is None for turn in one.turns)
    assert len({id(one) for one in episodes}) == len(episodes)


@LAW
@given(PATHS)
def test_values_are_means_through_the_message_and_each_counts_once(rows):
    batch = dialogues_of(rows)
    seen = MessageValues()(batch)
    used = seen.weight != 0
    assert batch.turn[seen.decision[used]].unique().numel() == int(used.sum())
    assert bool(seen.advantage[~used].eq(0).all())
    counted = [n for n, one in enumerate(rows) if one[3]]
    for decision, owner, target in zip(seen.decision[used], seen.trajectory[used], seen.target[used], strict=True):
        turn = int(batch.turn[decision])
        assert int(decision) == int((batch.turn == turn).nonzero().max())
        through = {
            int(t) for t, d in zip(seen.trajectory, seen.decision, strict=True) if int(batch.turn[d]) == turn
        } & set(counted)
        assert float(target) == pytest.approx(fmean(2 * rows[one][1] - 1 for one in through))
        assert int(owner) in counted
    assert bool(seen.advantage.isfinite().all())


def test_written_values_are_taken_and_advantages_telescope():
    batch = dialogues_of([((0, 1), 1.0, "a", True), ((2, 2), 0.0, "a", True)])
    batch = batch.but(info={"message_values": [[0.5, 1.0], [-0.25, -1.0]]})
    seen = MessageValues()(batch)
    used = seen.weight != 0
    assert seen.target[used].tolist() == [0.5, 1.0, -0.25, -1.0]
    assert seen.advantage[used].tolist() == [0.5, 0.5, -0.25, -0.75]


@pytest.mark.parametrize("fit", ["squared", "huber", "cross-entropy"])
def test_the_fit_has_its_minimum_at_the_target(fit):
    batch = dialogues_of([((0,), 0.7, "a", True)])
    batch = batch.but(occurrences=MessageValues()(batch))
    z = torch.full((batch.decisions,), math.atanh(0.4), dtype=torch.float64).requires_grad_()
    terms = MessageValueLoss(fit=fit)(Evaluation(logp=torch.zeros(1), value=z), batch)
    (gradient,) = torch.autograd.grad(terms.total(), z)
    assert gradient.abs().max() < 1e-12
    for extreme in (50.0, -50.0):
        loss = MessageValueLoss(fit=fit)(Evaluation(logp=torch.zeros(1), value=torch.full((1,), extreme)), batch)
        assert bool(loss.value.isfinite().all())


def test_targets_of_certain_messages_are_finite():
    batch = dialogues_of([((0,), 1.0, "a", True)])
    batch = batch.but(occurrences=MessageValues()(batch))
    terms = MessageValueLoss()(Evaluation(logp=torch.zeros(1), value=torch.zeros(1, dtype=torch.float64)), batch)
    assert float(terms.total()) == pytest.approx(math.atanh(0.95) ** 2)
