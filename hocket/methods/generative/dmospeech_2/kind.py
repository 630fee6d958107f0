"""Who says how long: a duration head, fitted to recordings before training, over a frozen speaker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn import functional

from hocket.core.errors import HocketError
from hocket.core.keys import Key, uniforms
from hocket.methods.generative.dmospeech_2.speech import (
    CHOICES,
    FRAMES,
    OBSERVATIONS,
    drawn_utterance,
    features,
    recorded_frames,
    utter,
)
from hocket.methods.generative.dmospeech_2.task import utterance_of
from hocket.policies.control import ControlPolicy
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import Network
from hocket.types import Assignment, Trajectory, Turn, before_training

KIND = "durations"
RECORDINGS, UPDATES, _LR = 2000, 200, 1e-2
"""Of the fit of the head by maximum likelihood."""


@dataclass(frozen=True)
class HeadSpaces:
    """What a duration head reads and chooses from."""

    observations: int = OBSERVATIONS
    actions: int = CHOICES
    discrete: ClassVar[bool] = True


def fitted(policy: ControlPolicy, key: Key) -> ControlPolicy:
    """The head after maximum likelihood of recorded durations."""
    draws = key.numpy()
    utterances = [drawn_utterance(draws) for _ in range(RECORDINGS)]
    chosen = [min(CHOICES - 1, round(recorded_frames(utterance, draws) / FRAMES)) for utterance in utterances]
    rows, labels = torch.from_numpy(np.stack([features(utterance) for utterance in utterances])), torch.tensor(chosen)
    optimiser = torch.optim.Adam(policy.module.actor.parameters(), _LR)
    for _ in range(UPDATES):
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(policy.module.actor(rows), labels))
        optimiser.step()
    optimiser.zero_grad()
    return policy


@dataclass
class SpeakingPlayer:
    """One decision an utterance, its duration; at temperature 0 the likeliest. Frames are `final_state`, `[T * C]`."""

    policy: ControlPolicy
    reference: ControlPolicy | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        return [trajectory for assignment in assignments for trajectory in self._spoken(assignment, key)]

    def _spoken(self, assignment: Assignment, key: Key) -> list[Trajectory]:
        policy, scenario = self._actor(assignment), assignment.scenario
        utterance = utterance_of(scenario)
        numbers = range(assignment.first, assignment.first + assignment.samples)
        keys = [key.derive(scenario.id, assignment.source, number) for number in numbers]
        row, result = features(utterance), []
        for number, stream in zip(numbers, keys, strict=True):
            # One row at a time: a row of a product may depend on how many there are.
            drawn = uniforms(np.array([[stream.word]], np.uint64), np.zeros((1, 1), np.uint64))
            heat = np.array([assignment.decoding.temperature], np.float32)
            action, logp = policy.sample(row[None], drawn, heat)
            frames = utter(utterance, FRAMES * int(action[0]), stream.derive("noise").numpy())
            turn = Turn(
                agent="head",
                policy=self.policy.name if assignment.actor == "policy" else before_training(self.policy.name),
                observation=row[None],
                action=action,
                logp=logp,
                version=np.full(1, self.policy.version, np.int64),
                decoding=assignment.decoding,
            )
            state = frames.astype(np.float32).flatten()
            trajectory = Trajectory(scenario, [turn], sample=number, final_state=state, source=assignment.source)
            result.append(trajectory)
        return result

    def _actor(self, assignment: Assignment) -> ControlPolicy:
        if assignment.actor == "policy":
            return self.policy
        if self.reference is None:
            raise HocketError("the rollout samples from the policy as it was before training, which was not given")
        return self.reference


class Durations(Network):
    """How long an utterance is to be, by a small head over a frozen speaker."""

    name = KIND  # Spelt out here it would declare a workflow.
    measure = ACCURACY
    instead = "dmospeech-2 or grpo"

    def policy(self, task: Task, name: str, key: Key) -> Policy:
        policy: Any = fitted(ControlPolicy(HeadSpaces(), key=key, name=name), key.derive("recordings"))
        return policy  # type: ignore[no-any-return]

    def player(self, task: Task, policy: Any) -> Player:
        return SpeakingPlayer(policy)


DURATIONS = Durations()
