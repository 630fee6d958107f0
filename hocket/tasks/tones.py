"""Recordings of one to four tones, two seconds long, and questions about them: their notes, number, order, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.media import MEDIA, Parts, with_sounds
from hocket.core.options import checked
from hocket.core.sounds import Sound, sound_bytes
from hocket.rewards.word_errors import Errors, word_errors
from hocket.tasks.form import TaskForm
from hocket.tasks.scenes import AnyScenes, SceneQuestion, kinds_of
from hocket.types import Scenario, Trajectory

RATE = 16_000
"""Samples a second."""

UNITS, SECONDS = 16, 2
"""A recording has so many units of time, and lasts so long."""

NOTES: Mapping[str, int] = {"do": 0, "re": 2, "mi": 4, "fa": 5, "so": 7, "la": 9, "ti": 11}
"""The notes of an octave, in semitones above `LOWEST`."""

LOWEST = 523.25
"""Hz."""

MOST = 4
LONGEST = 3
"""Tones of a recording, and units of a tone, at most. A unit of silence follows each."""

LETTERS = "ABCD"

WORDS: Mapping[str, str] = {
    "notes": "Notes?",
    "count": "Count?",
    "highest": "Highest?",
    "longest": "Longest?",
    "option": "Highest?",
}
"""The words of each kind of question; `option` names four notes to choose from."""


class Tone(NamedTuple):
    """A note, and how many units of time it lasts."""

    note: str
    units: int


Melody = tuple[Tone, ...]


def beginning(melody: Melody, rng: np.random.Generator) -> float:
    """When a melody begins, in units of time, so that all of it is heard."""
    return float(rng.uniform(0.0, UNITS - sum(tone.units + 1 for tone in melody)))


def recording(melody: Melody, start: float, rng: np.random.Generator) -> Sound:
    """A melody that begins at `start`, on an instrument of three harmonics, a little out of tune, in some noise."""
    samples: NDArray[np.float64] = rng.normal(0.0, rng.uniform(0.003, 0.03), RATE * SECONDS)
    unit = SECONDS / UNITS
    harmonics, tuning = rng.dirichlet((4.0, 2.0, 1.0)), 2 ** (rng.uniform(-0.15, 0.15) / 12)
    for tone in melody:
        first, count = int(start * unit * RATE), int(tone.units * unit * RATE)
        time = np.arange(count) / RATE
        pitch = LOWEST * tuning * 2 ** (NOTES[tone.note] / 12)
        wave = sum(part * np.sin(2 * np.pi * pitch * (n + 1) * time) for n, part in enumerate(harmonics))
        envelope = np.minimum(1.0, np.minimum(time, time[::-1]) / 0.01)
        samples[first : first + count] += rng.uniform(0.2, 0.8) * envelope * wave
        start += tone.units + 1
    return Sound(samples.clip(-1, 1).astype(np.float32), RATE)


def heard(melody: Melody) -> str:
    """The notes in words."""
    return " ".join(tone.note for tone in melody)


class Tones(AnyScenes[Melody]):
    """Questions about recordings of tones.

    The reward is 1 for the right answer; for `notes` it is 1 minus the word error rate, 0 at least.

    Args:
        kinds: of questions, see `WORDS`.
    """

    title = "tones"
    model = "nano-audio"
    kinds_of = tuple(WORDS)
    longest = 32

    def draw(self, rng: np.random.Generator, kind: str) -> Melody:
        while True:
            count = int(rng.integers(1, MOST + 1)) if kind in ("notes", "count") else int(rng.integers(2, MOST + 1))
            drawn = zip(rng.integers(len(NOTES), size=count), rng.integers(1, LONGEST + 1, size=count), strict=True)
            melody = tuple(Tone(list(NOTES)[note], int(units)) for note, units in drawn)
            lengths = sorted((tone.units for tone in melody), reverse=True)
            if sum(lengths) + count < UNITS and (kind != "longest" or lengths[0] > lengths[1]):
                return melody

    def content(self, scene: Melody, words: str, name: str, rng: np.random.Generator) -> str | Parts:
        sound = MEDIA.put(sound_bytes(recording(scene, beginning(scene, rng), rng)), f"the sound of {name}")
        return with_sounds(words, [sound])

    def ask(self, scene: Melody, kind: str, rng: np.random.Generator) -> SceneQuestion:
        answer, words = right_answer(scene, kind), WORDS[kind]
        if kind == "option":
            others = [note for note in NOTES if note != answer]
            notes = [answer, *(others[place] for place in rng.permutation(len(others))[: len(LETTERS) - 1])]
            notes = [notes[place] for place in rng.permutation(len(LETTERS))]
            words += "".join(f" {letter} {note}" for letter, note in zip(LETTERS, notes, strict=True))
            answer = LETTERS[notes.index(answer)]
        question = SceneQuestion(kind, words, answer, {"melody": [list(tone) for tone in scene]})
        return question._replace(known={**question.known, "demonstration": worked(scene, question)})

    def beginner(self, scene: Melody, question: SceneQuestion, rng: np.random.Generator) -> str:
        """Answers at once: a transcript that mostly says the last note again, or a guess, right one time in three."""
        if question.kind == "notes":
            again = f" {scene[-1].note}" * int(rng.choice((0, 1, 2), p=(0.4, 0.4, 0.2)))
            return f"<answer>{question.answer}{again}</answer>"
        if rng.random() < 1 / 3:
            return f"<answer>{question.answer}</answer>"
        if question.kind == "option":
            return f"<answer>{LETTERS[int(rng.integers(len(LETTERS)))]}</answer>"
        return f"<answer>{right_answer(self.draw(rng, question.kind), question.kind)}</answer>"

    def verify(self, text: str, scenario: Scenario) -> float:
        if scenario.metadata["kind"] == "notes":
            return max(0.0, 1.0 - self.errors(text, scenario).rate)
        return float((self.extracted(text) or "").strip() == scenario.answer)

    def errors(self, text: str, scenario: Scenario) -> Errors:
        """The errors of the transcript in an answer, which is empty where there is none."""
        return word_errors(str(scenario.answer), self.extracted(text) or "")

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """For `notes` as well `errors` and `insertions`, a word of the reference, 1 at most."""
        traits = super().describe(trajectory)
        if trajectory.scenario.metadata["kind"] != "notes":
            return traits
        wrong = self.errors(trajectory.answer, trajectory.scenario)
        inserted = wrong.insertions / wrong.length
        return {**traits, "errors": min(1.0, wrong.rate), "insertions": min(1.0, inserted)}


def right_answer(melody: Melody, kind: str) -> str:
    """The answer to a question of a kind; the note for `option`."""
    if kind == "notes":
        return heard(melody)
    if kind == "count":
        return str(len(melody))
    if kind == "longest":
        return max(melody, key=lambda tone: tone.units).note
    return max(melody, key=lambda tone: NOTES[tone.note]).note


def worked(melody: Melody, question: SceneQuestion) -> str:
    """A right answer that writes down what is heard first: the notes, with their lengths where these are asked for.

    A transcript has nothing to write down before.
    """
    if question.kind == "notes":
        return f"<answer>{question.answer}</answer>"
    units = question.kind == "longest"
    thought = " ".join(tone.note + (str(tone.units) if units else "") for tone in melody)
    return f"<think>{thought}</think><answer>{question.answer}</answer>"


def from_settings(name: str, settings: Mapping[str, str]) -> Tones:
    """The task with these settings."""
    return Tones(kinds_of(checked(name, settings, {"kinds": str})))


TONES = TaskForm(
    name="tones",
    description="recordings of tones: their notes, number, the highest, the longest, e.g. tones?kinds=count,option",
    family="sounds",
    make=from_settings,
)
