"""Plays scenarios in words with a masked language model, and looks at finished answers where a rollout wants it."""

from __future__ import annotations

from hocket.core.elbo_masks import LOOK_WEIGHTS, ElboMasks
from hocket.rollout.unmasking import FilledAnswer, UnmaskingPlayer
from hocket.types import Trajectory, Turn


class LookingPlayer(UnmaskingPlayer):
    """An `UnmaskingPlayer` that knows `ElboMasks`: they are the looks that an answer's likelihood is made of."""

    def _finished(self, answer: FilledAnswer) -> Trajectory:
        trajectory = super()._finished(answer)
        if (masks := answer.assignment.option(ElboMasks)) is not None:
            places = len(answer.tokens) - answer.prompt
            LOOK_WEIGHTS.write(trajectory, masks.weights([len(turn) for turn in trajectory.turns], places))
        return trajectory

    def _probes(self, answer: FilledAnswer) -> list[Turn]:
        masks = answer.assignment.option(ElboMasks)
        if masks is None:
            return super()._probes(answer)
        drawn = masks.draw(len(answer.tokens) - answer.prompt, answer.key.derive("probe").numpy())
        return [self._probe(answer, answer.tokens.copy(), answer.prompt + mask.nonzero()[0]) for mask in drawn]
