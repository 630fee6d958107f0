"""The world of tones: what is recorded is what is asked about, and verdicts are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hocket.core.media import MEDIA, media_in
from hocket.core.sounds import open_sound
from hocket.tasks import find
from hocket.tasks.tones import LOWEST, NOTES, RATE, WORDS, Tone, recording, right_answer
from hocket.types import Trajectory, Turn


def heard(samples: np.ndarray[Any, Any]) -> list[tuple[str, int]]:
    """Notes and lengths, read from the samples: the loud stretches, and the loudest frequency of the octave in each."""
    window = RATE // 100
    level = np.sqrt((samples.reshape(-1, window) ** 2).mean(1))
    loud = np.flatnonzero(np.diff(np.concatenate([[0], (level > 0.06).astype(int), [0]])))
    found = []
    for start, end in loud.reshape(-1, 2).tolist():
        part = samples[start * window : end * window]
        spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part)), 2**17))
        frequency = np.fft.rfftfreq(2**17, 1 / RATE)
        near = (frequency > LOWEST * 0.97) & (frequency < LOWEST * 2)
        pitch = 12 * np.log2(frequency[near][spectrum[near].argmax()] / LOWEST)
        note = min(NOTES, key=lambda name: abs(NOTES[name] - pitch))
        found.append((note, round((end - start) * 0.01 / 0.125)))
    return found


def test_the_recording_is_what_is_asked_about() -> None:
    task, kinds = find("tones"), set()
    for number in range(12):
        scenario = task.scenario("eval", number)
        ((kind, digest),) = media_in(scenario.messages)
        sound = open_sound(MEDIA.data(digest), "heard")
        assert (kind, sound.rate, sound.seconds) == ("audio", RATE, 2.0)
        melody = [(note, units) for note, units in scenario.metadata["melody"]]
        assert heard(sound.samples) == melody
        asked = scenario.metadata["kind"]
        due = right_answer(tuple(Tone(*tone) for tone in melody), asked)
        if asked == "option":
            words = scenario.messages[0]["content"][1]["text"].split()
            due = words[words.index(due) - 1]
        assert scenario.answer == due
        assert task.verify(scenario.metadata["demonstration"], scenario) == 1.0
        assert task.verify("", scenario) == task.verify("<answer></answer>", scenario) == 0.0
        kinds.add(asked)
    assert kinds == set(WORDS)


def test_right_answers_by_hand() -> None:
    melody = (Tone("so", 1), Tone("ti", 2), Tone("do", 3), Tone("so", 1))
    due = {"notes": "so ti do so", "count": "4", "highest": "ti", "option": "ti", "longest": "do"}
    assert {kind: right_answer(melody, kind) for kind in WORDS} == due
    rng = np.random.default_rng(0)
    assert heard(recording(melody, 2.0, rng).samples) == list(melody)


def test_splits_share_no_melody() -> None:
    task = find("tones?kinds=notes")
    tunes = [{str(task.scenario(split, n).metadata["melody"]) for n in range(12)} for split in ("train", "eval")]
    assert tunes[0].isdisjoint(tunes[1])


@pytest.mark.parametrize(
    ("text", "reward", "errors", "insertions"),
    [
        ("<answer>{}</answer>", 1.0, 0.0, 0.0),
        ("<answer>{} la la</answer>", None, None, None),
        ("do", 0.0, 1.0, 0.0),
    ],
)
def test_a_transcript_earns_one_minus_its_error_rate(
    text: str, reward: float | None, errors: float | None, insertions: float | None
) -> None:
    task = find("tones?kinds=notes")
    scenario = next(one for n in range(99) if len((one := task.scenario("eval", n)).answer.split()) == 4)
    said = text.format(scenario.answer)
    zeros = np.zeros(1, np.int64)
    trajectory = Trajectory(scenario, [Turn("p", "p", zeros, zeros, text=said)], terminated=True)
    traits = task.describe(trajectory)
    due = (0.5, 0.5, 0.5) if reward is None else (reward, errors, insertions)
    assert (task.verify(said, scenario), traits["errors"], traits["insertions"]) == due
    assert task.success(trajectory) == float(due[0] == 1.0)
