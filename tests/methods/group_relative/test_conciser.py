"""Lengths and deviations, counted by whether all of a group are right."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, batch_of, experiences
from hypothesis import given
from rewards_cases import ANSWERS, shaped_returns

from hocket.core.signals import returns
from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.conciser import DeviationUnlessAllRight, LengthOnceRight


@LAW
@given(ANSWERS)
def test_length_counts_only_where_all_are_right(answers):
    found = shaped_returns(LengthOnceRight(limit=10), answers)
    for (group, verdict, length, _), value in zip(answers, found, strict=True):
        failed = any(g == group and c and not v for g, v, _, c in answers)
        assert value == pytest.approx(verdict if failed else verdict + 1 - length / 10)


@LAW
@given(experiences())
def test_deviation_unless_all_right(trajectories):
    batch = batch_of(trajectories)
    found = GroupRelative(scale=None, weigh=(DeviationUnlessAllRight(least=0.5),))(batch).advantage
    scaled, centred = GroupRelative()(batch).advantage, GroupRelative(scale=None)(batch).advantage
    counted = {int(n) for n in batch.occurrences.trajectory[batch.occurrences.weight != 0]}
    value = returns(batch).tolist()
    failed = {int(batch.scenario[n]) for n in counted if value[n] < 0.5}
    mixed = torch.tensor([int(batch.scenario[n]) in failed for n in batch.occurrences.trajectory.tolist()])
    wanted = torch.where(mixed, scaled, centred)
    assert torch.allclose(found, wanted, atol=1e-9)
