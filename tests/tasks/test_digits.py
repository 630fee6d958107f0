"""The world of handwritten digits."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.media import MEDIA, pictures_in
from hocket.core.pictures import open_picture
from hocket.tasks import digits, find
from hocket.tasks.digits import canvas, handwriting, worked
from hocket.tasks.handwriting import SIDE


def test_evaluation_has_handwriting_of_its_own() -> None:
    train, held = (handwriting(split) for split in ("train", "eval"))
    assert len(train[1]) + len(held[1]) == 1797
    assert {one.tobytes() for one in held[0]}.isdisjoint({one.tobytes() for one in train[0]})
    assert set(held[1].tolist()) == set(range(10))


def test_a_picture_shows_what_is_asked_about() -> None:
    """The answer follows from the digits, and the pixels of each quarter are handwriting of its digit."""
    task = find("digits")
    pixels, labels = handwriting("train")
    known = {one.tobytes(): int(label) for one, label in zip(pixels, labels, strict=True)}
    kinds = set()
    for number in range(12):
        scenario = task.scenario("train", number)
        (digest,) = pictures_in(scenario.messages)
        shown = np.asarray(open_picture(MEDIA.data(digest), "shown"))[..., 0]
        corners = [(row, column) for row in (0, SIDE) for column in (0, SIDE)]
        read = [known.get(shown[row : row + SIDE, column : column + SIDE].tobytes(), -1) for row, column in corners]
        assert read == scenario.metadata["digits"]
        there = [digit for digit in read if digit >= 0]
        kind = scenario.metadata["kind"]
        due = {"sum": sum(there), "count": len(there), "largest": max(there)}[kind]
        assert scenario.answer == str(due)
        assert task.verify(scenario.metadata["demonstration"], scenario) == 1.0
        assert task.verify(f"<answer>{due + 1}</answer>", scenario) == 0.0
        assert task.verify("", scenario) == 0.0
        kinds.add(kind)
    assert kinds == set(digits.QUESTIONS)


def test_scenarios_are_drawn_from_their_number() -> None:
    assert find("digits").scenario("eval", 5) == find("digits").scenario("eval", 5)
    assert find("digits?most=1&kinds=sum").scenario("train", 3).metadata["kind"] == "sum"


def test_a_worked_answer_adds_one_digit_after_the_other() -> None:
    assert worked("sum", [3, 9, 1]) == "<think>3+9=12+1=13</think><answer>13</answer>"
    assert worked("largest", [3, 9, 1]) == "<think>3 9 1</think><answer>9</answer>"
    rng = np.random.default_rng(0)
    assert all(1 <= len(canvas(rng, "train", 2).digits) <= 2 for _ in range(9))


@pytest.mark.parametrize(("settings", "words"), [("most=5", "between 1 and 4"), ("kinds=product", "kinds = 'product'")])
def test_settings_that_are_refused(settings: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        find(f"digits?{settings}")
