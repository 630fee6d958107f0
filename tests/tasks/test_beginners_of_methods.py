"""Lessons that methods' own tasks begin with: the form that the method needs, with a beginner's slips."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
import pytest

from hocket import tasks
from hocket.tasks.lessons import Lesson, lessons_of
from hocket.types import Scenario


def drawn(name: str, count: int = 200) -> list[tuple[Scenario, list[Lesson]]]:
    """Training scenarios of a task, each with the lessons of an episode."""
    task, rng = tasks.find(name), np.random.default_rng(0)
    lessons = lessons_of(task)
    assert lessons is not None
    assert lessons.needed
    scenarios = [task.scenario("train", number) for number in range(count)]
    return [(scenario, list(lessons.play(scenario, rng))) for scenario in scenarios]


def said(lesson: Lesson, place: int = -1) -> str:
    return str(lesson.said[place]["content"])


@pytest.mark.parametrize(("name", "least", "most"), [("listed-steps", 0.1, 0.5), ("checked-sums", 0.5, 0.9)])
def test_some_lessons_solve_the_task_and_some_do_not(name: str, least: float, most: float) -> None:
    task: Any = tasks.find(name)
    right = fmean((task.verify(said(lesson), one) or 0.0) >= 1.0 for one, (lesson,) in drawn(name))
    assert least < right < most


def test_a_guess_of_known_or_sought_may_be_right_for_sums_alone_and_most_others_are_searched() -> None:
    episodes = drawn("known-or-sought")
    searched = [said(final, 0).startswith("<tool_call>") for _, (_, final) in episodes]
    assert 0.55 < fmean(searched) < 0.7
    for scenario, (guess, final) in episodes:
        right = scenario.answer in said(guess)
        assert not right or scenario.metadata["known"]
        assert [message["role"] for message in final.prompt[-2:]] == ["assistant", "user"]
        assert (f"<answer>{scenario.answer}</answer>" == said(final)) or not final.said[1:]


def test_feedback_in_guarded_talks_is_drawn_by_chance_and_mostly_followed() -> None:
    followed, labels = [], set()
    for scenario, (talk, feedback) in drawn("guarded-talks"):
        labels.add(said(feedback))
        assert said(talk, 0) in str(feedback.prompt[-1]["content"])
        if talk.said[1:]:
            wanted = "no" if "unsafe" in said(feedback) else scenario.answer
            followed.append(said(talk) == f"<answer>{wanted}</answer>")
    assert labels == {"ok", "unsafe, refuse", "needless, answer"}
    assert 0.7 < fmean(followed) < 0.9
