"""Who draws the subject: a sampler of pictures, beside whose samples stand the reference pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hocket.core.keys import Key
from hocket.methods.preference.rpo_lambda_harmonic.task import SUBJECT, references
from hocket.rollout.denoising_probes import ProbingPlayer
from hocket.rollout.probing import Probes
from hocket.stages import Player, Task
from hocket.train.kinds.pictures import Pictures
from hocket.types import Assignment, Trajectory

RECORDED = ("expert", "imported")
"""The sources of assignments whose samples are reference pictures: sample i is number i, counted around."""


class ReferencePlayer(ProbingPlayer):
    """A `ProbingPlayer` that shows reference pictures where an assignment has one of the sources `RECORDED`."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        drawn = iter(await super().play([item for item in assignments if item.source not in RECORDED], key=key))
        result = []
        for assignment in assignments:
            for number in range(assignment.first, assignment.first + assignment.samples):
                result.append(self._shown(assignment, number, key) if assignment.source in RECORDED else next(drawn))
        return result

    def _shown(self, assignment: Assignment, number: int, key: Key) -> Trajectory:
        known = references(int(assignment.scenario.metadata[SUBJECT]))
        picture = known[number % len(known)].picture
        trajectory = Trajectory(
            assignment.scenario, [], sample=number, final_state=picture.copy(), source=assignment.source
        )
        if (probes := assignment.option(Probes)) is not None:
            trajectory.turns = [self._probed(assignment, trajectory, probes, key)]
        return trajectory


class SubjectPictures(Pictures):
    """Pictures asked for in words, with pictures of a subject to learn from."""

    instead = "rpo-lambda-harmonic, flow-grpo or diffusion-dpo"

    def player(self, task: Task, policy: Any) -> Player:
        return ReferencePlayer(policy)


SUBJECT_PICTURES = SubjectPictures()
