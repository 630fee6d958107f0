"""Handwritten digits in three parts, their judges, and the task that asks for four of them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.tasks.drawn_digits import DrawingReward, DrawnDigits, readings
from hocket.tasks.handwriting import NOTHING, PARTS, canvas, digits, judge, quarters
from hocket.types import Scenario, Trajectory


def drawn(labels: list[int], part: str = "generate") -> np.ndarray:
    """A picture of real digits."""
    held = digits(part)  # type: ignore[arg-type]
    return canvas(np.stack([held.pixels[held.label == label][3] for label in labels])[None])[0]


def attempt(picture: np.ndarray | None, labels: list[int]) -> Trajectory:
    return Trajectory(Scenario("s", "", metadata={"digits": labels}), [], final_state=picture)


def earned(trajectory: Trajectory) -> float:
    return asyncio.run(DrawingReward()([trajectory], key=Key.of(0)))[0]


def test_the_parts_are_all_digits_and_share_none() -> None:
    rows = [tuple(row) for part in PARTS for row in digits(part).pixels.tolist()]
    assert len(rows) == len(set(rows)) == 1797
    assert all(np.bincount(digits(part).label).min() > 50 for part in PARTS)


@pytest.mark.parametrize("part", ["judge", "evaluate"])
def test_a_judge_reads_the_digits_of_other_parts(part: str) -> None:
    for other in PARTS:
        if other != part:
            held = digits(other)
            assert (judge(part).read(held.pixels) == held.label).mean() > 0.975  # type: ignore[arg-type]


def test_a_canvas_has_its_digits_in_quarters() -> None:
    some = digits("generate").pixels[:8].reshape(2, 4, 64)
    assert np.array_equal(quarters(canvas(some)), some)
    assert canvas(some)[0].reshape(16, 16)[:8, 8:].reshape(-1).tolist() == (some[0, 1] / 8 - 1).tolist()


def test_what_is_asked_earns_and_succeeds() -> None:
    labels = [3, 7, 0, 9]
    assert earned(attempt(drawn(labels), labels)) == 1.0
    assert DrawnDigits().success(attempt(drawn(labels), labels)) == 1.0
    wrong = attempt(drawn([3, 7, 0, 8]), labels)
    assert (earned(wrong), DrawnDigits().success(wrong)) == (0.75, 0.0)
    assert DrawnDigits().describe(wrong) == {"quarters": 0.75, "unreadable": 0.0}


@pytest.mark.parametrize("value", [-1.0, 1.0, 0.0, np.nan, np.inf, -50.0, 50.0])
def test_no_empty_full_or_broken_picture_earns(value: float) -> None:
    picture = np.full(256, value, np.float32)
    assert earned(attempt(picture, [0, 1, 2, 3])) == 0.0
    assert readings(picture[None], "evaluate").tolist() == [[NOTHING] * 4]


def test_noise_earns_nothing() -> None:
    pictures = np.random.default_rng(0).standard_normal((50, 256)).astype(np.float32)
    assert (readings(pictures, "judge") == NOTHING).mean() > 0.99
    assert earned(attempt(None, [1, 1, 1, 1])) == 0.0


def test_training_and_evaluation_ask_for_different_fours() -> None:
    task = tasks.find("drawn-digits")
    asked = {split: {task.scenario(split, n).prompt for n in range(300)} for split in ("train", "eval")}
    assert not asked["train"] & asked["eval"]
    assert len(asked["eval"]) > 250
    assert task.scenario("train", 5) == task.scenario("train", 5)
    with pytest.raises(ConfigurationError, match="size"):
        tasks.find("drawn-digits?size=3")
