"""The lambda-harmonic mean, as a number and as a combiner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.rewards.combine import added_up
from hocket.stages import Combine

SHARE = 0.5
"""Lambda: the share of the image."""


def harmonic(image: float, text: float, share: float) -> float:
    """`1 / (share / image + (1 - share) / text)` of two scores in [0, 1]; 0 if one with a share is 0."""
    if (share > 0 and image <= 0) or (share < 1 and text <= 0):
        return 0.0
    return 1.0 / sum(part / value for part, value in ((share, image), (1 - share, text)) if part > 0)


@dataclass(frozen=True)
class Harmonic(Combine):
    """reward = 1 / (share / s_image + (1 - share) / s_text), of the scores of trajectories: good on both counts.

    A score at or below 0 makes it 0, and so does one without an opinion. Weights of the rewards are not used.

    Attributes:
        share: lambda, in [0, 1]. image, text: the names of the two scores.

    Raises:
        ConfigurationError: on a call, for a batch that lacks one of the two.
    """

    share: float = SHARE
    image: str = "subject"
    text: str = "digits"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")

    def __call__(self, batch: Batch, weights: Mapping[str, float]) -> Batch:
        names = (self.image, self.text)
        scores = [batch.scores[name] for name in names if name in batch.scores]
        if len(scores) < 2 or any(score.level is not Level.TRAJECTORY for score in scores):
            raise ConfigurationError(
                f"combine = Harmonic takes the scores {self.image} and {self.text} of trajectories, and this run has "
                f"{', '.join(sorted(batch.scores)) or 'none'}; take task subject-digits, or name two of its scores"
            )
        pairs = zip(*(torch.nan_to_num(score.values).tolist() for score in scores), strict=True)
        value = torch.tensor([harmonic(image, text, self.share) for image, text in pairs], dtype=torch.float64)
        return added_up(batch, {"harmonic": LevelScores(Level.TRAJECTORY, value)})
