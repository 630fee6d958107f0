"""The model of a run that names none."""

from __future__ import annotations

from typing import Any

import pytest

from hocket import tasks
from hocket.tasks.lessons import PREFIX
from hocket.train.config import configure
from hocket.train.lessons import with_lessons


def model(task: str, **settings: Any) -> str:
    return configure([("task", task), *settings.items()], tasks.find(task)).model


@pytest.mark.parametrize(
    ("task", "named"),
    [("sums", "nano"), ("digits", "nano-vlm"), ("boxes", "nano-vlm"), ("tones", "nano-audio"), ("tables", "nano-vlm")],
)
def test_a_task_with_pictures_or_sounds_gets_a_model_that_sees_or_hears(task: str, named: str) -> None:
    assert model(task) == named
    assert model(task, model="smollm2") == "smollm2"


def test_lessons_are_for_the_same_model() -> None:
    assert model(f"{PREFIX}bridged-digits") == "nano-vlm"
    settings = [("task", "bridged-digits"), ("recipe", "vision-r1"), ("lessons", 3)]
    planned = dict(with_lessons(settings, "bridged-digits", tasks.find("bridged-digits")))
    assert (planned["model"], planned["plan"][0]["steps"]) == ("nano-vlm", 3)


def test_no_lessons_come_first_unless_they_are_asked_for() -> None:
    settings = [("task", "bridged-digits"), ("recipe", "vision-r1")]
    assert list(with_lessons(settings, "bridged-digits", tasks.find("bridged-digits"))) == settings


def test_a_recipe_that_fills_in_masks_gets_a_masked_model() -> None:
    assert model("sums", recipe="cj-grpo") == model("sums", recipe="coupled-grpo") == "nano-mdlm"
    assert model("sums", recipe="cj-grpo", model="nano") == "nano"
