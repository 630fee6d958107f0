"""Pictures of coloured shapes in a grid of 4 x 4, and eight kinds of question about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hocket.core.options import checked
from hocket.rewards.verifiers import equal
from hocket.tasks.form import TaskForm
from hocket.tasks.scenes import COLOURS, SIDE, Picture, SceneQuestion, SceneTask, canvas, kinds_of
from hocket.types import Scenario

GRID = 4
_PIXELS = SIDE // GRID

SHAPES: Mapping[str, tuple[str, ...]] = {
    "square": ("####", "####", "####", "####"),
    "ring": ("####", "#..#", "#..#", "####"),
    "cross": ("#..#", ".##.", ".##.", "#..#"),
    "bar": (".##.", ".##.", ".##.", ".##."),
}
"""Shapes by their pixels."""

LONE = {"kind": "colour", "colour": "kind", "place": "kind"}
"""By what a shape is named in questions that are about one."""

FEWEST, MOST = 3, 6
"""Shapes on a picture."""

RIGHT, WORKED = 1 / 3, 0.25
"""Of a beginner's answers at once so many are right; so many of all read the shapes first, and are right."""


class Shape(NamedTuple):
    """A shape in a cell, counted in reading order."""

    cell: int
    colour: str
    kind: str

    @property
    def code(self) -> str:
        """Two letters for colour and kind."""
        return self.colour[0] + self.kind[0]


Shapes = tuple[Shape, ...]


class ShapesTask(SceneTask[Shapes]):
    """Three to six coloured shapes, and a question: what is there, its kind or colour, its place, counts and sums."""

    title = "shapes"
    kinds_of = ("there", "kind", "colour", "place", "count", "shapes", "more", "plus")
    longest = 40

    def draw(self, rng: np.random.Generator, kind: str) -> Shapes:
        names, kinds = list(COLOURS), list(SHAPES)
        while True:
            cells = sorted(rng.permutation(GRID**2)[: int(rng.integers(FEWEST, MOST + 1))].tolist())
            pairs = rng.integers(4, size=(len(cells), 2)).tolist()
            scene = tuple(Shape(cell, names[a], kinds[b]) for cell, (a, b) in zip(cells, pairs, strict=True))
            if self._about(scene, kind):
                return scene

    def _about(self, scene: Shapes, kind: str) -> Sequence[Shape]:
        """The shapes that a question of this kind can be about: those whose colour, or kind, nothing else has."""
        if kind not in LONE:
            return scene
        counts = Counter(getattr(item, LONE[kind]) for item in scene)
        return [item for item in scene if counts[getattr(item, LONE[kind])] == 1]

    def paint(self, scene: Shapes) -> Picture:
        picture = canvas()
        for item in scene:
            row, column = divmod(item.cell, GRID)
            mask = np.array([[mark == "#" for mark in line] for line in SHAPES[item.kind]])
            block = picture[row * _PIXELS : (row + 1) * _PIXELS, column * _PIXELS : (column + 1) * _PIXELS]
            block[mask] = COLOURS[item.colour]
        return picture

    def ask(self, scene: Shapes, kind: str, rng: np.random.Generator) -> SceneQuestion:
        by_colour, by_kind = Counter(item.colour for item in scene), Counter(item.kind for item in scene)
        about = self._about(scene, kind)
        item = about[int(rng.integers(len(about)))]
        first, second = (list(COLOURS)[place] for place in rng.permutation(len(COLOURS))[:2].tolist())
        shape = list(SHAPES)[int(rng.integers(len(SHAPES)))]
        if kind == "there":
            first, shape = (item.colour, item.kind) if rng.random() < 0.5 else (first, shape)
            right = any((other.colour, other.kind) == (first, shape) for other in scene)
            return SceneQuestion(kind, f"Any {first} {shape}?", "yes" if right else "no", {})
        if kind == "kind":
            return SceneQuestion(kind, f"Kind of {item.colour}?", item.kind, {})
        if kind == "colour":
            return SceneQuestion(kind, f"Colour of {item.kind}?", item.colour, {})
        if kind == "place":
            row, column = divmod(item.cell, GRID)
            return SceneQuestion(kind, f"Where is {item.kind}?", f"{row + 1} {column + 1}", {})
        if kind == "count":
            return SceneQuestion(kind, f"How many {first}?", str(by_colour[first]), {})
        if kind == "shapes":
            return SceneQuestion(kind, f"How many {shape}?", str(by_kind[shape]), {})
        if kind == "more":
            more = "same" if by_colour[first] == by_colour[second] else max(first, second, key=by_colour.__getitem__)
            return SceneQuestion(kind, f"More {first} or {second}?", more, {})
        return SceneQuestion(kind, f"{first} plus {shape}?", str(by_colour[first] + by_kind[shape]), {})

    def worked(self, scene: Shapes, question: SceneQuestion) -> str:
        """A right answer that reads the shapes first."""
        return f"<think>{' '.join(item.code for item in scene)}</think><answer>{question.answer}</answer>"

    def beginner(self, scene: Shapes, question: SceneQuestion, rng: np.random.Generator) -> str:
        """At once, as if about another picture in two cases of three, or worked out."""
        if rng.random() < WORKED:
            return self.worked(scene, question)
        if rng.random() < RIGHT:
            return f"<answer>{question.answer}</answer>"
        other = self.draw(rng, question.kind)
        return f"<answer>{self.ask(other, question.kind, rng).answer}</answer>"

    def verify(self, text: str, scenario: Scenario) -> float:
        answer = self.extracted(text)
        return float(answer is not None and equal(answer.strip().lower(), str(scenario.answer)))


def from_settings(name: str, settings: Mapping[str, str]) -> ShapesTask:
    """The task with these settings."""
    chosen: Sequence[str] = kinds_of(checked(name, settings, {"kinds": str}))
    return ShapesTask(chosen)


SHAPES_FORM = TaskForm(
    name="shapes",
    description="pictures of coloured shapes: their kinds, colours, places and counts, e.g. shapes?kinds=count,more",
    family="pictures",
    make=from_settings,
)
