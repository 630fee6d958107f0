"""Plays scenarios with a pipeline of diffusers: on its own schedule, to pictures that its autoencoder decodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.noise_laws import ScheduledSteps
from hocket.rollout.denoising import PictureSampler
from hocket.rollout.denoising_probes import ProbingPlayer
from hocket.rollout.noisy_sampling import Sampling
from hocket.types import Assignment, Trajectory


class LatentSampler(PictureSampler, Protocol):
    """A sampler on a schedule of its own, whose finished states become pictures."""

    def steps(self, count: int) -> ScheduledSteps:
        """So many steps of its schedule."""

    def picture(self, state: NDArray[np.float32]) -> NDArray[np.uint8] | None:
        """The picture `[H, W, 3]` of a finished state, None if it is not finite."""


class PipelinePlayer(ProbingPlayer):
    """A `ProbingPlayer` of a pipeline. A trajectory's `final_state` is its picture `[H, W, 3]`, bytes."""

    policy: LatentSampler

    def __init__(self, policy: LatentSampler) -> None:
        super().__init__(policy)

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order. See `DenoisingPlayer.play`."""
        trajectories = await super().play([self._scheduled(assignment) for assignment in assignments], key=key)
        for trajectory in trajectories:
            latent: Any = trajectory.final_state
            picture = None if trajectory.failure else self.policy.picture(latent)
            if picture is None and trajectory.failure is None:
                trajectory.failure = "sampler: the decoded picture has numbers that are not finite"
            trajectory.final_state = picture
        return trajectories

    def _scheduled(self, assignment: Assignment) -> Assignment:
        """With the levels of the pipeline's schedule where a number of steps is set."""
        sampling = assignment.option(Sampling)
        if sampling is None or sampling.steps is None:
            return assignment
        chosen = replace(sampling, steps=self.policy.steps(sampling.steps))
        others = (option for option in assignment.options if option is not sampling)
        return replace(assignment, options=(*others, chosen))
