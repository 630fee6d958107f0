"""Virtual samples, steps, weights of groups together, scores apart and greedy baselines, against plain arithmetic."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, counts, credit_of, experiences, make, make_turn, rewards_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy, Level
from hocket.core.errors import ConfigurationError
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.reinforce import GreedyBaseline
from hocket.methods.group_relative.aapo import ReferenceMargin
from hocket.methods.group_relative.bnpo.method import BetaDensity
from hocket.methods.group_relative.bnpo.parts import EachScore
from hocket.methods.group_relative.gpg import SignalShare
from hocket.methods.group_relative.grpo_lead import LogisticAccuracy
from hocket.methods.group_relative.mapo import MixedDeviation
from hocket.methods.group_relative.s_grpo_noise import NoiseAware
from hocket.methods.group_relative.seed_grpo import SemanticEntropy
from hocket.methods.group_relative.vital_dgrpo import Difficulty
from hocket.types import Score

# ---------------------------------------------------------------- virtual samples


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.lists(st.sampled_from([0.0, 1.0, 3.5]), max_size=3))
def test_virtual_samples_enter_the_statistics_and_get_nothing(trajectories, virtual):
    credit = GroupRelative(virtual=tuple(virtual), epsilon=0.01)
    batch = batch_of(trajectories)
    found = by_trajectory(batch, credit(batch).advantage)
    for trajectory, got in zip(trajectories, found, strict=True):
        pool = [
            math.fsum(rewards_by_hand(other))
            for other in trajectories
            if other.scenario.id == trajectory.scenario.id and counts(other)
        ] + virtual
        expected = 0.0
        if counts(trajectory) and max(pool) > min(pool):
            own = math.fsum(rewards_by_hand(trajectory))
            deviation = statistics.stdev(pool) if len(pool) > 1 else 0.0
            expected = (own - statistics.fmean(pool)) / (deviation + 0.01)
        assert got == pytest.approx([expected] * trajectory.length, abs=1e-9)


def test_a_virtual_sample_makes_a_group_of_one_comparable():
    assert GroupRelative(virtual=(1.0,)).least_samples == 1
    assert credit_of(GroupRelative(virtual=(1.0,), epsilon=0.0), [0.0]) == pytest.approx([-1 / math.sqrt(2)])
    assert credit_of(GroupRelative(virtual=(1.0,), scale=None, leave_one_out=True), [0.0, 0.5]) == [-0.75, 0.0]
    with pytest.raises(ValueError, match="virtual samples belong to the groups of by"):
        GroupRelative(virtual=(1.0,), scale_by=GroupBy())


# ---------------------------------------------------------------- steps


@LAW
@given(experiences(sources=("own", "own", "baseline")))
def test_steps_are_turns_without_segments(trajectories):
    """Every visit to a turn is a step; the sum runs from the decision's step to the end."""
    batch = batch_of(trajectories)
    found = by_trajectory(batch, StepRelative(epsilon=0.5)(batch).advantage)
    steps = [_steps(trajectory) for trajectory in trajectories]
    for trajectory, own, got in zip(trajectories, steps, found, strict=True):
        pool = [
            reward
            for other, theirs in zip(trajectories, steps, strict=True)
            if other.scenario.id == trajectory.scenario.id
            for reward, counted, _ in theirs
            if counted
        ]
        normal = []
        for reward, counted, length in own:
            varied = counted and max(pool) > min(pool)
            value = (reward - statistics.fmean(pool)) / (statistics.stdev(pool) + 0.5) if varied else 0.0
            normal.append((value, length))
        expected = [
            math.fsum(v for v, _ in normal[place:]) for place, (_, size) in enumerate(normal) for _ in range(size)
        ]
        assert got == pytest.approx(expected, abs=1e-8)


def _steps(trajectory):
    """The reward earned in each turn, whether any of its decisions counts, and its length."""
    rewards, at, found = rewards_by_hand(trajectory), 0, []
    for turn in trajectory.turns:
        forced = [False] * len(turn) if turn.forced is None else turn.forced.tolist()
        counted = trajectory.source != "baseline" and not all(forced)
        found.append((math.fsum(rewards[at : at + len(turn)]), counted, len(turn)))
        at += len(turn)
    return found


def test_segments_divide_a_turn_into_steps():
    turn = make_turn(4)
    turn.segment = torch.tensor([0, 0, 1, 1]).numpy()
    first = make("s", None, turns=[turn])
    first.scores["steps"] = Score([0.0, 1.0, 0.0, 3.0], Level.DECISION)
    other = make("s", None, turns=[make_turn(2)], sample=1)
    other.scores["steps"] = Score([0.0, 2.0], Level.DECISION)
    batch = batch_of([first, other])
    found = by_trajectory(batch, StepRelative(scale=None)(batch).advantage)
    assert found == [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0]]  # Steps earn 1, 3 and 2; their mean is 2.


def test_steps_of_turns_cannot_be_grouped_by_turns():
    with pytest.raises(ValueError, match="by may not name a column of turns"):
        StepRelative(by=GroupBy("scenario", "agent"))


# ---------------------------------------------------------------- weights


def test_weights_multiply_in_order():
    both = GroupRelative(weigh=(NoiseAware(flip=0.1, success=0.5), Difficulty(0.7)))
    groups = [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    noise = credit_of(GroupRelative(weigh=(both.weigh[0],)), *groups)
    hard = credit_of(GroupRelative(weigh=(both.weigh[1],)), *groups)
    plain = credit_of(GroupRelative(), *groups)
    assert credit_of(both, *groups) == pytest.approx([a * b / c for a, b, c in zip(noise, hard, plain, strict=True)])


@pytest.mark.parametrize(
    "weight", [MixedDeviation(), BetaDensity(), NoiseAware(), Difficulty(), LogisticAccuracy(), SignalShare()]
)
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e6])
def test_constant_groups_and_groups_of_one_stay_exactly_zero(weight, value):
    for scale in ("std", None):
        assert credit_of(GroupRelative(scale=scale, weigh=(weight,)), [value] * 3, [value + 1]) == [0.0] * 4


@pytest.mark.parametrize(
    "make_weight",
    [
        lambda: NoiseAware(flip=0.5),
        lambda: NoiseAware(epsilon=-1.0),
        lambda: Difficulty(-1.0),
        lambda: SignalShare(0.5),
        lambda: BetaDensity(alpha=2.0),
        lambda: BetaDensity(least=1.0, most=1.0),
        lambda: SemanticEntropy(alpha=1.5),
        lambda: SemanticEntropy(form="focal"),
        lambda: ReferenceMargin(low=0.1),
    ],
)
def test_settings_are_checked(make_weight):
    with pytest.raises(ValueError, match=r"must|together"):
        make_weight()


# ---------------------------------------------------------------- scores apart


def test_each_score_refuses_what_is_not_there():
    batch = batch_of([make("s", 1.0), make("s", 0.0)])
    assert torch.equal(EachScore()(batch).advantage, GroupRelative()(batch).advantage)
    alone = EachScore(scores=("verdict",))(batch).advantage
    assert torch.equal(alone, GroupRelative()(batch).advantage)
    with pytest.raises(ConfigurationError, match=r"no score 'verdikt'.*did you mean 'verdict'"):
        EachScore(scores=("verdikt",))(batch)
    assert EachScore().least_samples == 2


# ---------------------------------------------------------------- baselines


def test_greedy_baseline_from_a_decision_on():
    own = make("s", 1.0, length=3)
    own.scores["steps"] = Score([0.5, 0.0, -0.25], Level.DECISION)
    greedy = make("s", 0.5, length=1, source="baseline")
    greedy.scores["steps"] = Score([0.0], Level.DECISION)
    batch = batch_of([own, greedy])
    whole, to_go = GreedyBaseline()(batch).advantage, GreedyBaseline(to_go=True)(batch).advantage
    assert whole.tolist() == [0.75, 0.75, 0.75, 0.0]
    assert to_go.tolist() == [0.75, 0.25, 0.25, 0.0]
