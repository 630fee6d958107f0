"""Utterances to be spoken, heard by a recogniser and by what tells voices apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.generative.dmospeech_2.speech import (
    CHANNELS,
    Utterance,
    drawn_utterance,
    recognised,
    recognition_loss,
    voice_distance,
)
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory

UTTERED = "uttered"
"""Of a scenario: what is to be uttered."""


def utterance_of(scenario: Scenario) -> Utterance:
    """What a scenario asks for."""
    return drawn_utterance(Key.of(scenario.seed).derive("utterance").numpy())


def frames_of(trajectory: Trajectory) -> NDArray[np.float64]:
    """What was uttered, `[T, CHANNELS]`."""
    return np.asarray(trajectory.final_state, np.float64).reshape(-1, CHANNELS)


@dataclass(frozen=True)
class Recognition(Reward):
    """Minus the recogniser's CTC loss of the text, in nats a symbol, at least -10."""

    name: str = "recognition"
    weight: float = 1.0
    outside: ClassVar[bool] = False
    reads_metadata: ClassVar[frozenset[str]] = frozenset({UTTERED})

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [
            -recognition_loss(frames_of(trajectory), utterance_of(trajectory.scenario).text)
            for trajectory in trajectories
        ]


@dataclass(frozen=True)
class VoiceLikeness(Reward):
    """Minus the distance of the voice that is heard from the one asked for, in [-2, 0]."""

    name: str = "voice"
    weight: float = 3.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [
            -voice_distance(frames_of(trajectory), utterance_of(trajectory.scenario)) for trajectory in trajectories
        ]


class SpokenSymbols:
    """Utterances of three to eight symbols. Success is that a listener that no reward knows hears exactly these."""

    name: str = "spoken-symbols"
    kind: Any = "hocket.methods.generative.dmospeech_2.kind:DURATIONS"
    rewards: Sequence[Reward] = (Recognition(),)

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        scenario = Scenario(f"{self.name}/{split}/{number}", seed=2 * number + (split == "eval"))
        return replace(scenario, metadata={UTTERED: list(utterance_of(scenario).text)})

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": 60, "curriculum.prompts": 16, "rollout.samples": 16, "update.lr": 3e-3}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`pace`: frames over those that this voice would take; `voice`: distance from the voice asked for."""
        frames, utterance = frames_of(trajectory), utterance_of(trajectory.scenario)
        return {"pace": len(frames) / utterance.natural, "voice": voice_distance(frames, utterance)}

    def success(self, trajectory: Trajectory) -> float:
        return float(recognised(frames_of(trajectory)) == utterance_of(trajectory.scenario).text)


def from_settings(name: str, settings: Mapping[str, str]) -> SpokenSymbols:
    """The task; it has no settings."""
    checked(name, settings, {})
    return SpokenSymbols()


SPOKEN_SYMBOLS = TaskForm(
    name="spoken-symbols",
    description="how many frames an utterance is to take, spoken by a frozen speaker",
    make=from_settings,
)
"""The task of DMOSpeech 2."""
