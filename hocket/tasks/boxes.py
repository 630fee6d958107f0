"""Pictures of coloured rectangles: draw a box around one, or click on it. 8 x 8 cells make the space of coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from hocket.core.options import checked
from hocket.rewards.regions import Box, box_of, box_overlap, inside, point_of
from hocket.tasks.form import TaskForm
from hocket.tasks.scenes import COLOURS, SIDE, Picture, SceneQuestion, SceneTask, canvas, colours, kinds_of
from hocket.types import Scenario, Trajectory

CELLS = 8
"""Cells of a side; a cell is two pixels. A box is given by edges in 0..8, a click by a cell in 0..7."""

LEAST = 0.7
"""The overlap at which a box counts as right."""

_PIXELS = SIDE // CELLS


class Rectangle(NamedTuple):
    """A rectangle of one colour, by its edges in cells."""

    colour: str
    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def box(self) -> Box:
        return self.x0, self.y0, self.x1, self.y1


Layout = tuple[Rectangle, ...]


class Boxes(SceneTask[Layout]):
    """Coloured rectangles: the box around one (`box`), or a click on a button of one cell, 1.6 % of all (`point`).

    The reward is the overlap of boxes, and 1 for a click on the button. A box is right from an overlap of `LEAST` on.
    """

    title = "boxes"
    kinds_of = ("box", "point")

    def draw(self, rng: np.random.Generator, kind: str) -> Layout:
        while True:
            things: list[Rectangle] = []
            for colour in colours(rng, 3):
                wide, high = rng.integers(2, 6, size=2).tolist() if kind == "box" else (1, 1)
                x, y = int(rng.integers(CELLS - wide + 1)), int(rng.integers(CELLS - high + 1))
                made = Rectangle(colour, x, y, x + wide, y + high)
                if not any(box_overlap(_blocks(made), _blocks(other)) for other in things):
                    things.append(made)
            if len(things) >= 2:
                return tuple(things)

    def paint(self, scene: Layout) -> Picture:
        picture = canvas()
        for item in scene:
            rows, columns = (slice(a * _PIXELS, b * _PIXELS) for a, b in ((item.y0, item.y1), (item.x0, item.x1)))
            picture[rows, columns] = COLOURS[item.colour]
        return picture

    def ask(self, scene: Layout, kind: str, rng: np.random.Generator) -> SceneQuestion:
        target = scene[int(rng.integers(len(scene)))]
        numbers = target.box if kind == "box" else target.box[:2]
        known = {"box": list(target.box), "point": list(target.box[:2]), "space": [CELLS, CELLS]}
        return SceneQuestion(kind, f"{kind.capitalize()} {target.colour}?", " ".join(map(str, numbers)), known)

    def beginner(self, scene: Layout, question: SceneQuestion, rng: np.random.Generator) -> str:
        """Edges are off by up to one cell, clicks by up to two, evenly."""
        off, most = (1, CELLS) if question.kind == "box" else (2, CELLS - 1)
        numbers = [int(item) + int(rng.integers(-off, off + 1)) for item in question.answer.split()]
        return f"<answer>{' '.join(str(min(max(item, 0), most)) for item in numbers)}</answer>"

    def verify(self, text: str, scenario: Scenario) -> float:
        truth = tuple(map(float, scenario.metadata["box"]))
        answer = self.extracted(text)
        if scenario.metadata["kind"] == "point":
            point = point_of(answer)
            return float(point is not None and inside(point, truth))  # type: ignore[arg-type]
        box = box_of(answer)
        return 0.0 if box is None else box_overlap(box, truth)  # type: ignore[arg-type]

    def success(self, trajectory: Trajectory) -> float:
        """1 for a click on the button, or a box that overlaps the true one by `LEAST`."""
        return float(self.verify(trajectory.answer, trajectory.scenario) >= LEAST)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`overlap` as well: how well the answer fits."""
        return {**super().describe(trajectory), "overlap": self.verify(trajectory.answer, trajectory.scenario)}


def _blocks(item: Rectangle) -> Box:
    """The blocks of 2 x 2 cells that a rectangle touches: no two share one, so that each is apart from the others."""
    return item.x0 // 2, item.y0 // 2, (item.x1 + 1) // 2, (item.y1 + 1) // 2


def from_settings(name: str, settings: Mapping[str, str]) -> Boxes:
    """The task with these settings."""
    return Boxes(kinds_of(checked(name, settings, {"kinds": str})))


BOXES = TaskForm(
    name="boxes",
    description="pictures of coloured rectangles: the box around one, or a click on it, e.g. boxes?kinds=point",
    family="pictures",
    make=from_settings,
)
