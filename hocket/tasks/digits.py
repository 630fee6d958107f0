"""Questions about pictures of real handwriting: 8 x 8 digits, one to four on a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.media import MEDIA, with_pictures
from hocket.core.options import checked
from hocket.core.pictures import picture_bytes
from hocket.stages import Split
from hocket.tasks.arithmetic import verify
from hocket.tasks.form import TaskForm
from hocket.tasks.handwriting import SIDE, all_digits
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

EVERY = 5
"""Of so many digits one is drawn in evaluation alone, and in nothing that a model learns from."""

QUESTIONS: Mapping[str, tuple[str, Callable[[Sequence[int]], int]]] = {
    "sum": ("Sum?", sum),
    "count": ("Count?", len),
    "largest": ("Largest?", max),
}
"""Kinds of question, with their words and their answers."""


class Canvas(NamedTuple):
    """A picture `[2 * SIDE, 2 * SIDE]` of uint8, light on dark, and its digits in reading order; -1 for none."""

    pixels: NDArray[np.uint8]
    quarters: tuple[int, ...]

    @property
    def digits(self) -> list[int]:
        """Those that are there."""
        return [digit for digit in self.quarters if digit >= 0]


@cache
def handwriting(split: Literal["train", "eval"]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The digits of a split, `[N, SIDE, SIDE]` in 0..255, and what each is, `[N]`."""
    data = all_digits()
    chosen = (np.arange(len(data.label)) % EVERY == 0) == (split == "eval")
    pixels = (data.pixels[chosen].astype(np.int64) * 255 // 16).astype(np.uint8).reshape(-1, SIDE, SIDE)
    return pixels, data.label[chosen]


def canvas(rng: np.random.Generator, split: Literal["train", "eval"], most: int = 4) -> Canvas:
    """One to `most` digits of a split, each in a quarter of its own."""
    pixels, labels = handwriting(split)
    drawn, quarters = np.zeros((2 * SIDE, 2 * SIDE), np.uint8), [-1] * 4
    for quarter in rng.permutation(4)[: int(rng.integers(1, most + 1))].tolist():
        number = int(rng.integers(len(labels)))
        row, column = divmod(quarter, 2)
        drawn[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] = pixels[number]
        quarters[quarter] = int(labels[number])
    return Canvas(drawn, tuple(quarters))


class Digits(TextTask):
    """A picture of handwritten digits and a question about them: their sum, their count, or the largest.

    Evaluation has handwriting of its own.

    Args:
        most: digits on a picture at most. kinds: of questions, see `QUESTIONS`.
    """

    def __init__(self, most: int = 4, kinds: Sequence[str] = tuple(QUESTIONS)) -> None:
        if not 1 <= most <= 4:
            raise ConfigurationError(f"task digits: most must lie between 1 and 4, not {most}")
        for kind in kinds:
            if kind not in QUESTIONS:
                raise ConfigurationError(f"task digits: kinds = {kind!r}{nearest(kind, QUESTIONS)}")
        chosen = "&kinds=" + ",".join(kinds) if tuple(kinds) != tuple(QUESTIONS) else ""
        self.name = "digits" + (f"?most={most}{chosen}" if most != 4 or chosen else "")
        self.most, self.kinds = most, tuple(kinds)

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("digits", split, number).numpy()
        shown, kind = canvas(rng, split, self.most), self.kinds[int(rng.integers(len(self.kinds)))]
        words, answer = QUESTIONS[kind]
        picture = MEDIA.put(picture_bytes(shown.pixels), f"the picture of digits/{split}/{number}")
        return Scenario(
            f"digits/{split}/{number}",
            ({"role": "user", "content": with_pictures(words, [picture])},),
            str(answer(shown.digits)),
            {"kind": kind, "digits": list(shown.quarters), "demonstration": worked(kind, shown.digits)},
            seed=number,
        )

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings = {"model": "nano-vlm", "steps": 60, "decoding.max_tokens": 32, "update.lr": 3e-4}
        return {**super().suggest(recipe), **settings}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)


def worked(kind: str, digits: Sequence[int]) -> str:
    """A right answer that reads the digits first, and adds one after the other."""
    total, steps = digits[0], str(digits[0])
    for digit in digits[1:]:
        total += digit
        steps += f"+{digit}={total}" if kind == "sum" else f" {digit}"
    return f"<think>{steps}</think><answer>{QUESTIONS[kind][1](digits)}</answer>"


def from_settings(name: str, settings: Mapping[str, str]) -> Digits:
    """The task with these settings."""
    values = checked(name, settings, {"most": int, "kinds": str})
    return Digits(**values | ({"kinds": values["kinds"].split(",")} if "kinds" in values else {}))


DIGITS = TaskForm(
    name="digits",
    description="pictures of handwritten digits: their sum, their count, the largest, e.g. digits?most=2&kinds=sum",
    family="pictures",
    make=from_settings,
)
