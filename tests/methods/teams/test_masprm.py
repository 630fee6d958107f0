"""Values of messages: searched for, counted over what follows, and fitted by a head."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import dialogues_of
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
