"""Plays scenarios with a sampler, and puts probes in the place of its steps where a rollout wants them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hocket.core.keys import Key
from hocket.rollout.denoising import DenoisingPlayer, _prompt
from hocket.rollout.noisy_sampling import Sampling
from hocket.rollout.probing import Probes
from hocket.types import Assignment, Trajectory, Turn

_UNIT = (0.0, 1.0, math.sqrt(0.5))
"""A step whose mean is the prediction, and whose log-density is minus the squared error, up to a constant."""


class ProbingPlayer(DenoisingPlayer):
    """A `DenoisingPlayer` that knows `Probes`. They are decisions of its policy, also where its reference sampled."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order. See `DenoisingPlayer.play`."""
        trajectories = await super().play([_quiet(assignment) for assignment in assignments], key=key)
        owners = (assignment for assignment in assignments for _ in range(assignment.samples))
        for assignment, trajectory in zip(owners, trajectories, strict=True):
            if (probes := assignment.option(Probes)) is not None:
                trajectory.turns = [] if trajectory.failure else [self._probed(assignment, trajectory, probes, key)]
        return trajectories

    def _probed(self, assignment: Assignment, trajectory: Trajectory, probes: Probes, key: Key) -> Turn:
        """The probes of one picture. Their levels and their noise are those of its scenario."""
        picture, shape = np.asarray(trajectory.final_state), self.policy.shape
        draws = key.derive(assignment.scenario.id, "probes").numpy()
        parts = (np.arange(probes.count) + draws.random(probes.count)) / probes.count
        rows = np.zeros(probes.count, self.policy.row_type)
        rows["level"] = level = probes.least + (probes.most - probes.least) * parts
        noise = draws.standard_normal((probes.count, shape.pixels), np.float32)
        rows["state"] = (1 - level[:, None]) * picture + level[:, None] * noise
        rows["coefficients"], rows["guidance"] = _UNIT, 1.0
        rows["words"] = shape.encode(_prompt(assignment))
        return Turn(
            agent="sampler",
            policy=self.policy.name,
            observation=rows,
            action=noise - picture,
            version=np.full(probes.count, self.policy.version, np.int64),
            prompt=assignment.scenario.messages,
            decoding=assignment.decoding,
        )


def _quiet(assignment: Assignment) -> Assignment:
    """Without temperature, if it is probed and the steps of its sampler have no noise."""
    law = (assignment.option(Sampling) or Sampling()).law
    if assignment.option(Probes) is None or not law.silent:
        return assignment
    return replace(assignment, decoding=replace(assignment.decoding, temperature=0.0))
