"""Sums with lessons in thinking too long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.markup import has_thought
from hocket.tasks.lessons import lessons_of


@pytest.mark.parametrize("name", ["lengthy-sums", "lengthy-sums?again=0"])
def test_lessons_are_right_think_and_repeat_at_most_so_often(name: str) -> None:
    task: Any = tasks.find(name)
    assert task.name == name
    rng, lessons, again = np.random.default_rng(0), lessons_of(task), set[int]()
    assert lessons is not None
    for number in range(100):
        scenario = task.scenario("train", number)
        (lesson,) = lessons.play(scenario, rng)
        text = str(lesson.said[0]["content"])
        assert task.verify(text, scenario) == 1.0
        assert has_thought(text)
        again.add(text.count(";"))
    assert again == ({0} if "again=0" in name else {0, 1, 2})


def test_a_thought_that_breaks_off_is_answered_with_the_total_so_far() -> None:
    task, rng = tasks.find("lengthy-sums?exits=1"), np.random.default_rng(0)
    lessons, right = lessons_of(task), list[float]()
    assert lessons is not None
    for number in range(200):
        scenario = task.scenario("train", number)
        (lesson,) = lessons.play(scenario, rng)
        thought, _, answer = str(lesson.said[0]["content"]).removeprefix("<think>").partition("</think>")
        whole = scenario.metadata["thought"]
        assert thought.startswith(whole) or whole.startswith(thought)
        said = answer.removeprefix("<answer>").removesuffix("</answer>")
        assert said == scenario.answer if len(thought) >= len(whole) else said in thought
        right.append(float(said == scenario.answer))
    assert 0.3 < np.mean(right) < 0.7


@pytest.mark.parametrize("name", ["lengthy-sums?again=-1", "lengthy-sums?exits=2", "lengthy-sums?exits=-0.1"])
def test_settings_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"again must be at least 0, and exits a share in \[0, 1\]"):
        tasks.find(name)
