"""Drawn worlds: what is asked follows from the pixels, splits share no scene, and nothing empty earns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.media import MEDIA, pictures_in
from hocket.core.pictures import open_picture
from hocket.tasks import find
from hocket.tasks.frames import Frames, track_in
from hocket.tasks.lessons import lessons_of
from hocket.tasks.scenes import COLOURS
from hocket.tasks.shapes import SHAPES
from hocket.tasks.split import split_of
from hocket.types import Scenario

WORLDS = ("boxes", "shapes", "frames")


def pixels_of(scenario: Scenario) -> np.ndarray[Any, np.dtype[np.uint8]]:
    (digest,) = pictures_in(scenario.messages)
    return np.asarray(open_picture(MEDIA.data(digest), "drawn"))


def words_of(scenario: Scenario) -> str:
    return str(scenario.messages[0]["content"][-1]["text"])


def of_colour(pixels: np.ndarray[Any, np.dtype[np.uint8]], colour: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return (pixels == COLOURS[colour]).all(-1)


def test_a_box_is_that_of_the_pixels_of_its_colour() -> None:
    for kind in ("box", "point"):
        task = find(f"boxes?kinds={kind}")
        for number in range(8):
            scenario = task.scenario("train", number)
            rows, columns = np.nonzero(of_colour(pixels_of(scenario), words_of(scenario).split()[1][:-1]))
            box = [columns.min() / 2, rows.min() / 2, (columns.max() + 1) / 2, (rows.max() + 1) / 2]
            assert scenario.metadata["box"] == box
            assert scenario.answer == " ".join(str(int(edge)) for edge in box[: 4 if kind == "box" else 2])
            assert len(rows) == 4 * (box[2] - box[0]) * (box[3] - box[1])
            assert task.verify(f"<answer>{scenario.answer}</answer>", scenario) == 1.0


def due(kind: str, words: list[str], there: list[tuple[str, str, int]]) -> str:
    """The answer, from what was read off the pixels."""
    colours, shapes = [one[0] for one in there], [one[1] for one in there]
    if kind == "there":
        return "yes" if (words[1], words[2]) in zip(colours, shapes, strict=True) else "no"
    if kind == "place":
        row, column = divmod(there[shapes.index(words[2])][2], 4)
        return f"{row + 1} {column + 1}"
    if kind == "more":
        first, second = colours.count(words[1]), colours.count(words[3])
        return "same" if first == second else words[1] if first > second else words[3]
    if kind == "kind":
        return shapes[colours.index(words[2])]
    if kind == "colour":
        return colours[shapes.index(words[2])]
    if kind == "plus":
        return str(colours.count(words[0]) + shapes.count(words[2]))
    return str((colours if kind == "count" else shapes).count(words[2]))


def test_shapes_are_counted_by_their_pixels() -> None:
    """Colours, kinds and places are read off the cells again, and every question's answer follows from them."""
    task, kinds = find("shapes"), set()
    masks = {kind: np.array([[mark == "#" for mark in row] for row in rows]) for kind, rows in SHAPES.items()}
    for number in range(40):
        scenario = task.scenario("eval", number)
        pixels, there = pixels_of(scenario), []
        for cell in range(16):
            block = pixels[cell // 4 * 4 : cell // 4 * 4 + 4, cell % 4 * 4 : cell % 4 * 4 + 4]
            for colour in COLOURS:
                mask = of_colour(block, colour)
                there += [(colour, kind, cell) for kind, known in masks.items() if mask.any() and (mask == known).all()]
        kind = scenario.metadata["kind"]
        assert scenario.answer == due(kind, words_of(scenario).rstrip("?").split(), there)
        kinds.add(kind)
    assert kinds == set(task.kinds)


def test_films_are_read_frame_by_frame() -> None:
    task = Frames()
    for number in range(24):
        scenario = task.scenario("train", number)
        pixels, known = pixels_of(scenario), scenario.metadata
        if known["kind"] == "track":
            for frame, box in enumerate(known["boxes"]):
                quarter = pixels[frame // 2 * 8 : frame // 2 * 8 + 8, frame % 2 * 8 : frame % 2 * 8 + 8].any(-1)
                rows, columns = np.nonzero(quarter)
                assert box == [columns.min() // 2, rows.min() // 2, (columns.max() + 1) // 2, (rows.max() + 1) // 2]
            continue
        lit = {}
        for colour in COLOURS:
            mask = of_colour(pixels, colour)
            lit[colour] = [f for f in range(16) if mask[f // 4 * 4 : f // 4 * 4 + 4, f % 4 * 4 : f % 4 * 4 + 4].any()]
        frames = [frame for start, end in known["times"] for frame in range(start, end)]
        words = words_of(scenario).rstrip("?").split()
        if known["kind"] == "when":
            assert lit[words[1]] == frames
            assert scenario.answer == f"{frames[0]} to {frames[-1] + 1}"
        else:
            most = max((words[2], words[4]), key=lambda colour: len(lit[colour]))
            assert lit[most] == frames
            assert scenario.answer == ("A" if most == words[2] else "B")


@pytest.mark.parametrize("name", WORLDS)
def test_the_right_answer_earns_1_and_nothing_empty_earns(name: str) -> None:
    task = find(name)
    for number in range(12):
        scenario = task.scenario("train", number)
        assert task.scenario("train", number) == scenario
        times = [tuple(one) for one in scenario.metadata.get("times", [])]
        glue = f"<glue>{times}</glue>" if scenario.metadata["kind"] == "longest" else ""
        assert task.verify(f"<answer>{scenario.answer}</answer>{glue}", scenario) == 1.0
        for text in ("", "<answer></answer>", "<answer> </answer><glue>[]</glue>", "<think>1 2</think>", "[]"):
            assert task.verify(text, scenario) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.text("[](),. 0123456789toand<>/answerglue-", max_size=30), st.sampled_from(WORLDS), st.integers(0, 5))
def test_any_text_earns_between_0_and_1(inside: str, name: str, number: int) -> None:
    task = find(name)
    scenario = task.scenario("train", number)
    assert 0.0 <= task.verify(f"<answer>{inside}</answer><glue>{inside}</glue>", scenario) <= 1.0
    assert track_in(f"<answer>{'[' * 300}</answer>", 4) is None


@pytest.mark.parametrize("name", WORLDS)
def test_splits_share_no_scene_and_beginners_are_graded(name: str) -> None:
    task = find(name)
    rewards = []
    for number in range(30):
        rng = task.rng("train", number)
        scene, question = task.posed("train", rng)
        assert split_of(task.described(scene)) == "train"
        rewards.append(task.verify(task.beginner(scene, question, rng), task.scenario("train", number)))
    assert 0.1 < float(np.mean(rewards)) < 0.9
    lessons = lessons_of(task)
    assert lessons is not None
    assert lessons.steps == 0
    (lesson,) = lessons.play(task.scenario("train", 3), np.random.default_rng(0))
    assert "<answer>" in str(lesson.said[0]["content"])
    assert pictures_in(lesson.prompt)


@pytest.mark.parametrize("name", WORLDS)
def test_kinds_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"task {name}: kinds = 'odd'"):
        find(f"{name}?kinds=odd")
    assert find(f"{name}?kinds={find(name).kinds[0]}").scenario("train", 1).metadata["kind"] == find(name).kinds[0]
