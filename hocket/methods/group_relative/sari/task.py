"""The task `reasoned-tones`: questions about recordings, whose lessons reason in sections, freely, or both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons
from hocket.tasks.scenes import SceneQuestion, kinds_of
from hocket.tasks.tones import Melody, Tones, right_answer, worked

SECTIONS = ("plan", "hear", "steps", "sum")
"""The sections of a thought, in order: what is wanted, what is heard, the steps to the answer, and the answer."""

Chains = Literal["sections", "free", "both"]


class ReasonedTones(Tones):
    """The questions of `tones` that a thought helps with: how many, the highest, the longest.

    Args:
        kinds: of questions. chains: how the thoughts of the lessons are written; `both` is one half each.
    """

    title = "reasoned-tones"
    kinds_of = ("count", "highest", "longest")
    longest = 96

    def __init__(self, kinds: Sequence[str] = (), chains: Chains = "sections") -> None:
        super().__init__(kinds)
        if chains not in get_args(Chains):
            hint = nearest(chains, get_args(Chains)) or "; choose sections, free or both"
            raise ConfigurationError(f"task {self.title}: chains = {chains!r}{hint}")
        self.chains = chains
        if chains != "sections":
            self.name += f"{'&' if '?' in self.name else '?'}chains={chains}"

    def beginner(self, scene: Melody, question: SceneQuestion, rng: np.random.Generator) -> str:
        """A right answer with its thought, as a stronger model would have written it."""
        free = self.chains == "free" or (self.chains == "both" and rng.random() < 0.5)
        return worked(scene, question) if free else sectioned(scene, question)

    @property
    def lessons(self) -> Lessons:
        """Thoughts in the form of `chains`; on request."""
        how = {"sections": "in sections", "free": "freely", "both": "in sections and freely"}[self.chains]
        return replace(super().lessons, taught=f"how to reason {how} about {self.title}")


def sectioned(melody: Melody, question: SceneQuestion) -> str:
    """A right answer with a thought in `SECTIONS`."""
    units = question.kind == "longest"
    caption = " ".join(tone.note + (str(tone.units) if units else "") for tone in melody)
    steps = " ".join(_steps(melody, question.kind))
    parts = zip(SECTIONS, (question.kind, caption, steps, question.answer), strict=True)
    thought = "\n".join(f"{name}:{text}" for name, text in parts)
    return f"<think>{thought}</think><answer>{question.answer}</answer>"


def _steps(melody: Melody, kind: str) -> Iterator[str]:
    """The answer for what was heard up to each tone; of equally long tones the first."""
    for count in range(1, len(melody) + 1):
        yield right_answer(melody[:count], kind)


def from_settings(name: str, settings: Mapping[str, str]) -> ReasonedTones:
    """The task with these settings."""
    values = checked(name, settings, {"kinds": str, "chains": str})
    return ReasonedTones(kinds_of(values), values.get("chains", "sections"))


REASONED_TONES = TaskForm(
    name="reasoned-tones",
    description="recordings of tones, and lessons that reason about them in sections, e.g. reasoned-tones?kinds=count",
    make=from_settings,
)
