"""Credit over trees of messages in any order, DPO of single turns, and credits and objectives that take turns."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
import torch
from credit_cases import LAW, PATHS, dialogues_of
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.components import from_plain, to_plain
from hocket.core.errors import HocketError
from hocket.credit.alternating import AlternatingCredit
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import BestAgainstWorst
from hocket.methods.teams.masprm.method import MessageValueLoss, MessageValues
from hocket.methods.teams.optima import BestAbove, MessageCost, Readability, SiblingTurns
from hocket.objectives.alternating import AlternatingObjective
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.preference import Pairwise
from hocket.types import Evaluation


@LAW
@given(PATHS, st.integers(0, 5))
def test_order_does_not_matter(rows, seed):
    shuffled = rows[:]
    random.Random(seed).shuffle(shuffled)
    credit = SiblingTurns(margin=0.0, least=-1.0, share=1.0)

    # Ties may choose another of equals, so only how many pairs there are is compared.
    assert len(credit(dialogues_of(rows)).pairs) == len(credit(dialogues_of(shuffled)).pairs)
    one, other = (
        sorted(seen.target[seen.weight != 0].tolist())
        for seen in (MessageValues()(dialogues_of(given_rows)) for given_rows in (rows, shuffled))
    )
    assert one == pytest.approx(other)


def test_dpo_of_turns_survives_mini_batches_and_other_policies():
    rows = [((0, 1), 1.0, "a", True), ((0, 2), 0.0, "a", True), ((1,), 1.0, "b", True), ((2,), 0.0, "b", True)]
    batch = dialogues_of(rows)
    batch = batch.but(occurrences=SiblingTurns(least=0.0)(batch))
    now = Evaluation(logp=torch.linspace(-1.5, -0.3, batch.decisions, dtype=torch.float64))
    parts = [batch.select(torch.tensor([0, 1])), batch.select(torch.tensor([2, 3]))]
    whole = float(Pairwise()(now, batch).total())
    assert whole == pytest.approx(fmean(float(Pairwise()(now, part).total()) for part in parts))
    none = batch.of_policy("another")
    assert float(Pairwise()(now, none).total()) == 0.0


def test_dpo_of_turns_refuses_what_is_of_trajectories():
    batch = dialogues_of([((0,), 1.0, "a", True), ((1,), 0.0, "a", True)])
    batch = batch.but(occurrences=SiblingTurns(least=0.0)(batch))
    with pytest.raises(HocketError, match="top, lone, tail and turn_discount"):
        Pairwise(top=2.0)(Evaluation(logp=torch.zeros(batch.decisions)), batch)


# ---------------------------------------------------------------- taking turns


def test_credits_and_objectives_take_turns():
    batch = dialogues_of([((0,), 1.0, "a", True), ((1,), 0.0, "a", True)])
    credit = AlternatingCredit((BestAbove(), BestAgainstWorst()), every=2)
    objective = AlternatingObjective((NegativeLogLikelihood(), Pairwise()), every=2)
    assert credit.pairs
    assert objective.couples == Pairwise().couples
    now = Evaluation(logp=torch.full((batch.decisions,), -1.0, dtype=torch.float64))
    for step, pairs in ((0, False), (1, False), (2, False), (3, True), (4, True), (5, False)):
        here = batch.but(step=step)
        here = here.but(occurrences=credit(here))
        assert (here.occurrences.pairs is not None) == pairs
        want = (Pairwise() if pairs else NegativeLogLikelihood())(now, here)
        assert float(objective(now, here).total()) == pytest.approx(float(want.total()))


@pytest.mark.parametrize(
    "stage",
    [
        SiblingTurns(),
        BestAbove(),
        MessageValues(),
        AlternatingCredit((BestAbove(), SiblingTurns())),
        AlternatingObjective((NegativeLogLikelihood(), Pairwise())),
        MessageValueLoss(),
        MessageCost(),
        Readability(),
    ],
)
def test_stages_are_values(stage):
    assert from_plain(to_plain(stage)) == stage
    assert hash(from_plain(to_plain(stage))) == hash(stage)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SiblingTurns(share=0.0), "share"),
        (lambda: BestAbove(share=2.0), "share"),
        (lambda: AlternatingCredit(()), "members"),
        (lambda: AlternatingCredit((GroupRelative(),), every=0), "every"),
        (lambda: AlternatingObjective(()), "members"),
        (lambda: MessageValueLoss(fit="cubic"), "fit"),
        (lambda: MessageValueLoss(bound=1.0), "bound"),
        (lambda: MessageCost(weight=-1.0), "weight"),
        (lambda: Readability(floor=0.0), "floor"),
    ],
)
def test_bad_settings_are_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()
