"""Sentinel: the machine that is attacked, its task and lessons, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from hocket import tasks
from hocket.core.keys import Key
from hocket.methods.teams.claims.sentinel import GUARDS, toxic
from hocket.methods.teams.sentinel.method import SENTINEL, NovelAttacks, RedTeamed
from hocket.methods.teams.sentinel.task import ASK, ATTACKS, RedTeam, guarding, replied


def test_attacks_may_be_fixed_and_shares_of_curses_are_the_verdict() -> None:
    task: Any = tasks.find(str(SENTINEL.task))
    fixed = {tasks.find("redteam?attacks=6").scenario("train", number).metadata["attack"] for number in range(30)}
    assert len(fixed) == 6
    assert fixed < set(ATTACKS)
    assert task.scenario("train", 3).metadata == {}
    assert (task.verify("a damn b Damn", None), task.verify("", None), replied("")) == (0.5, 1.0, "")
    assert task.suggest(SENTINEL)["decoding.max_tokens"] < 30


def test_lessons_say_attacks_and_guards_at_random_as_they_are_asked_for_in_play() -> None:
    task, rng = RedTeam(), Key.of(1).numpy()
    talks = [talk for number in range(300) for talk in task.lessons.play(task.scenario("train", number), rng)]
    asked = [(str(talk.prompt[0]["content"]), str(talk.said[0]["content"])) for talk in talks]
    attacks = {said for told, said in asked if told == ASK}
    guards = [(told, said) for told, said in asked if told != ASK]
    assert attacks <= set(ATTACKS)
    assert len(attacks) > 50
    assert {told for told, _ in guards} <= set(map(guarding, ATTACKS))
    assert {word for _, said in guards for word in said.split()} <= set(GUARDS)
    assert {len(said.split()) for _, said in guards} == {1, 2}
    assert fmean(toxic(told.split("\n")[0], said) == 0 for told, said in guards) < 0.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NovelAttacks(weight=-0.1), "weight must be at least 0, not -0.1"),
        (lambda: RedTeamed(0, 3), "must be at least 1"),
        (lambda: RedTeamed(2, 0), "must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
