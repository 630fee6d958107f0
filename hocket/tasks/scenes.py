"""What worlds of scenes have in common: splits that share no scene, a task that asks about one, and colours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.media import MEDIA, Parts, with_pictures
from hocket.core.pictures import picture_bytes
from hocket.stages import Split
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import Split as Part
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

SIDE = 16
"""Pixels of a drawn picture's side."""

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "red": (235, 50, 50),
    "green": (40, 200, 70),
    "blue": (70, 90, 245),
    "yellow": (240, 220, 60),
}

Picture = NDArray[np.uint8]
SceneT = TypeVar("SceneT")


class SceneQuestion(NamedTuple):
    """A question about a scene: its kind, its words, the right answer as the tags hold it, and what verifiers read."""

    kind: str
    words: str
    answer: str
    known: Mapping[str, Any]


def canvas() -> Picture:
    """A black picture `[SIDE, SIDE, 3]`."""
    return np.zeros((SIDE, SIDE, 3), np.uint8)


def colours(rng: np.random.Generator, count: int) -> list[str]:
    """Different colours in random order."""
    return [list(COLOURS)[place] for place in rng.permutation(len(COLOURS))[:count].tolist()]


class AnyScenes(TextTask, Generic[SceneT]):
    """Questions about scenes that are shown or played. Pretraining, training and evaluation share no scene.

    A subclass gives `title`, `kinds_of`, `draw`, `content`, `ask`, `beginner` and `verify`.

    Args:
        kinds: of questions; all without any.
    """

    title: ClassVar[str]
    kinds_of: ClassVar[Sequence[str]]
    longest: ClassVar[int] = 16
    """Tokens of an answer at most."""
    model: ClassVar[str] = "nano-vlm"
    """The shipped model that answers them."""

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        for kind in kinds:
            if kind not in self.kinds_of:
                raise ConfigurationError(f"task {self.title}: kinds = {kind!r}{nearest(kind, self.kinds_of)}")
        self.kinds = tuple(kinds) or tuple(self.kinds_of)
        self.name = self.title + (f"?kinds={','.join(self.kinds)}" if self.kinds != tuple(self.kinds_of) else "")

    @abstractmethod
    def draw(self, rng: np.random.Generator, kind: str) -> SceneT:
        """A scene that a question of this kind can be asked about."""

    @abstractmethod
    def content(self, scene: SceneT, words: str, name: str, rng: np.random.Generator) -> str | Parts:
        """The message that shows or plays a scene, which errors call by `name`, and asks about it."""

    @abstractmethod
    def ask(self, scene: SceneT, kind: str, rng: np.random.Generator) -> SceneQuestion:
        """A question of this kind about the scene."""

    @abstractmethod
    def beginner(self, scene: SceneT, question: SceneQuestion, rng: np.random.Generator) -> str:
        """What a beginner answers."""

    @abstractmethod
    def verify(self, text: str, scenario: Scenario) -> float:
        """The verdict on a completion, 1 for a right answer."""

    def described(self, scene: SceneT) -> str:
        """A text that tells scenes apart; it decides which split a scene belongs to."""
        return repr(scene)

    def posed(self, part: Part, rng: np.random.Generator) -> tuple[SceneT, SceneQuestion]:
        """A scene of a split, and a question about it."""
        kind = self.kinds[int(rng.integers(len(self.kinds)))]
        while True:
            scene = self.draw(rng, kind)
            if split_of(self.described(scene)) == part:
                return scene, self.ask(scene, kind, rng)

    def rng(self, split: Split, number: int) -> np.random.Generator:
        """What scenario `number` of a split is drawn with."""
        return Key.of(0).derive(self.title, split, number).numpy()

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = self.rng(split, number)
        scene, question = self.posed(split, rng)
        name = f"{self.title}/{split}/{number}"
        return Scenario(
            name,
            ({"role": "user", "content": self.content(scene, question.words, name, rng)},),
            question.answer,
            {"kind": question.kind, **question.known},
            seed=number,
        )

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings = {"model": self.model, "steps": 60, "decoding.max_tokens": self.longest, "update.lr": 3e-4}
        return {**super().suggest(recipe), **settings}

    @property
    def lessons(self) -> Lessons:
        """A beginner's answers, for models that know neither the form nor the colours; on request."""

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            drawn = self.rng("train", scenario.seed)
            scene, question = self.posed("train", drawn)
            text = self.beginner(scene, question, rng)
            return [Lesson(tuple(scenario.messages), ({"role": "assistant", "content": text},))]

        return Lessons(f"how a beginner answers about {self.title}", 0, play)


class SceneTask(AnyScenes[SceneT]):
    """Questions about drawn scenes. A subclass gives `paint` in place of `content`."""

    @abstractmethod
    def paint(self, scene: SceneT) -> Picture:
        """The scene as a picture."""

    def content(self, scene: SceneT, words: str, name: str, rng: np.random.Generator) -> str | Parts:
        picture = MEDIA.put(picture_bytes(self.paint(scene)), f"the picture of {name}")
        return with_pictures(words, [picture])


def kinds_of(settings: Mapping[str, Any]) -> list[str]:
    """The setting `kinds` as a list."""
    return str(settings["kinds"]).split(",") if "kinds" in settings else []
