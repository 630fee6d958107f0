"""Pictures of four digits, one of which is a subject: one person's digit, known from four reference pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.preference.rpo_lambda_harmonic.harmonic import SHARE, harmonic
from hocket.stages import Reward, Split
from hocket.tasks.drawn_digits import DrawingReward, readings
from hocket.tasks.form import TaskForm
from hocket.tasks.handwriting import PLACES, SIDE, canvas, digits, judge, quarters
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory

SUBJECT = "subject"
"""The metadata of scenarios that name the subject's label."""
_EVAL_SHARE = 5

Pixels = NDArray[np.float64]


@dataclass(frozen=True)
class ReferencePicture:
    """A picture that shows the subject `[256]`, its four labels, and the place of the subject."""

    picture: NDArray[np.float32]
    labels: tuple[int, ...]
    place: int

    @property
    def prompt(self) -> str:
        """It names the subject alone: nobody has described what else the picture shows."""
        return f"{self.labels[self.place]} {PLACES[self.place]}"


def prompt_of(labels: Sequence[int]) -> str:
    """How four digits are asked for."""
    return ", ".join(f"{label} {place}" for label, place in zip(labels, PLACES, strict=True))


@cache
def subject_pixels(label: int) -> Pixels:
    """The subject `[64]`: of the judge's digits with this label, the one least like their mean that is still read."""
    held = digits("judge")
    mine = held.pixels[held.label == label]
    mine = mine[(judge("evaluate").read(mine) == label) & (judge("judge").read(mine) == label)]
    distance = np.square(mine - mine.mean(0)).sum(1)
    return np.asarray(mine[int(distance.argmax())], np.float64)


@cache
def references(label: int) -> tuple[ReferencePicture, ...]:
    """Four pictures, the subject in another quarter of each, beside digits of the judge's part."""
    draws, held = Key.of(label).derive("references").numpy(), digits("judge")
    others, result = np.flatnonzero(held.label != label), []
    for place in range(len(PLACES)):
        chosen = draws.choice(others, len(PLACES), replace=False)
        pixels, labels = held.pixels[chosen].copy(), held.label[chosen].tolist()
        pixels[place], labels[place] = subject_pixels(label), label
        result.append(ReferencePicture(canvas(pixels[None])[0], tuple(labels), place))
    return tuple(result)


def likeness(picture: NDArray[np.floating[Any]], label: int) -> float:
    """How much the subject is in a picture `[256]`, wherever it is: the largest correlation of a quarter, in [0, 1].

    It knows no prompt, as the likeness of a picture to photographs of a dog does not.
    """
    if not np.isfinite(picture).all():
        return 0.0
    shown, subject = quarters(picture[None])[0], subject_pixels(label)
    shown, subject = shown - shown.mean(1, keepdims=True), subject - subject.mean()
    sizes = np.linalg.norm(shown, axis=1) * np.linalg.norm(subject)
    return float(np.max(np.where(sizes > 1e-9, shown @ subject / np.maximum(sizes, 1e-9), 0.0).clip(0.0, 1.0)))


@dataclass(frozen=True)
class SubjectLikeness(Reward):
    """The likeness of a picture to the subject, see `likeness`."""

    name: str = SUBJECT
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [_likeness(trajectory) for trajectory in trajectories]


def _likeness(trajectory: Trajectory) -> float:
    picture = trajectory.final_state
    return 0.0 if picture is None else likeness(np.asarray(picture), int(trajectory.scenario.metadata[SUBJECT]))


class SubjectDigits:
    """Prompts such as `4 top left, 7 top right, 0 bottom left, 9 bottom right`, in which 4 is the subject's.

    The subject stands in one quarter, and the other three digits are others. What is averaged is the lambda-harmonic
    mean of likeness and prompt, so `best` is the checkpoint that it chooses; its judge of the prompt is the reward's.
    Training, evaluation and the references ask for different fours.

    Attributes:
        subject: the label of the digit whose hand is to be learnt.
    """

    kind: Any = "hocket.methods.preference.rpo_lambda_harmonic.kind:SUBJECT_PICTURES"
    rewards: Sequence[Reward] = (SubjectLikeness(), DrawingReward())
    picture = (2 * SIDE, 2 * SIDE)

    def __init__(self, subject: int = 4) -> None:
        if not 0 <= subject <= 9:
            raise ConfigurationError(f"task subject-digits: subject must be a digit, not {subject}")
        self.subject = subject
        self.name = "subject-digits" + (f"?subject={subject}" if subject != 4 else "")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        draws = Key.of(0).derive("subject-digits", self.subject, split, number).numpy()
        known = {reference.labels for reference in references(self.subject)}
        while True:
            labels = [label + (label >= self.subject) for label in draws.integers(0, 9, len(PLACES)).tolist()]
            labels[int(draws.integers(len(PLACES)))] = self.subject
            if tuple(labels) not in known and _split_of(labels) == split:
                break
        metadata = {"digits": labels, SUBJECT: self.subject}
        return Scenario(f"{self.name}/{split}/{number}", prompt_of(labels), metadata=metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"model": "nano-flow", "steps": 60, "curriculum.prompts": 16, "update.lr": 1e-3}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`likeness` to the subject, and `prompt`: the share of quarters that another judge reads as asked."""
        return {"likeness": _likeness(trajectory), "prompt": _followed(trajectory, "evaluate")}

    def success(self, trajectory: Trajectory) -> float:
        return harmonic(_likeness(trajectory), _followed(trajectory, "judge"), SHARE)


def _split_of(labels: Sequence[int]) -> Split:
    number = int("".join(map(str, labels)))
    return "eval" if Key.of(number).derive("subject-digits").word % _EVAL_SHARE == 0 else "train"


def _followed(trajectory: Trajectory, part: Any) -> float:
    """The share of quarters that are read as asked."""
    picture = trajectory.final_state
    if picture is None:
        return 0.0
    read = readings(np.asarray(picture)[None], part)[0]
    return float(np.mean(read == np.array(trajectory.scenario.metadata["digits"])))


def from_settings(name: str, settings: Mapping[str, str]) -> SubjectDigits:
    """The task with these settings."""
    return SubjectDigits(**checked(name, settings, {"subject": int}))


SUBJECT_DIGITS = TaskForm(
    name="subject-digits",
    description="pictures of four digits, one of them in the hand of four references, e.g. subject-digits?subject=7",
    make=from_settings,
)
"""The task of RPO."""
