"""Bar charts as programs, and the conversations and rewards of RRVF."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.media import MEDIA, pictures_in, with_pictures
from hocket.core.pictures import picture_bytes
from hocket.methods.generative.rrvf.drawing import code_of, difference, likeness, program_in, render, shown
from hocket.methods.generative.rrvf.method import RRVF, Likeness, RenderAndRevise, ToolUse, called
from hocket.methods.generative.rrvf.task import DRAFTS, Drawing, guessed
from hocket.tasks import find
from hocket.types import Scenario


@pytest.mark.parametrize("code", ["", " ", "a", "a9", "e1", "a1b2", "a1 a1", "a1 2", "a-1", "A1"])
def test_code_that_does_not_run(code: str) -> None:
    assert program_in(code) is None
    task = Drawing()
    assert task.verify(f"<answer>{code}</answer>", task.scenario("eval", 0)) == 0.0


def test_code_is_read_back_in_any_order() -> None:
    assert program_in("d1\n a8") == {"a": 8, "d": 1}
    assert (render({"a": 8, "d": 1}) == render({"d": 1, "a": 8, "c": 0})).all()
    assert code_of({"d": 1, "a": 8}) == "d1 a8"


def test_likeness_of_dark_pictures_is_none() -> None:
    dark = render({"a": 0})
    assert likeness(dark, dark) == 0.0
    assert difference(dark, dark) == "same"


def test_pictures_of_other_sizes_are_resized() -> None:
    large = np.kron(render({"b": 5}), np.ones((3, 3), np.uint8))
    assert likeness(shown(MEDIA.put(picture_bytes(large))), render({"b": 5})) > 0.7


def test_a_call_beside_an_answer_is_none() -> None:
    assert called("<tool_call>a1</tool_call>") == "a1"
    assert called("<tool_call>a1</tool_call><answer>a1</answer>") is None
    assert called("a1") is None


def test_words_without_a_picture_have_no_opinion_and_no_conversation() -> None:
    scenario: Any = SimpleNamespace(turns=[], scenario=Scenario("s", ({"role": "user", "content": "Draw?"},)))
    assert asyncio.run(Likeness()([scenario], key=Key.of(0))) == [None]
    with pytest.raises(ConfigurationError, match="no picture to draw; take task drawing"):
        asyncio.run(RenderAndRevise().play(scenario.scenario, scenario))


def test_tool_use_counts_up_to_most() -> None:
    picture = MEDIA.put(picture_bytes(render({"a": 1})))
    call = "<tool_call>a1</tool_call>"
    assert [ToolUse(most=2).score([call] * count, picture) for count in range(4)] == [0.0, 0.5, 1.0, 1.0]
    with pytest.raises(ValueError, match="most must be at least 1"):
        ToolUse(most=0)


def test_the_task_and_what_a_beginner_draws() -> None:
    task = find("drawing")
    assert isinstance(task, Drawing)
    assert RRVF.task == task.name
    drafts = 0
    for number in range(60):
        scenario = task.scenario("train", number)
        assert scenario == task.scenario("train", number)
        (lesson,) = task.lessons.play(scenario, Key.of(number).numpy())
        texts = [str(line["content"]) for line in lesson.said if line["role"] == "assistant"]
        drafts += len(texts) == 2
        if len(texts) == 2:
            assert called(texts[0]) is not None
            assert task.verify(texts[1], scenario) == 1.0
            assert len(pictures_in(lesson.said)) == 1
        program = program_in(str(scenario.answer))
        assert program is not None
        guess = guessed(program, Key.of(number).numpy())
        assert max(abs(guess[column] - program[column]) for column in program) <= 1
    assert abs(drafts / 60 - DRAFTS) < 0.2
    with pytest.raises(ConfigurationError, match="drawing"):
        find("drawing?bars=3")


def test_another_picture_is_drawn_too() -> None:
    picture = MEDIA.put(picture_bytes(render({"a": 4})))
    scenario = Scenario("mine", ({"role": "user", "content": with_pictures("Draw?", [picture])},))
    assert Drawing().verify("<answer>a4</answer>", scenario) == 1.0
    assert Drawing().verify("<answer>a2</answer>", scenario) == 0.5
