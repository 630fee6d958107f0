"""Credit by place: progress of blocks, plans and solutions, the closing tag."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, batch_of, experiences, make, make_turn
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.signals import returns
from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.conciser import DeviationUnlessAllRight
from hocket.methods.group_relative.lc_r1 import TagBonus
from hocket.methods.group_relative.mrt import ProgressBonus, progress, progress_to_go
from hocket.methods.group_relative.pta_grpo import PlanAndSolution


@LAW
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_progress_telescopes(values):
    known = torch.tensor(values, dtype=torch.float64)
    assert float(progress(known).sum()) == pytest.approx(values[-1] - values[0], abs=1e-9)
    assert progress_to_go(known).tolist() == pytest.approx([values[-1] - v for v in values[:-1]], abs=1e-9)


def segmented(values, segments, weight=None):
    """A batch of one trajectory whose decisions lie in `segments`, with forced values."""
    trajectory = make("g", 1.0, turns=[make_turn(len(segments))])
    trajectory.info["forced_values"] = values
    batch = batch_of([trajectory])
    batch = batch.but(segment=torch.tensor(segments))
    return batch if weight is None else batch.credited(weight=torch.tensor(weight))


def test_own_blocks_and_to_go():
    batch = segmented([0.0, 0.25, 1.0], [0, 0, 1, 2])
    assert ProgressBonus(base=None)(batch).advantage.tolist() == [0.25, 0.25, 0.75, 0.75]
    assert ProgressBonus(base=None, form="to-go", alpha=2.0)(batch).advantage.tolist() == [2.0, 2.0, 1.5, 1.5]


def test_no_weight_no_bonus_and_no_values_no_bonus():
    assert ProgressBonus(base=None)(segmented([0.0, 1.0], [0, 0], [1.0, 0.0])).advantage.tolist() == [1.0, 0.0]
    assert ProgressBonus(base=None)(batch_of([make("g", 1.0)])).advantage.tolist() == [0.0, 0.0]


@LAW
@given(experiences())
def test_without_columns_the_base_decides(trajectories):
    batch, base = batch_of(trajectories), GroupRelative()
    for credit in (ProgressBonus(base=base), TagBonus(base=base)):
        assert torch.equal(credit(batch).advantage, base(batch).advantage)


@LAW
@given(experiences(sources=("own", "baseline")))
def test_plans_by_hand(trajectories):
    batch = batch_of(trajectories)
    given, value = PlanAndSolution()(batch), returns(batch).tolist()
    paths = [[] for _ in trajectories]
    for place, (decision, owner) in enumerate(
        zip(batch.occurrences.decision.tolist(), batch.occurrences.trajectory.tolist(), strict=True)
    ):
        paths[owner].append((place, int(batch.turn[decision])))
    used = {int(owner) for owner in batch.occurrences.trajectory[batch.occurrences.weight != 0]}
    for owner, path in enumerate(paths):
        group = [n for n in used if batch.scenario[n] == batch.scenario[owner]]
        plans = {paths[n][0][1]: [value[m] for m in group if paths[m][0][1] == paths[n][0][1]] for n in group}
        worth = {plan: sum(found) / len(found) for plan, found in plans.items()}
        for place, turn in path:
            first = turn == path[0][1]
            if first:
                wanted = worth[turn] - sum(worth.values()) / len(worth) if turn in worth else 0.0
            else:
                wanted = value[owner] - sum(value[n] for n in group) / len(group) if owner in used else 0.0
            assert float(given.advantage[place]) == pytest.approx(wanted, abs=1e-9)


def test_the_tag_alone_is_paid():
    one, two = make("g", 1.0, length=4), make("g", 0.0, length=3)
    one.info["thinking"] = {"tag": 1, "kept": 1, "original": 4, "reached": True}
    batch = batch_of([one, two])
    extra = TagBonus(bonus=2.0)(batch).advantage - GroupRelative(scale=None)(batch).advantage
    assert extra.tolist() == [0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0]


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


def test_settings_are_checked():
    with pytest.raises(ValueError, match="form"):
        ProgressBonus(form="all")
