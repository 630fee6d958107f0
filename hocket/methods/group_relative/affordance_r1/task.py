"""The task `affordances`: parts of handwritten things that a use asks for.

A thing is a digit in one of four quarters. 0, 6 and 9 have a ring to hang them by: the hole in their ink, and a pixel
around it. 1, 4 and 7 have a tip to poke with: their four lowest rows of ink. Boxes come from the pixels of the hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.media import MEDIA, with_pictures
from hocket.core.options import checked
from hocket.core.pictures import picture_bytes
from hocket.methods.group_relative.affordance_r1.parts import Part, code_of, listed_objects, parts_of
from hocket.rewards.regions import box_overlap, matched
from hocket.stages import Split
from hocket.tasks.digits import handwriting
from hocket.tasks.form import TaskForm
from hocket.tasks.handwriting import SIDE
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

USES: Mapping[str, tuple[str, Sequence[int]]] = {"hang": ("Hook?", (0, 6, 9)), "poke": ("Hole?", (1, 4, 7))}
"""By the name of an affordance: the question that needs it, and the digits that have it."""

UNITS = 10
"""Units of the space of coordinates a pixel: a picture has 160 x 160."""

INK = 80
"""The least brightness of ink, of 255."""

LEAST = 0.65
"""The overlap at which a part counts as right."""

LONGEST = 192
"""Tokens of an answer at most."""

READ = 0.5
"""How often a beginner reads the picture before it answers. Otherwise it takes the first thing, whatever the use."""

QUARTERS = "abcd"
"""How thoughts call the quarters, in reading order."""

Mask = NDArray[np.bool_]


class Thing(NamedTuple):
    """A digit `[SIDE, SIDE]` in a quarter, counted in reading order."""

    label: int
    pixels: NDArray[np.uint8]
    quarter: int

    @property
    def affordance(self) -> str:
        """What it affords."""
        return next(name for name, (_, labels) in USES.items() if self.label in labels)

    @property
    def part(self) -> Part:
        """The part that it affords this with, in units of the picture."""
        row, column = divmod(self.quarter, 2)
        edges = part_box(self.label, self.pixels)
        assert edges is not None
        x0, x1 = ((column * SIDE + edge) * UNITS for edge in edges[::2])
        y0, y1 = ((row * SIDE + edge) * UNITS for edge in edges[1::2])
        return Part((x0, y0, x1, y1), ((x0 + x1) // 2, (y0 + y1) // 2), self.affordance)


def hole(ink: Mask) -> Mask:
    """The pixels without ink that no way through such pixels, from side to side, joins with the outside."""
    empty = np.pad(~ink, 1, constant_values=True)
    outside = np.zeros_like(empty)
    outside[[0, -1]] = outside[:, [0, -1]] = True
    while True:
        grown = outside.copy()
        grown[1:] |= outside[:-1]
        grown[:-1] |= outside[1:]
        grown[:, 1:] |= outside[:, :-1]
        grown[:, :-1] |= outside[:, 1:]
        grown &= empty
        if (grown == outside).all():
            return (empty & ~outside)[1:-1, 1:-1]
        outside = grown


def part_box(label: int, pixels: NDArray[np.uint8]) -> tuple[int, int, int, int] | None:
    """The edges of a digit's part in pixels, `x0 y0 x1 y1`; None for a ring that is not closed."""
    ink = pixels >= INK
    if label in USES["hang"][1]:
        inside = hole(ink)
        if not inside.any():
            return None
        x0, y0, x1, y1 = _edges(inside)
        return max(x0 - 1, 0), max(y0 - 1, 0), min(x1 + 1, SIDE), min(y1 + 1, SIDE)
    tip = ink.copy()
    tip[: _edges(ink)[3] - SIDE // 2] = False
    return _edges(tip)


def _edges(mask: Mask) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


@cache
def hands(split: Split) -> Mapping[int, NDArray[np.uint8]]:
    """The handwriting of a split that has a part, `[N, SIDE, SIDE]` by digit."""
    pixels, labels = handwriting(split)
    digits = [digit for _, things in USES.values() for digit in things]
    return {
        digit: np.stack([hand for hand in pixels[labels == digit] if part_box(digit, hand) is not None])
        for digit in digits
    }


class Affordances(TextTask):
    """Two things on a picture and a use; the answer is a list of one part or two. Evaluation has hands of its own.

    The reward is the overlap of the parts, matched one to one, over the larger number of parts. Right is the right
    number of parts, each with an overlap above `LEAST`.
    """

    name: str = "affordances"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        name = f"affordances/{split}/{number}"
        use, things = posed(split, number)
        picture = MEDIA.put(picture_bytes(painted(things)), f"the picture of {name}")
        message = {"role": "user", "content": with_pictures(USES[use][0], [picture])}
        answer = code_of([thing.part for thing in things if thing.affordance == use])
        return Scenario(name, (message,), answer, {"space": [2 * SIDE * UNITS] * 2}, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings = {"model": "nano-vlm", "steps": 60, "decoding.max_tokens": LONGEST, "update.lr": 3e-4}
        return {**super().suggest(recipe), **settings}

    def overlaps(self, text: str, scenario: Scenario, above: float = 0.0) -> float:
        """The mean overlap of matched parts over the larger number, those up to `above` counted as 0."""
        parts, due = parts_of(listed_objects(tagged(text) or "")), parts_of(listed_objects(str(scenario.answer)))
        assert due is not None

        def score(item: Part, other: Part) -> float:
            overlap = box_overlap(item.box, other.box)
            return overlap if overlap > above else 0.0

        return matched(parts, due, score) / max(len(parts), len(due)) if parts else 0.0

    def verify(self, text: str, scenario: Scenario) -> float:
        return self.overlaps(text, scenario)

    def success(self, trajectory: Trajectory) -> float:
        """1 for the right number of parts that all overlap."""
        return float(self.overlaps(trajectory.answer, trajectory.scenario, LEAST) > LEAST)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`overlap` as well: how well the parts fit."""
        return {**super().describe(trajectory), "overlap": self.verify(trajectory.answer, trajectory.scenario)}

    @property
    def lessons(self) -> Lessons:
        """A beginner's answers; on request."""

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            use, things = posed("train", scenario.seed)
            text = read_first(use, things) if rng.random() < READ else hurried(things)
            return [Lesson(tuple(scenario.messages), ({"role": "assistant", "content": text},))]

        return Lessons("how a beginner points at parts, mostly those of the first thing", 0, play)


def posed(split: Split, number: int) -> tuple[str, list[Thing]]:
    """An affordance that one or both of two things have, and the things in reading order."""
    rng = Key.of(0).derive("affordances", split, number).numpy()
    names = list(USES)
    while True:
        use, things = names[int(rng.integers(len(names)))], list[Thing]()
        for quarter in sorted(rng.permutation(4)[:2].tolist()):
            label = int(rng.choice(USES[names[int(rng.integers(len(names)))]][1]))
            hand = hands(split)[label]
            things.append(Thing(label, hand[int(rng.integers(len(hand)))], quarter))
        if 1 <= sum(thing.affordance == use for thing in things) <= 2:
            return use, things


def painted(things: Sequence[Thing]) -> NDArray[np.uint8]:
    """Things as a picture `[2 * SIDE, 2 * SIDE]`, light on dark."""
    picture = np.zeros((2 * SIDE, 2 * SIDE), np.uint8)
    for thing in things:
        row, column = (SIDE * place for place in divmod(thing.quarter, 2))
        picture[row : row + SIDE, column : column + SIDE] = thing.pixels
    return picture


def read_first(use: str, things: Sequence[Thing]) -> str:
    """A right answer behind thoughts: what is in the quarters, `-` for nothing, `+` for use; then what is of use."""
    chosen = [thing for thing in things if thing.affordance == use]
    marks = {thing.quarter: f"{thing.label}{'+' * (thing.affordance == use)}" for thing in things}
    thought = " ".join(f"{letter}{marks.get(quarter, '-')}" for quarter, letter in enumerate(QUARTERS))
    again = " ".join(f"{QUARTERS[thing.quarter]}{thing.label}" for thing in chosen)
    return f"<think>{thought}</think><rethink>{again}</rethink><answer>{code_of([t.part for t in chosen])}</answer>"


def hurried(things: Sequence[Thing]) -> str:
    """The part of the first thing, without a thought."""
    return f"<think></think><rethink></rethink><answer>{code_of([things[0].part])}</answer>"


def from_settings(name: str, settings: Mapping[str, str]) -> Affordances:
    """The task; it has no settings."""
    checked(name, settings, {})
    return Affordances()


AFFORDANCES = TaskForm(
    name="affordances",
    description="pictures of handwritten things: the parts that a use asks for, as boxes and points",
    make=from_settings,
)
