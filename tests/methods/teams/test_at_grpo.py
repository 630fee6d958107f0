"""Trunks with their candidates, and what happens where a workflow asks for none."""

from __future__ import annotations

import pytest
from rollout_cases import Stage, assignments, identity

from hocket.core.candidates import Branching
from hocket.methods.teams.at_grpo import AgentTurnTree
from hocket.rollout.independent import Independent
from hocket.types import Trajectory


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
