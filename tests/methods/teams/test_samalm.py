"""SAMALM: what a critic's words count, critics by rule, lessons, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hocket import tasks
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.reply import Reply
from hocket.core.columns import ALTERNATIVES, LIMIT
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.teams.claims.samalm import Stand, heard
from hocket.methods.teams.samalm.method import (
    TRIED,
    Checks,
    Verified,
    VerifiedMoves,
    VerifiedTask,
    chances,
    level_of,
    said_together,
    scaled,
)
from hocket.methods.teams.samalm.world import COMMANDS, Crossings, Outlook
from hocket.tasks.lessons import Lessons
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.types import Scenario

ALONE = Crossings(robots=1, people=0, length=1)


def opinion(text: str, told: Any = None) -> list[float]:
    """What is made of a critic's words, and of the alternatives that it tells."""
    (one,) = rehearse(PlayEnvironment(ALONE, memory=False), Scenario("floor", seed=1), Part(otherwise=text or "-"))
    turn = one.turns[0]
    if told is not None:
        turn.extras[ALTERNATIVES.name] = told
    tokens = turn.action if text else turn.action[:0]
    return chances(Reply(text, tokens, turn.finish, turn), [frozenset({n}) for n in range(1000, 1005)])


def test_without_alternatives_a_critic_is_taken_at_its_word() -> None:
    assert opinion("4 slow") == [0, 0, 0, 1, 0]
    assert opinion("I say 2.") == [0, 1, 0, 0, 0]
    assert [opinion(text) for text in ("well", "7", "14 of 20")] == [[0.2] * 5] * 3
    elsewhere = np.array([[1001, 7]]), np.log(np.array([[0.6, 0.4]]))
    assert opinion("well", elsewhere) == pytest.approx([0.08, 0.68, 0.08, 0.08, 0.08])
    assert opinion("", elsewhere) == [0.2] * 5


@pytest.mark.parametrize("away", [-0.1, 0.0, 0.29, 0.3])
@pytest.mark.parametrize("nearer", [-0.2, 0.1, 0.11, 0.45, 0.46])
def test_a_rule_grades_touching_then_the_margin_then_the_way_made(away: float, nearer: float) -> None:
    ahead = Outlook(np.array([9.0, away]), np.array([9.0, nearer]), np.array([0, 0]))
    due = 1 if away < 0 else 2 if away < 0.3 else 3 if nearer <= 0.1 else 4 if nearer <= 0.45 else 5
    assert level_of(ahead, 1, 0.3) == due


def test_grades_are_scaled_to_the_levels_there_are() -> None:
    found = [[scaled(level, most) for level in range(1, 6)] for most in (2, 5, 9)]
    assert found == [[1, 1, 1, 2, 2], [1, 2, 3, 4, 5], [1, 3, 5, 7, 9]]


def test_of_all_commands_a_rule_says_what_is_to_be_said_of_the_worst() -> None:
    levels = set[int]()
    for seed in range(60):
        course = Crossings(robots=2, people=3).make(Scenario("floor"))
        course.reset(Key.of(seed))
        moves = {seat: COMMANDS[(seed + n) % len(COMMANDS)] for n, seat in enumerate(course.acting)}
        ahead, found = course.joint(moves), list[tuple[int, str]]()
        for place in map(course.agents.index, moves):
            level = level_of(ahead, place, course.world.persona(place).margin)
            near = f" {course.called(int(ahead.nearest[place]))}" if level < 3 else ""
            why = ("touches", "near", "waits", "slow", "good")[level - 1]
            found.append((level, f"{level} {course.agents[place]} {why}{near}"))
        assert said_together(course, moves, 5) == min(found, key=lambda one: one[0])[1]
        levels.update(level for level, _ in found)
    assert levels >= {3, 4, 5}


def test_on_a_floor_lessons_teach_all_roles_and_elsewhere_those_of_the_world() -> None:
    names = "verified:crossing", "crossing", "verified:devices", "devices"
    made, plain, other, inner = (cast(Lessons, cast(Any, tasks.find(name)).lessons) for name in names)
    assert (made.steps, other.steps) == (4 * plain.steps, inner.steps)
    assert made.taught.startswith(plain.taught)
    assert other.taught == inner.taught
    task = cast(VerifiedTask, tasks.find("verified:crossing"))
    assert replace(task, inner=cast(Any, SimpleNamespace(lessons=None))).lessons is None
    scenarios = [tasks.find("crossing").scenario("train", number) for number in range(12)]
    said = [one for number, asked in enumerate(scenarios) for one in made.play(asked, np.random.default_rng(number))]
    assert len({str(one.prompt[0]["content"]).partition(" ")[0] for one in said}) > 2
    for graded, one in itertools.pairwise(said):
        low = "Grade the command" in str(graded.prompt[0]["content"]) and str(graded.said[0]["content"])[0] in "12"
        refused = re.search(r"^Refused: ([a-z ]+) \(", str(one.prompt[-1]["content"]), re.MULTILINE)
        assert low is (refused is not None)
        assert refused is None or one.said[0]["content"] != refused[1]


def test_a_task_takes_its_settings_out_of_those_of_its_world() -> None:
    named = tasks.find("verified:crossing?rounds=3&robots=2&threshold=0.6")
    assert isinstance(named, VerifiedTask)
    flow = named.workflow
    assert isinstance(flow, VerifiedMoves)
    assert (flow.checks, flow.world) == (Checks(rounds=3, threshold=0.6), Crossings(robots=2))
    assert Verified(rounds=3).around(flow) == flow


def test_refused_is_the_share_of_commands_that_were_asked_for_again() -> None:
    task = cast(VerifiedTask, tasks.find("verified:crossing"))
    for seed in range(3):
        one = Stand(0.8).played(seed, Checks())
        asked = [text for seat in Crossings().agents for text in heard(one, seat)]
        share = sum("Refused: " in text for text in asked) / len(asked)
        assert task.describe(one)["refused"] == pytest.approx(share)


@pytest.mark.parametrize("turns", [1, 4])
def test_an_episode_ends_when_its_moves_are_used(turns: int) -> None:
    one, robots = Stand(0.8).played(3, Checks(), turns=turns), len(Crossings().agents)
    rounds = -(-turns // robots)
    assert len(TRIED.get(one)) == rounds
    assert LIMIT.get(one) == f"the episode has used its {robots * rounds} moves"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Checks(rounds=-1), "rounds = -1 is at least 0"),
        (lambda: Checks(threshold=1.5), r"threshold = 1.5 in \[0, 1\]"),
        (lambda: Checks(levels=1), "levels = 1 from 2 to 9"),
        (lambda: Checks(levels=10), "levels = 10 from 2 to 9"),
        (lambda: Checks(alternatives=0), "alternatives"),
        (lambda: tasks.find("verified:crossing?weighing=equally"), "weighing = 'equally'; choose from entropy"),
        (lambda: VerifiedMoves(ALONE, memory=True), "checked moves need memory=false"),
        (lambda: VerifiedMoves(ALONE, seats={"robot_1": "critic"}, memory=False), "has a seat"),
        (lambda: tasks.find("verified:sums"), "sums is no environment"),
        (lambda: run_async(Verified().play(Scenario("x"), cast(Any, None))), "workflow verified grades the moves"),
    ],
)
def test_what_cannot_be_checked_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ConfigurationError, ValueError), match=message):
        make()
