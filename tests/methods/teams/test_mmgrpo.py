"""Groups of the calls of modules, against groups made by loops."""

from __future__ import annotations

import itertools

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, counted_turns, experiences, mean, normalised, weights_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.credit.units import turn_units
from hocket.methods.teams.mmgrpo import ModuleRelative


def total(trajectory):
    numbers = []
    for score in trajectory.scores.values():
        numbers += [score.value] if score.level is Level.TRAJECTORY else list(score.value)
    return sum(numbers)


def modules_by_hand(trajectories, mode):
    """Advantage and repetitions of each counted call, from groups made by loops; no random fill."""
    found = {}
    for scenario in dict.fromkeys(t.scenario.id for t in trajectories):
        rollouts = [n for n, t in enumerate(trajectories) if t.scenario.id == scenario and any(weights_by_hand(t))]
        for module in ("a", "b", "solo"):
            calls = {
                n: [
                    k
                    for k, turn in enumerate(trajectories[n].turns)
                    if turn.agent == module and counted_turns(trajectories[n])[k]
                ]
                for n in rollouts
            }
            least, most = (f(map(len, calls.values()), default=0) for f in (min, max))
            for k in range(0 if least == 0 else least if mode == "truncate" else most):
                members = [
                    (n, row[min(k, len(row) - 1)]) for n, row in calls.items() if k < len(row) or mode != "ragged"
                ]
                rewards = [total(trajectories[n]) for n, _ in members]
                for member, advantage in zip(members, normalised(rewards, 1e-6), strict=True):
                    found.setdefault(member, []).append(advantage)
    return found


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from(["truncate", "fill-last", "ragged"]))
def test_modules_equal_groups_made_by_loops(trajectories, mode):
    batch = batch_of(trajectories)
    seen = ModuleRelative(counts=mode)(batch)
    wanted = modules_by_hand(trajectories, mode)
    repeats = mean([len(values) for values in wanted.values()]) if wanted else 1.0
    rows = zip(by_trajectory(batch, seen.advantage), by_trajectory(batch, seen.weight), strict=True)
    for n, (advantages, weights) in enumerate(rows):
        forced, place = weights_by_hand(trajectories[n]), 0
        for k, turn in enumerate(trajectories[n].turns):
            values = wanted.get((n, k), [])
            span = slice(place, place + len(turn))
            assert advantages[span] == pytest.approx([mean(values) if values else 0.0] * len(turn), abs=1e-9)
            scale = len(values) / max(repeats, 1.0)
            assert weights[span] == pytest.approx([w * scale for w in forced[span]], abs=1e-6)
            place += len(turn)


@LAW
@given(experiences(), st.integers(0, 99))
def test_a_random_fill_repeats_calls_of_the_same_rollout_and_keeps_every_other(trajectories, seed):
    batch = batch_of(trajectories)
    units = turn_units(batch)
    ragged = ModuleRelative(counts="ragged").groups(batch, units, units.counted)
    filled = ModuleRelative(counts="fill-random", seed=seed).groups(batch, units, units.counted)
    assert [group[:3] for group in filled] == [group[:3] for group in ragged]
    for group, known in zip(filled, ragged, strict=True):
        assert set(known.members) <= set(group.members)
        assert len({int(units.trajectory[m]) for m in group.members}) == len(group.members)


def test_repeats_of_one_sign_cost_what_each_would():
    from hocket.objectives.surrogate import clipped_surrogate

    ratio, credit = torch.tensor([1.7, 0.4, 1.0]), torch.tensor([0.5, 0.25, 1.0])
    for sign in (1.0, -1.0):
        for one, other in itertools.pairwise(credit * sign):
            apart = clipped_surrogate(ratio, one, 0.2, 0.2) + clipped_surrogate(ratio, other, 0.2, 0.2)
            assert torch.allclose(2 * clipped_surrogate(ratio, (one + other) / 2, 0.2, 0.2), apart)
