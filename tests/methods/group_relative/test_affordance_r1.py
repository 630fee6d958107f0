"""Parts as boxes and points, and the rewards of Affordance-R1."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.group_relative.affordance_r1.method import AFFORDANCE_R1, PartReward, likeness, pixel_overlap
from hocket.methods.group_relative.affordance_r1.parts import Part, code_of, items_in, listed_objects, parts_of
from hocket.methods.group_relative.affordance_r1.task import (
    READ,
    Affordances,
    hole,
    hurried,
    part_box,
    posed,
    read_first,
)
from hocket.tasks import find

PART = Part((10, 20, 30, 40), (20, 30), "hang")


def test_parts_are_read_back() -> None:
    code = code_of([PART, PART._replace(point=(1.5, 2))])
    assert parts_of(listed_objects(code)) == [PART, PART._replace(point=(1.5, 2))]
    assert items_in(f"<answer>\n{code}\n</answer> <answer>[]</answer>") == listed_objects(code)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "[]",
        "3",
        "{}",
        '["bbox_2d"]',
        "[" * 100_000,
        '[{"bbox_2d":[1,2,3],"point_2d":[1,2]}]',
        '[{"bbox_2d":[1,2,3,4]}]',
        '[{"bbox_2d":[1,2,3,"4"],"point_2d":[1,2]}]',
        '[{"bbox_2d":[1,2,3,NaN],"point_2d":[1,2]}]',
        '[{"bbox_2d":[1,2,3,Infinity],"point_2d":[1,2]}]',
        '[{"bbox_2d":[1,2,3,true],"point_2d":[1,2]}]',
        '[{"bbox_2d":[1,2,3,4],"point_2d":[1,2]},{"affordance":"hang"}]',
    ],
)
def test_what_is_no_list_of_parts_earns_nothing_for_them(code: str) -> None:
    assert parts_of(listed_objects(code)) is None
    perception = AFFORDANCE_R1.rewards[1]
    assert isinstance(perception, PartReward)
    assert perception.grade(f"<answer>{code}</answer>", code_of([PART])) == 0.0
    task = Affordances()
    assert task.verify(f"<answer>{code}</answer>", task.scenario("eval", 0)) == 0.0


def test_boxes_turned_round_overlap_nothing() -> None:
    assert pixel_overlap(PART.box, PART.box) == 1.0
    assert pixel_overlap((30, 40, 10, 20), PART.box) == pixel_overlap((30, 20, 10, 40), PART.box) == 0.0


def test_words_are_alike_by_their_letters() -> None:
    assert likeness("Hang ", "hang") == 1.0
    assert likeness("", "") == likeness("hang", "") == 0.0
    assert likeness("hang", "hung") == 0.75


def test_a_hole_is_what_ink_encloses() -> None:
    ink = np.zeros((5, 5), bool)
    ink[1:4, 1:4] = True
    ink[2, 2] = False
    assert np.argwhere(hole(ink)).tolist() == [[2, 2]]
    ink[1, 2] = False
    assert not hole(ink).any()
    pixels = np.zeros((8, 8), np.uint8)
    pixels[1:6, 3] = 200
    assert part_box(1, pixels) == (3, 2, 4, 6)
    assert part_box(0, pixels) is None


def test_the_task_and_what_a_beginner_answers() -> None:
    task = find("affordances")
    assert isinstance(task, Affordances)
    assert AFFORDANCE_R1.task == task.name
    read = 0
    for number in range(60):
        scenario = task.scenario("train", number)
        assert scenario == task.scenario("train", number)
        (lesson,) = task.lessons.play(scenario, Key.of(number).numpy())
        text = str(lesson.said[0]["content"])
        use, things = posed("train", number)
        assert text in (read_first(use, things), hurried(things))
        read += text == read_first(use, things)
        assert task.overlaps(read_first(use, things), scenario, 0.65) == 1.0
    assert abs(read / 60 - READ) < 0.2
    with pytest.raises(ConfigurationError, match="affordances"):
        find("affordances?things=3")
