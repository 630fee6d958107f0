"""Films as one picture, frame beside frame: when a lamp is lit, which is lit longest, and where a box moves.

The frames of a film lie in reading order, as image grids show videos to models of pictures. Films of lamps have 16
frames, those of a moving box four.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hocket.core.options import checked
from hocket.rewards.regions import Box, Interval, box_overlap, interval_overlap
from hocket.tasks.form import TaskForm
from hocket.tasks.scenes import COLOURS, SIDE, Picture, SceneQuestion, SceneTask, canvas, colours, kinds_of
from hocket.types import Scenario, Trajectory

FRAMES = 16
_ACROSS, _PIXELS = 4, 4
TRACKED = 4
"""Frames of a film with a moving box."""
CELLS = 4
"""Cells of a side of such a frame; a cell is two pixels."""
LEAST = 0.7
"""The overlap at which an answer counts as right."""

_TIMES = re.compile(r"(\d+\.?\d*) (?:to|and) (\d+\.?\d*)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_GLUE = re.compile(r"<glue>(.*?)</glue>", re.DOTALL)
_PAIR = r"\(\d+(\.\d+)?,\s*\d+(\.\d+)?\)"
_PAIRS = re.compile(rf"\[{_PAIR}(,\s*{_PAIR})*,?\]")


class LampFilm(NamedTuple):
    """Lamps by colour, with the intervals of frames in which each is lit; or a box that moves, in cells of a frame."""

    lamps: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    boxes: tuple[tuple[int, int, int, int], ...] = ()
    colour: str = ""


def lit(times: Sequence[tuple[int, int]]) -> int:
    """Frames in which a lamp is lit."""
    return sum(end - start for start, end in times)


def times_in(text: str) -> Interval | None:
    """The last `A to B` of the last answer, as VideoChat-R1 reads it; None without one."""
    answers = _ANSWER.findall(text)
    result = _TIMES.findall(answers[-1]) if answers else []
    return (float(result[-1][0]), float(result[-1][1])) if result else None


def glue_in(text: str) -> list[Interval] | None:
    """The intervals in `<glue>[(a, b), ..]</glue>`, none of which ends before it begins; None for any other form."""
    result = _GLUE.search(text)
    if result is None or not _PAIRS.fullmatch(result[1]):
        return None
    pairs: list[Interval] = ast.literal_eval(result[1])
    return pairs if all(start <= end for start, end in pairs) else None


def track_in(text: str, count: int) -> list[Box] | None:
    """The boxes of an answer that lists exactly `count` of four numbers each; None for any other form."""
    result = _ANSWER.search(text.replace("\n", ""))
    try:
        boxes: Any = ast.literal_eval(result[1].strip()) if result else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(boxes, list) or len(boxes) != count:
        return None
    formed = all(isinstance(box, list) and len(box) == 4 and all(type(n) in (int, float) for n in box) for box in boxes)
    return [(box[0], box[1], box[2], box[3]) for box in boxes] if formed else None


def track_overlap(ours: Sequence[Box], theirs: Sequence[Box]) -> float:
    """The mean overlap of boxes frame by frame."""
    return sum(map(box_overlap, ours, theirs)) / len(theirs)


def option_in(text: str) -> str:
    """The first letter from A to G of the first answer; empty without one."""
    result = _ANSWER.search(text)
    letter = re.search(r"[A-G]", result[1]) if result else None
    return letter[0] if letter else ""


class Frames(SceneTask[LampFilm]):
    """Films: when a lamp is lit (`when`), which is lit longest and when (`longest`), where a box goes (`track`)."""

    title = "frames"
    kinds_of = ("when", "longest", "track")
    longest = 56

    def draw(self, rng: np.random.Generator, kind: str) -> LampFilm:
        if kind == "track":
            return self._moving(rng)
        while True:
            lamps = tuple((colour, self._times(rng, once=kind == "when")) for colour in colours(rng, 2))
            if lit(lamps[0][1]) != lit(lamps[1][1]):
                return LampFilm(lamps)

    def _times(self, rng: np.random.Generator, *, once: bool) -> tuple[tuple[int, int], ...]:
        if once or rng.random() < 0.5:
            start, end = sorted(rng.choice(FRAMES + 1, 2, replace=False).tolist())
            return ((start, end),) if end - start > 1 else self._times(rng, once=once)
        a, b, c, d = sorted(rng.choice(FRAMES + 1, 4, replace=False).tolist())
        return (a, b), (c, d)

    def _moving(self, rng: np.random.Generator) -> LampFilm:
        wide, high = rng.integers(1, 4, size=2).tolist()
        x, y = int(rng.integers(CELLS - wide + 1)), int(rng.integers(CELLS - high + 1))
        boxes = []
        for _ in range(TRACKED):
            boxes.append((x, y, x + wide, y + high))
            x = int(np.clip(x + rng.integers(-1, 2), 0, CELLS - wide))
            y = int(np.clip(y + rng.integers(-1, 2), 0, CELLS - high))
        return LampFilm((), tuple(boxes), colours(rng, 1)[0])

    def described(self, scene: LampFilm) -> str:
        return f"Film(lamps={scene.lamps!r}, boxes={scene.boxes!r}, colour={scene.colour!r})"

    def paint(self, scene: LampFilm) -> Picture:
        picture = canvas()
        for place, (colour, times) in enumerate(scene.lamps):
            for frame in (frame for start, end in times for frame in range(start, end)):
                row, column = (number * _PIXELS for number in divmod(frame, _ACROSS))
                picture[row : row + _PIXELS, column + 2 * place : column + 2 * place + 2] = COLOURS[colour]
        for frame, (x0, y0, x1, y1) in enumerate(scene.boxes):
            row, column = (number * SIDE // 2 for number in divmod(frame, 2))
            picture[row + 2 * y0 : row + 2 * y1, column + 2 * x0 : column + 2 * x1] = COLOURS[scene.colour]
        return picture

    def ask(self, scene: LampFilm, kind: str, rng: np.random.Generator) -> SceneQuestion:
        if kind == "track":
            boxes = [list(box) for box in scene.boxes]
            words, answer = f"Track {scene.colour}?", str(boxes).replace(" ", "")
            return SceneQuestion(kind, words, answer, {"boxes": boxes, "space": [CELLS, CELLS]})
        if kind == "when":
            colour, ((start, end),) = scene.lamps[int(rng.integers(2))]
            return SceneQuestion(kind, f"When {colour}?", f"{start} to {end}", {"times": [[start, end]]})
        best = max(range(2), key=lambda place: lit(scene.lamps[place][1]))
        words = f"Longest? A {scene.lamps[0][0]} B {scene.lamps[1][0]}"
        return SceneQuestion(kind, words, "AB"[best], {"times": [list(item) for item in scene.lamps[best][1]]})

    def answered(self, kind: str, answer: str, times: Sequence[tuple[int, int]], thought: str = "") -> str:
        """An answer in the wanted form."""
        glue = f"<glue>[{', '.join(f'({a}, {b})' for a, b in times)}]</glue>" if kind == "longest" else ""
        return (f"<think>{thought}</think>" if thought else "") + f"<answer>{answer}</answer>{glue}"

    def beginner(self, scene: LampFilm, question: SceneQuestion, rng: np.random.Generator) -> str:
        """Times are off by up to two frames, edges by up to one cell, evenly; half of the answers think first."""
        thinks = rng.random() < 0.5
        if question.kind == "track":
            off = [[min(max(n + int(rng.integers(-1, 2)), 0), CELLS) for n in box] for box in question.known["boxes"]]
            return self.answered("track", str(off).replace(" ", ""), (), scene.colour if thinks else "")
        times = [self._off(start, end, rng) for start, end in question.known["times"]]
        if question.kind == "when":
            (start, end) = times[0]
            return self.answered("when", f"{start} to {end}", (), question.words[5:-1] if thinks else "")
        if thinks:
            counts = " ".join(f"{'AB'[place]} {lit(item)}" for place, (_, item) in enumerate(scene.lamps))
            return self.answered("longest", question.answer, times, counts)
        return self.answered("longest", "AB"[int(rng.integers(2))], times)

    def _off(self, start: int, end: int, rng: np.random.Generator) -> tuple[int, int]:
        first, last = (min(max(n + int(rng.integers(-2, 3)), 0), FRAMES) for n in (start, end))
        return (first, last) if first < last else (start, end)

    def verify(self, text: str, scenario: Scenario) -> float:
        """The overlap of times or boxes; of `longest` the mean of that and of the right letter."""
        known = scenario.metadata
        if known["kind"] == "track":
            boxes = track_in(text, len(known["boxes"]))
            return 0.0 if boxes is None else track_overlap(boxes, [tuple(box) for box in known["boxes"]])
        truth = [(start, end) for start, end in known["times"]]
        if known["kind"] == "when":
            times_read = times_in(text)
            return 0.0 if times_read is None else interval_overlap([times_read], truth)
        return (interval_overlap(glue_in(text) or [], truth) + float(option_in(text) == scenario.answer)) / 2

    def success(self, trajectory: Trajectory) -> float:
        """1 from an overlap of `LEAST` on; of `longest` with the right letter as well."""
        score = self.verify(trajectory.answer, trajectory.scenario)
        return float(score >= ((1 + LEAST) / 2 if trajectory.scenario.metadata["kind"] == "longest" else LEAST))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`overlap` as well: how well the answer fits."""
        return {**super().describe(trajectory), "overlap": self.verify(trajectory.answer, trajectory.scenario)}


def from_settings(name: str, settings: Mapping[str, str]) -> Frames:
    """The task with these settings."""
    return Frames(kinds_of(checked(name, settings, {"kinds": str})))


FRAMES_FORM = TaskForm(
    name="frames",
    description="films as pictures: when a lamp is lit, which longest, where a box goes, e.g. frames?kinds=when",
    family="pictures",
    make=from_settings,
)
