"""Hi-Agent's planner and actor: what a subgoal is, one answer of each, lessons, settings and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hocket
from hocket import tasks
from hocket.methods.agents.claims.hi_agent import PLACES, Corridor, Doors, flow, order, right, told
from hocket.methods.agents.hi_agent import (
    ACTOR_SYSTEM,
    HI_AGENT,
    PLANNER_SYSTEM,
    Subgoals,
    SubgoalTask,
    formed,
    subgoal_in,
)
from hocket.testing import rehearse
from hocket.types import Scenario


class _Pair(Doors):
    agents = ("left", "right")  # type: ignore[assignment]
    name = "pair"


def test_feedback_may_be_what_the_environment_pays() -> None:
    workflow = flow(3, feedback="reward")
    corridor = workflow.world.make(Scenario("walk", "walk"))
    assert isinstance(corridor, Corridor)
    paid = []
    for room in range(3):
        corridor.room = room
        paid.append([workflow._made(corridor, place).worth for place in PLACES])
    right_place = order(2).index(right(2))
    wanted = [[0.0] * 3, [0.0] * 3, [float(place == right_place) for place in range(3)]]
    kept = corridor.room == 2 and not corridor.steps
    assert paid == wanted
    assert kept


def test_where_one_answer_is_drawn_planner_and_actor_take_turns() -> None:
    workflow = flow(3)
    replies = ["red", "1", "blue", "2", "green", "nowhere"]
    (played,) = rehearse(workflow, Scenario("walk", "walk"), replies)
    roles = [turn.role for turn in played.turns]
    heard = [told(turn) for turn in played.turns]
    system = {str(turn.prompt[0]["content"]) for turn in played.turns}
    holds = roles == ["planner", "actor"] * 3 and set(played.scores) == {"reward"} and not played.branches
    holds &= all(f"\nSubgoal: {replies[place - 1]}" in heard[place] for place in (1, 3, 5))
    holds &= system == {PLANNER_SYSTEM, ACTOR_SYSTEM} and played.info["illegal"] == {"player": 1}
    holds &= played.info["limit"] == "the episode has used its 3 moves" and played.info["returns"] == {"player": 0.0}
    way = [said for room in range(3) for said in (right(room), PLACES[order(room).index(right(room))])]
    (through,) = rehearse(workflow, Scenario("walk", "walk"), way)
    (short,) = rehearse(flow(3, turns=2), Scenario("walk", "walk"), way)
    holds &= through.info["returns"] == {"player": 1.0} and "limit" not in through.info and len(through.turns) == 6
    holds &= short.info["limit"] == "the episode has used its 2 moves" and len(short.turns) == 4
    assert holds


def test_a_subgoal_is_the_first_line() -> None:
    cases = {"red": ("red", True), " red \n": ("red", True), "red\nblue": ("red", False), "": ("", False)}
    cases |= {" \n ": ("", False), "x" * 80: ("x" * 80, True), "x" * 81: ("x" * 80, False)}
    wrong = [text for text, wanted in cases.items() if (subgoal_in(text), formed(text)) != wanted]
    assert not wrong


def test_lessons_are_those_of_the_inner_task() -> None:
    wrong, count = 0, 0
    for name in ("maze?width=3&height=3&steps=10&reading=number", "household"):
        task = tasks.find(f"subgoals:{name}")
        assert isinstance(task, SubgoalTask)
        workflow, lessons, inner = task.workflow, task.lessons, task.inner.lessons
        assert isinstance(workflow, Subgoals)
        assert lessons is not None
        assert inner is not None
        for number in range(3):
            scenario = task.scenario("train", number)
            both = lessons.play(scenario, np.random.default_rng(number))
            plain = inner.play(scenario, np.random.default_rng(number))
            for planner, actor, move in zip(both[::2], both[1::2], plain, strict=True):
                subgoal, question = str(planner.said[0]["content"]), str(move.prompt[0]["content"])
                listed = question.partition("Legal moves: ")[2].partition("\n")[0].split(", ")
                holds = actor.said == move.said and subgoal in listed and planner.prompt[0]["content"] == PLANNER_SYSTEM
                holds &= actor.prompt[1]["content"] == f"{question}\nSubgoal: {subgoal}"
                holds &= actor.prompt[0]["content"] == ACTOR_SYSTEM
                holds &= question.startswith(str(planner.prompt[1]["content"]))
                wrong, count = wrong + (not holds), count + 1
    assert wrong == 0
    assert count > 20


def test_what_cannot_be_played_is_refused() -> None:
    wanted: dict[Callable[[], Any], str] = {
        lambda: tasks.find("subgoals:sums"): "task subgoals:sums: sums is no environment",
        lambda: flow(2, feedback="joy"): "feedback must be progress or reward, not 'joy'",
        lambda: Subgoals(Doors(2), memory=True): "subgoals need memory=false",
        lambda: Subgoals(_Pair()): "subgoals are for worlds of one seat; pair has several",
    }
    said = []
    for call, sentence in wanted.items():
        try:
            call()
        except hocket.ConfigurationError as error:
            said.append(str(error).startswith(sentence))
    assert said == [True] * 4


def test_the_task_takes_its_own_settings() -> None:
    plain, named = tasks.find("subgoals:maze"), tasks.find("subgoals:maze?width=3&form=0.3")
    assert isinstance(named, SubgoalTask)
    workflow, world = named.workflow, named.inner.workflow.world
    assert isinstance(workflow, Subgoals)
    names = [one.name for one in (plain, named)] == ["subgoals:maze", "subgoals:maze?width=3&form=0.3"]
    holds = names and workflow.form == 0.3 and workflow.world == world and getattr(world, "width", 0) == 3
    assert holds
    assert HI_AGENT.workflow is None
