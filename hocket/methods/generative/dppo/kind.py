"""Who plays the point: a controller that denoises its actions, cloned from demonstrations before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Level
from hocket.core.errors import HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.noise_laws import log_density
from hocket.methods.generative.dppo.policy import ROW, DenoisingController, coefficients
from hocket.methods.generative.dppo.world import MOVES, REACHED, begin, demonstrations, moved
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import OnePolicy
from hocket.train.roles import POLICY
from hocket.train.settings import Config
from hocket.types import Assignment, Score, Trajectory, Turn, before_training

FLOOR = 0.1
"""The least deviation of a step, as exploration needs."""
CLONING = 200
"""Updates of behaviour cloning."""


KIND = "avoiding"


@dataclass
class AvoidingPlayer:
    """Plays episodes side by side. At temperature 0 steps have no noise, so an action follows from its first noise."""

    policy: DenoisingController
    reference: DenoisingController | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        return [trajectory for assignment in assignments for trajectory in self._played(assignment, key)]

    @torch.inference_mode()
    def _played(self, assignment: Assignment, key: Key) -> list[Trajectory]:
        policy, steps = self._actor(assignment), self.policy.steps
        numbers = range(assignment.first, assignment.first + assignment.samples)
        scenario, heat = assignment.scenario, assignment.decoding.temperature
        words = np.array([key.derive(scenario.id, assignment.source, n).word for n in numbers], np.uint64)
        factors = coefficients(steps, FLOOR) * np.array([1.0, 1.0, np.sqrt(heat)])
        point = np.repeat(begin(scenario.seed)[None], len(numbers), 0)
        paths, going = [point], np.ones(len(numbers), bool)
        lengths, reached = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), bool)
        columns: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        for move in range(MOVES):
            noisy = _normals(words, move * (steps + 1))
            for place in range(steps):
                rows = np.zeros(len(numbers), ROW)
                rows["state"], rows["noisy"], rows["place"] = point, noisy.numpy(), place / steps
                rows["coefficients"] = factors[place]
                mean = policy.means(rows)
                noisy = mean + float(factors[place, 2]) * _normals(words, move * (steps + 1) + place + 1)
                deviation = torch.full((len(numbers),), max(float(factors[place, 2]), 1e-9), dtype=torch.float64)
                columns.append((rows, noisy.numpy(), log_density(noisy, mean, deviation).numpy()))
            outcome = moved(point, noisy.numpy())
            lengths += going
            reached |= going & outcome.reached
            point = np.where(going[:, None], outcome.point, point)
            going &= ~(outcome.reached | outcome.struck)
            paths.append(point)
        turns = zip(*(np.stack(column, 1) for column in zip(*columns, strict=True)), strict=True)
        ends = zip(numbers, turns, lengths.tolist(), reached.tolist(), np.stack(paths, 1), strict=True)
        return [self._trajectory(assignment, *end) for end in ends]

    def _trajectory(
        self,
        assignment: Assignment,
        number: int,
        columns: tuple[NDArray[Any], ...],
        length: int,
        reached: bool,
        path: NDArray[np.float32],
    ) -> Trajectory:
        """An episode that ended after `length` moves; reward 1 stands at the last decision if the goal was reached."""
        steps, name = self.policy.steps, self.policy.name
        count = length * steps if assignment.decoding.temperature > 0 else 0
        rows, action, logp = (column[:count] for column in columns)
        turn = Turn(
            agent="controller",
            policy=name if assignment.actor == "policy" else before_training(name),
            observation=rows,
            action=action,
            logp=logp,
            version=np.full(count, self.policy.version, np.int64),
            segment=np.arange(count) // steps,
            decoding=assignment.decoding,
        )
        score = Score([0.0] * max(0, count - 1) + [float(reached)] * min(1, count), Level.DECISION)
        trajectory = Trajectory(
            assignment.scenario,
            [turn] if count else [],
            sample=number,
            scores={"goal": score} if count else {},
            final_state=path[: length + 1].reshape(-1),
            source=assignment.source,
        )
        REACHED.write(trajectory, reached)
        return trajectory

    def _actor(self, assignment: Assignment) -> DenoisingController:
        if assignment.actor == "policy":
            return self.policy
        if self.reference is None:
            raise HocketError("the rollout samples from the policy as it was before training, which was not given")
        return self.reference


def _normals(words: NDArray[np.uint64], draw: int) -> Tensor:
    """Standard normals `[B, 2]`, number `draw` of each episode's stream."""
    drawn = uniforms(words[:, None], np.arange(2 * draw, 2 * draw + 2, dtype=np.uint64)[None])
    normals: Tensor = torch.special.ndtri(torch.from_numpy(drawn))
    return normals.float()


class Avoiding(OnePolicy):
    """A point that goes round an obstacle, by a controller that denoises its actions."""

    name = KIND  # Spelt out here it would declare a workflow.
    measure = ACCURACY
    instead = "dppo or grpo"

    def made(self, config: Config, task: Task) -> Policy:
        key = Key.of(config.seed).derive("policy", POLICY)
        policy: Any = DenoisingController(POLICY, key, task.steps)  # type: ignore[attr-defined]
        return policy.cloned(*demonstrations(key.derive("data")), key.derive("cloning"), CLONING)  # type: ignore[no-any-return]

    def player(self, task: Task, policy: Any) -> Player:
        return AvoidingPlayer(policy)


AVOIDING = Avoiding()
