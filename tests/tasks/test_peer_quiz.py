"""Lessons of the quiz among peers: somebody's answer in its tags, and no more often right than these are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hocket import tasks
from hocket.methods.teams.kairos.workflow import given
from hocket.tasks.lessons import lessons_of


@pytest.mark.parametrize(
    ("name", "right"), [("peer-quiz", (0.4, 0.6)), ("peer-quiz?question=sums&peers=1", (0.5, 0.7))]
)
def test_lessons_say_what_somebody_says(name: str, right: tuple[float, float]) -> None:
    task = tasks.find(name)
    lessons = lessons_of(task)
    assert lessons is not None
    rng, said, correct, own = np.random.default_rng(0), 0, 0, 400
    for number in range(own):
        scenario = task.scenario("train", number)
        (lesson,) = lessons.play(scenario, rng)
        (reply,) = lesson.said
        answer = given(str(reply["content"]))
        assert reply["content"] == f"<answer>{answer}</answer>"
        assert lesson.prompt == scenario.messages
        said += answer in re.findall(r"says (-?\w+)\.", str(scenario.messages[-1]["content"]))
        correct += answer == scenario.answer
    assert said == own if "sums" in name else said > 0.8 * own
    assert right[0] < correct / own < right[1]
