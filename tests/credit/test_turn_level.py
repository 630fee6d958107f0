"""Credit per turn: against sums by hand over random trees of turns, and what must never matter."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from credit_cases import (
    LAW,
    batch_of,
    by_trajectory,
    counts,
    deviation,
    experiences,
    make,
    make_turn,
    mean,
    weights_by_hand,
)
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy, Level
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.turn_level import EpisodeAndTurn, TurnAndOutcome, TurnRelative
from hocket.types import Score

INDEX, STATE = GroupBy("scenario", "agent", "turn_index"), GroupBy("scenario", "agent", "state")


def visits(trajectories, gamma):
    """Every visit to a turn: whose, its place, its turn, its reward-to-go for its agent, and whether it counts."""
    found = []
    for number, trajectory in enumerate(trajectories):
        rewards, at = [], 0
        steps = trajectory.scores.get("steps")
        turns = trajectory.scores.get("turns")
        for place, turn in enumerate(trajectory.turns):
            own = float(sum(steps.value[at : at + len(turn)])) if steps else 0.0
            rewards.append(own + (float(turns.value[place]) if turns else 0.0))
            at += len(turn)
        verdict = trajectory.scores.get("verdict")
        weights, at = weights_by_hand(trajectory), 0
        for place, turn in enumerate(trajectory.turns):
            later = [k for k in range(place, len(rewards)) if trajectory.turns[k].agent == turn.agent]
            to_go = sum(gamma**n * rewards[k] for n, k in enumerate(later))
            to_go += gamma ** (len(later) - 1) * (float(verdict.value) if verdict else 0.0)
            counted = any(weights[at : at + len(turn)])
            found.append((number, place, turn, to_go, counted))
            at += len(turn)
    return found


def alike(by, trajectories, one, other):
    (left, place, turn, _, _), (right, at, its, _, _) = one, other
    if trajectories[left].scenario.id != trajectories[right].scenario.id or turn.agent != its.agent:
        return False
    if by is INDEX:
        return place == at
    return turn is its or (turn.state is not None and turn.state == its.state)


def by_hand(trajectories, by, baseline, gamma, scaled):
    found, seen = [[] for _ in trajectories], visits(trajectories, gamma)
    for one in seen:
        number, _, turn, to_go, counted = one
        group = [other for other in seen if other[4] and alike(by, trajectories, one, other)]
        values = [other[3] for other in group]
        others = [other[3] for other in group if other[0] != number]
        siblings = {
            other[0] for other in seen if other[4] and trajectories[other[0]].scenario == trajectories[number].scenario
        }
        advantage = 0.0
        if counted:
            base = {
                "none": 0.0,
                "mean": mean(values),
                "others": mean(others) if others else 0.0,
                "everyone": sum(values) / len(siblings),
            }[baseline]
            advantage = 0.0 if baseline == "mean" and max(values) == min(values) else to_go - base
            if scaled:
                advantage /= (deviation(values, 1) if max(values) > min(values) else 0.0) + 1e-6
        found[number] += [advantage] * len(turn)
    return found


@LAW
@given(
    trajectories=experiences(sources=("own", "baseline")),
    by=st.sampled_from([INDEX, STATE]),
    baseline=st.sampled_from(["others", "mean", "everyone", "none"]),
    gamma=st.sampled_from([1.0, 0.9, 0.0]),
    scaled=st.booleans(),
)
def test_it_is_the_formula(trajectories, by, baseline, gamma, scaled):
    credit = TurnRelative(by=by, baseline=baseline, gamma=gamma, scale="std" if scaled else None)
    batch = batch_of(trajectories)
    found = by_trajectory(batch, credit(batch).advantage)
    for own, wanted in zip(found, by_hand(trajectories, by, baseline, gamma, scaled), strict=True):
        assert own == pytest.approx(wanted, abs=1e-8, rel=1e-9)


@LAW
@given(trajectories=experiences(least=2), by=st.sampled_from([INDEX, STATE]))
def test_order_does_not_matter(trajectories, by):
    if len({id(turn) for one in trajectories for turn in one.turns}) < sum(len(one.turns) for one in trajectories):
        return  # What a shared turn earned is the first trajectory's to tell.
    credit = EpisodeAndTurn(turn=TurnRelative(by=by, gamma=0.9))
    forward, backward = batch_of(trajectories), batch_of(trajectories[::-1])
    left = by_trajectory(forward, credit(forward).advantage)
    right = by_trajectory(backward, credit(backward).advantage)[::-1]
    for one, other in zip(left, right, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_what_counts_not_at_all_changes_nothing():
    rows = [make("g", reward, turns=[make_turn(2, state="s"), make_turn(1, state="s")]) for reward in (1.0, 0.0, 0.5)]
    idle = make("g", 9.0, turns=[make_turn(2, state="s")], source="baseline")
    for credit in (TurnRelative(by=STATE), EpisodeAndTurn(turn=TurnRelative(by=STATE)), TurnAndOutcome()):
        alone, beside = batch_of(rows), batch_of([*rows, idle])
        left, right = by_trajectory(alone, credit(alone).advantage), by_trajectory(beside, credit(beside).advantage)
        assert right[:3] == left
        assert right[3] == [0.0, 0.0]


def test_constant_groups_and_groups_of_one_have_exactly_no_credit():
    equal = batch_of([make("g", 1 / 3, turns=[make_turn(3, state="s")]) for _ in range(5)])
    credit = TurnRelative(by=STATE, baseline="mean", scale="std", epsilon=0.0)
    assert not credit(equal).advantage.any()
    assert not credit(batch_of([make("g", 0.7, turns=[make_turn(3, state="s")])])).advantage.any()
    assert not TurnAndOutcome(epsilon=0.0)(equal).advantage.any()


def test_a_turn_alone_keeps_its_return_against_others():
    batch = batch_of(
        [make("g", 0.7, turns=[make_turn(2, state="only")]), make("g", 0.2, turns=[make_turn(1, state="x")])]
    )
    found = by_trajectory(batch, TurnRelative(by=STATE)(batch).advantage)
    assert found == [[0.7, 0.7], [0.2]]


def test_agents_discount_by_their_own_turns():
    turns = [make_turn(1, agent=name) for name in "abab"]
    trajectory = make("g", 1.0, turns=turns)
    trajectory.scores["turns"] = Score([1.0, 10.0, 2.0, 20.0], Level.TURN)
    batch = batch_of([trajectory])
    found = by_trajectory(batch, TurnRelative(baseline="none", gamma=0.5)(batch).advantage)
    assert found == [[1.0 + 0.5 * 3.0, 10.0 + 0.5 * 21.0, 3.0, 21.0]]


def test_a_shared_turn_is_credited_in_each_trajectory():
    stem = make_turn(2, state="root")
    ends = [make_turn(1, parent=stem, state="leaf") for _ in range(2)]
    batch = batch_of([make("g", reward, turns=[stem, end]) for reward, end in zip((1.0, 0.0), ends, strict=True)])
    found = by_trajectory(batch, TurnRelative(by=STATE)(batch).advantage)
    assert found == [[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]


@LAW
@given(trajectories=experiences(sources=("own", "baseline")), gamma=st.sampled_from([1.0, 0.5]))
def test_discounted_steps_are_sums_of_normalised_rewards(trajectories, gamma):
    batch = batch_of(trajectories)
    plain = by_trajectory(batch, StepRelative(gamma=0.0)(batch).advantage)
    found = by_trajectory(batch, StepRelative(gamma=gamma)(batch).advantage)
    for trajectory, steps, own in zip(trajectories, plain, found, strict=True):
        starts = [sum(len(t) for t in trajectory.turns[:n]) for n in range(len(trajectory.turns))]
        at = [steps[start] for start in starts]
        wanted = [sum(gamma ** (k - n) * at[k] for k in range(n, len(at))) for n in range(len(at))]
        spread = [value for value, turn in zip(wanted, trajectory.turns, strict=True) for _ in range(len(turn))]
        assert own == pytest.approx(spread, abs=1e-9)


@LAW
@given(trajectories=experiences(sources=("own", "baseline"), least=2))
def test_turn_and_outcome_without_turn_credit_is_group_relative(trajectories):
    for one in trajectories:
        one.scores = {name: score for name, score in one.scores.items() if name == "verdict"}
    batch = batch_of(trajectories)
    found = TurnAndOutcome(coefficient=0.0)(batch).advantage
    used = batch.occurrences.weight != 0
    whole = GroupRelative()(batch).advantage
    # A turn of which nothing counts has no credit here, and no weight there.
    assert torch.allclose(found[used], whole[used], atol=1e-12)
    assert all(math.isfinite(value) for value in found.tolist())
    assert all(counts(one) or not any(own) for one, own in zip(trajectories, by_trajectory(batch, found), strict=True))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"baseline": "median"}, "baseline"),
        ({"scale": "max"}, "scale"),
        ({"gamma": 1.5}, "gamma"),
        ({"by": GroupBy("scenario")}, "column of turns"),
        ({"similarity": 0.9}, "state"),
        ({"by": STATE, "similarity": 0.0}, "similarity"),
    ],
)
def test_settings_out_of_range_are_refused(setting, said):
    with pytest.raises(ValueError, match=said):
        replace(TurnRelative(), **setting)


def test_turn_and_outcome_refuses_what_it_cannot_do():
    for setting in ({"form": "sum"}, {"scale": "max"}, {"by": STATE}):
        with pytest.raises(ValueError, match=r"form|scale|column of turns"):
            TurnAndOutcome(**setting)


@LAW
@given(experiences())
def test_apart_the_episode_reads_whole_rewards_and_the_turn_its_own(trajectories):
    batch = batch_of(trajectories)
    own = TurnRelative(by=INDEX, baseline="none", gamma=0.0)
    found = EpisodeAndTurn(GroupRelative(), own, weight=0.7, apart=True)(batch).advantage
    kept = {
        level: {n: s for n, s in batch.scores.items() if (s.level is Level.TRAJECTORY) == level}
        for level in (True, False)
    }
    whole, local = (batch.but(scores=kept[level]) for level in (True, False))
    assert torch.equal(found, GroupRelative()(whole).advantage + 0.7 * own(local).advantage)
    expected = {(number, place): 0.0 for number, place, *_ in visits(trajectories, 0.0)}
    for number, trajectory in enumerate(trajectories):
        bare = replace(trajectory, scores={n: s for n, s in trajectory.scores.items() if n != "verdict"})
        for _, place, _, to_go, counted in visits([bare], 0.0):
            expected[number, place] = to_go if counted else 0.0
    spread = by_trajectory(batch, own(local).advantage)
    for number, trajectory in enumerate(trajectories):
        wanted = [expected[number, place] for place, turn in enumerate(trajectory.turns) for _ in range(len(turn))]
        assert spread[number] == pytest.approx(wanted, abs=1e-9)
    together = EpisodeAndTurn(GroupRelative(), own, weight=0.7)(batch).advantage
    assert torch.equal(together, GroupRelative()(batch).advantage + 0.7 * own(batch).advantage)
