"""CollabUIAgents: which answers meet in a pair, whatever else a batch holds; its task, lessons and refusals."""

import asyncio
from dataclasses import dataclass, replace

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.toys.screens import page
from hocket.methods.teams.claims.collabuiagents import FLOW, LONGEST, PAGES, Short
from hocket.methods.teams.collabuiagents import (
    ADVERSARY,
    FOLLOWS,
    GRADES,
    LEAD,
    OPPOSES,
    WRONG,
    GradedPairs,
    OpposedAnswers,
    VotedMoves,
    VotedTask,
    follows,
)
from hocket.types import Scenario, Trajectory, Turn
from hocket.zoo.screens import OnScreen


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
    ],
    ids=["no episode", "a silent turn", "a silent answer"],
)
def test_nothing_is_compared_with_what_is_not_there(rows):
    assert pairs(*rows) == []


def test_a_move_is_right_where_it_is_what_the_world_says_comes_next():
    screen = OnScreen(page(0, LONGEST))
    moves = (page(0, LONGEST).plan[0].upper(), "hm", "")
    assert [follows(screen, one) for one in moves] == [True, False, False]
    maze = tasks.find("maze?width=3&height=3")
    world = tasks.find("voted:maze?width=3&height=3").workflow.world.make(maze.scenario("train", 0))
    assert follows(world, "go north") is None
    silent = Trajectory(PAGES[0], [], info={FOLLOWS.name: [None]})
    with pytest.raises(ConfigurationError, match="the world does not say which move comes next"):
        asyncio.run(OpposedAnswers().opinions([(silent, 0)]))


def test_lessons_say_each_move_alone_after_others_moves_and_anothers_where_it_is_to_be_wrong():
    task = tasks.find("voted:screens?longest=3")
    for number in range(20):
        scenario = task.scenario("train", number)
        plain, made = (one.play(scenario, Key.of(number).numpy()) for one in (task.inner.lessons, task.lessons))
        said = {one.said[0]["content"] for one in plain}
        for talk, alone, after, err in zip(plain, made[::3], made[1::3], made[2::3], strict=True):
            question, heard = (str(one.prompt[-1]["content"]) for one in (talk, after))
            assert alone == talk
            assert after.said == talk.said
            assert heard.startswith(f"{question}\n{LEAD}")
            moves = heard.removeprefix(f"{question}\n{LEAD}").split("; ")
            assert set(moves) <= said
            assert 1 <= len(moves) <= 3
            assert err.prompt[-1]["content"] == f"{question}\n{WRONG}"
            assert err.said[0]["content"] in said


def test_a_task_takes_its_own_settings_out_of_those_behind_it():
    named = tasks.find("voted:screens?longest=2&voters=5&edges=1&rounds=3")
    assert isinstance(named, VotedTask)
    flow = named.workflow
    assert (flow.voters, flow.edges, flow.rounds, flow.world) == (5, 1, 3, named.inner.workflow.world)
    assert flow.roles == (*(f"agent_{n}" for n in range(1, 6)), ADVERSARY)


@dataclass(frozen=True)
class Pair(Short):
    agents: tuple[str, ...] = ("left", "right")
    name: str = "pair"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tasks.find("voted:sums"), "sums is no environment"),
        (lambda: VotedMoves(Short(), memory=True), "votes need memory=false"),
        (lambda: VotedMoves(Pair(), memory=False), "votes are for worlds of one seat; pair has several"),
        (lambda: replace(FLOW, voters=0), "voters = 0 and rounds = 2 are at least 1"),
        (lambda: replace(FLOW, rounds=0), "voters = 3 and rounds = 0"),
        (lambda: replace(FLOW, edges=-1), "edges = -1"),
        (lambda: OpposedAnswers(samples=0), "samples and scale must be at least 1, not 0"),
        (lambda: OpposedAnswers(scale=0), "samples and scale must be at least 1, not 2 and 0"),
        (lambda: GradedPairs(margin=-1.0), "margin must be at least 0"),
    ],
)
def test_what_cannot_be_played_by_a_vote_is_refused(make, message):
    with pytest.raises((ConfigurationError, ValueError), match=message):
        make()
