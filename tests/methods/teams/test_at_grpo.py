"""Trunks with their candidates, where a workflow asks for none, and credit among answers to one prompt."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, experiences, make, make_turn, normalised
from hypothesis import given
from hypothesis import strategies as st
from rollout_cases import Stage, assignments, identity

from hocket.core.batch import Level
from hocket.core.candidates import TURN_REWARD, Branching
from hocket.credit.group import GroupRelative
from hocket.methods.teams.at_grpo import AgentTurnTree, PromptRelative
from hocket.rollout.independent import Independent
from hocket.types import Score, Trajectory


class Branchy(Stage):
    """Scenario `plain` asks for no candidates; the others leave two branches beside each episode."""

    def trajectory(self, assignment, sample):
        found = super().trajectory(assignment, sample)
        if assignment.scenario.id != "plain" and found.failure is None:
            found.branches = [
                Trajectory(assignment.scenario, found.turns, sample=sample, source="branch") for _ in range(2)
            ]
        return found


def test_branches_follow_their_trunk_and_only_trunks_are_judged():
    stage = Branchy(lambda name, sample: 1.0)
    found = stage.collect(AgentTurnTree(candidates=3, trunks=2, take="first", alpha=0.5), assignments("a", "b"))
    assert [(t.scenario.id, t.sample, t.source) for t in found.trajectories] == [
        (name, sample, source) for name in "ab" for sample in (0, 1) for source in ("own", "branch", "branch")
    ]
    assert identity(stage.scored) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    (asked,) = stage.asked
    assert {one.option(Branching) for one in asked} == {Branching(3, "first", 0.5)}
    assert {one.samples for one in asked} == {2}
    assert found.metrics == {"branches": 8.0}


class Judged(Branchy):
    """Of three candidates of a turn the one that goes on earned 1, the others 0 and 0.5."""

    def trajectory(self, assignment, sample):
        found = super().trajectory(assignment, sample)
        for one, earned in zip((found, *found.branches), ([1.0, None], [0.0], [0.5]), strict=False):
            one.scores[TURN_REWARD] = Score(earned, Level.TURN)
        return found


def test_the_mean_reward_is_the_policys_and_not_that_of_the_best_of_its_answers():
    def metrics(take):
        return Judged(lambda name, sample: 1.0).collect(AgentTurnTree(3, take=take), assignments("a", "b")).metrics

    assert metrics("best") == {"branches": 4.0, "reward/mean": 0.5}
    assert metrics("first") == {"branches": 4.0}  # Any candidate stands for all: the episodes' own mean is unbiased.


def test_a_scenario_without_candidates_is_played_until_there_are_as_many():
    stage = Branchy(lambda name, sample: 1.0)
    found = stage.collect(AgentTurnTree(candidates=4), assignments("a", "plain"))
    assert [(t.scenario.id, t.sample) for t in found.trajectories if t.source == "own"] == [
        ("a", 0),
        *(("plain", sample) for sample in range(4)),
    ]
    plain = Stage(lambda name, sample: 1.0)
    wanted = plain.collect(Independent(samples=4), assignments("plain"))
    assert identity(t for t in found.trajectories if t.scenario.id == "plain") == identity(wanted.trajectories)


def test_enough_trunks_are_not_played_again():
    stage = Branchy(lambda name, sample: 1.0)
    found = stage.collect(AgentTurnTree(candidates=2, trunks=3), assignments("plain"))
    assert len(found.trajectories) == 3
    assert len(stage.asked) == 1


def test_a_lost_trunk_is_kept_as_it_is():
    stage = Branchy(lambda name, sample: None)
    found = stage.collect(AgentTurnTree(candidates=2), assignments("a"))
    assert [t.failure for t in found.trajectories] == ["lost", "lost"]


@pytest.mark.parametrize("settings", [{"candidates": 1}, {"trunks": 0}, {"take": "worst"}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValueError, match="must be"):
        AgentTurnTree(**settings)


@LAW
@given(experiences(), st.sampled_from(["std", None]))
def test_one_turn_each_is_group_relative(trajectories, scale):
    alone = [make(t.scenario.id, float(n % 3), length=len(t.turns[0])) for n, t in enumerate(trajectories)]
    batch = batch_of(alone)
    want = GroupRelative(scale=scale, epsilon=1e-8)(batch).advantage
    assert torch.equal(PromptRelative(scale=scale)(batch).advantage, want)


def candidates():
    """A trunk of two turns of two agents, and what was tried beside each; different prompts in the second group."""
    first, second = make_turn(2, agent="a", observed=3), make_turn(1, agent="b", observed=1)
    trunk = make("x", 9.0, turns=[first, second])
    trunk.scores["mixed"] = Score([1.0, 0.5], Level.TURN)
    beside = [(make_turn(1, agent="a", observed=3), 0.0), (make_turn(3, agent="b", observed=1), 0.25)]
    beside += [(make_turn(3, agent="b", observed=2), 5.0)]
    rows = [trunk]
    for turn, reward in beside:
        row = make("x", None, turns=[turn], source="branch")
        row.scores["mixed"] = Score([reward], Level.TURN)
        rows.append(row)
    return rows


def test_turns_that_were_scored_compete_by_their_own_score_under_one_prompt():
    batch = batch_of(candidates())
    got = by_trajectory(batch, PromptRelative()(batch).advantage)
    upper = normalised([1.0, 0.0], 1e-8)
    lower = normalised([0.5, 0.25], 1e-8)
    assert got[0] == pytest.approx([upper[0], upper[0], lower[0]])
    assert got[1] == pytest.approx([upper[1]])
    assert got[2] == pytest.approx([lower[1]] * 3)
    assert got[3] == [0.0] * 3, "another prompt is no group"


def test_a_longer_history_is_another_prompt():
    root, other = make_turn(2, observed=2), make_turn(2, observed=2)
    other.action[:] = 7
    rows = [
        make("x", 1.0, turns=[root, make_turn(1, parent=root)]),
        make("x", 0.0, turns=[other, make_turn(1, parent=other)]),
    ]
    batch = batch_of(rows)
    got = by_trajectory(batch, PromptRelative()(batch).advantage)
    assert got[0][:2] == pytest.approx(normalised([1.0, 0.0], 1e-8)[:1] * 2)
    assert got[0][2] == got[1][2] == 0.0
