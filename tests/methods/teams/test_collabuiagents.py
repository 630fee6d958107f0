"""CollabUIAgents: which answers meet in a pair, whatever else a batch holds."""

import numpy as np
import pytest

from hocket.core.packing import pack
from hocket.methods.teams.collabuiagents import GRADES, OPPOSES, GradedPairs
from hocket.types import Scenario, Trajectory, Turn


def said(sample: int, place: int, grades: list[float | None], lengths: list[int], page: str = "page") -> Trajectory:
    """An episode (place -1) or an answer to one of its questions, a turn for each length."""
    turns = [
        Turn("agent", "policy", np.zeros(1, np.int64), np.zeros(length, np.int64), -np.ones(length, np.float32))
        for length in lengths
    ]
    return Trajectory(Scenario(page), turns, sample=sample, info={OPPOSES.name: (sample, place), GRADES.name: grades})


def pairs(*rows: Trajectory, **settings: bool | float) -> list[list[int]]:
    """The turns that are compared, the preferred one first."""
    found = GradedPairs(**settings)(pack(rows)).compared
    assert found is not None
    return found.tolist()


def test_the_higher_grade_is_preferred_unless_only_the_agents_own_may_be():
    rows = (said(0, -1, [1.0, 0.0], [2, 1]), said(0, 0, [0.0], [1]), said(0, 1, [1.0], [3]))
    assert pairs(*rows) == [[0, 2], [3, 1]]
    assert pairs(*rows, own=True) == [[0, 2]]
    assert pairs(*rows, margin=1.0) == []


def test_an_answer_belongs_to_the_episode_of_its_scenario_and_sample():
    rows = (
        said(0, 0, [1.0], [1], "other"),
        said(1, -1, [0.0], [1], "other"),
        said(0, -1, [0.5], [1], "other"),
        said(0, -1, [0.0], [1]),
    )
    assert pairs(*rows) == [[0, 2]]


@pytest.mark.parametrize(
    "rows",
    [
        (said(0, 0, [1.0], [1]),),
        (said(0, -1, [0.0, 0.0], [0, 1]), said(0, 1, [1.0], [1])),
        (said(0, -1, [0.0], [1]), said(0, 0, [1.0], [0])),
        (said(0, -1, [None], [1]), said(0, 0, [1.0], [1])),
        (said(0, -1, [0.0], [1]), said(0, 0, [None], [1])),
    ],
    ids=["no episode", "a silent turn", "a silent answer", "no grade", "no grade of the answer"],
)
def test_nothing_is_compared_with_what_is_not_there(rows):
    assert pairs(*rows) == []
