"""VPPO: learning from the tokens that depend on the picture (Huang et al., arXiv:2510.09285).

How much a token depends on it is measured by a counterfactual: the same decisions are evaluated again behind a picture
of which half the patches are black (annotator `DEPENDENCE`). `PictureDependent` then weighs whole answers by their mean
dependence, and leaves the gradient to the most dependent tokens of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.media import FIRST, MEDIA, ReadsPictures, reader_of
from hocket.core.pictures import open_picture, picture_bytes, pillow
from hocket.core.segments import segment_mean
from hocket.credit.refinement import Refined
from hocket.methods.base.grpo import GRPO
from hocket.objectives.ratios import recorded
from hocket.stages import Policy
from hocket.types import Quantity

PATCH, CHANCE = 14, 0.5
"""Pixels of a patch's side, and the chance that it is black."""

PATCHES = 4
"""A side has at least so many patches: of a small picture they are smaller."""

FARTHEST, LARGEST = 20.0, 10.0
"""Differences of log-probs, and scores, are cut there."""


def patched(pixels: NDArray[np.uint8], draw: np.random.Generator, chance: float = CHANCE) -> NDArray[np.uint8]:
    """A picture `[H, W, 3]` some of whose patches are black, each with this chance."""
    size = max(1, min(PATCH, *(side // PATCHES for side in pixels.shape[:2])))
    rows, columns = (-(-side // size) for side in pixels.shape[:2])
    black = np.kron(draw.random((rows, columns)) < chance, np.ones((size, size), bool))
    return np.where(black[: pixels.shape[0], : pixels.shape[1], None], np.uint8(0), pixels)


@lru_cache(4096)
def corrupted(source: str, chance: float = CHANCE) -> str:
    """The digest of a picture with black patches, which follow from its own digest."""
    pixels = np.asarray(open_picture(MEDIA.data(source), MEDIA.name(source)))
    drawn = patched(pixels, Key.of(0).derive("vppo", source).numpy(), chance)
    return MEDIA.put(picture_bytes(pillow().fromarray(drawn)), f"{MEDIA.name(source)} with black patches")


def counterfactual(observation: NDArray[Any], reader: ReadsPictures, chance: float = CHANCE) -> NDArray[Any]:
    """Ids with those of the same tokens of corrupted pictures in place of pictures'."""
    places = np.flatnonzero(observation >= FIRST)
    if not len(places):
        return observation
    other = observation.copy()
    for place in places:
        token = MEDIA.token(int(observation[place]))
        other[place] = reader.instead(token, corrupted(MEDIA.processed(token.picture).source, chance))
    return other


def dependence(real: Tensor, without: Tensor) -> Tensor:
    """`exp(d) - d - 1`, d = without - real, the log-probs behind the corrupted and the real picture; in [0, 10]."""
    gap = (without.double() - real.double()).clamp(-FARTHEST, FARTHEST)
    # expm1 keeps small gaps, where the parts cancel.
    return (gap.expm1() - gap).clamp(0.0, LARGEST)


def measured(batch: Batch, policy: Policy, decisions: Tensor, chance: float = CHANCE) -> Tensor:
    """The dependence at the decisions, `[T]` float64; 0 elsewhere, and where nothing is seen."""
    scores = torch.zeros(batch.decisions, dtype=torch.float64)
    reader = reader_of(getattr(policy, "tokenizer", None))
    if reader is None or not len(decisions):
        return scores
    observations = [counterfactual(np.asarray(ids), reader, chance) for ids in batch.observation]
    other = batch.but(observation=observations)
    real = recorded(batch, "behaviour")
    for chunk in policy.chunks(other, decisions):
        logp = policy.evaluate(other, {Quantity.LOGP}, chunk).get(Quantity.LOGP)
        scores[chunk] = dependence(real[chunk], logp[chunk].detach())
    return scores


DEPENDENCE = Annotator(
    "dependence", "How much a decision's log-prob changes when half the picture is black, in [0, 10].", measured
)


def weights_of(scores: Tensor, least: float) -> Tensor:
    """`least + n (most - least)`, n the scores `[M]` brought into [0, 1], and `most` such that the mean is 1."""
    spread = scores.max() - scores.min()
    if not len(scores) or spread <= 0:
        return torch.ones_like(scores)
    share = (scores - scores.min()) / spread
    return least + share * (1 - least) / share.mean()


@dataclass(frozen=True)
class PictureDependent(Refined):
    """Advantages times a trajectory's weight, at its most dependent decisions, else 0: VPPO (arXiv 2510.09285).

    Decisions without advantage stay in the denominators, and a regulariser sees all of them.

    Attributes:
        share: of a trajectory's decisions that keep their advantage: the largest by dependence, rounded up, the earlier
            one of equals. least: the weight of the trajectory that depends least on its picture.
    """

    share: float = 0.4
    least: float = 0.9

    adds: ClassVar[frozenset[Column]] = frozenset({DEPENDENCE})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], not {self.share}")
        if not 0 <= self.least <= 1:
            raise ValueError(f"least must lie in [0, 1], not {self.least}")

    def refine(self, batch: Batch) -> Occurrences:
        occurrences = batch.occurrences
        used = torch.nonzero(occurrences.weight != 0).flatten()
        if not len(used):
            return occurrences
        scores = DEPENDENCE.read(batch, "PictureDependent").double()[occurrences.decision[used]]
        _, member = torch.unique(occurrences.trajectory[used], return_inverse=True)
        size = int(member.max()) + 1
        factor = weights_of(segment_mean(scores, member, size), self.least)[member]
        for number in range(size):
            places = torch.nonzero(member == number).flatten()
            count = -int(-self.share * len(places) // 1)
            order = scores[places].argsort(descending=True, stable=True)
            factor[places[order[count:]]] = 0.0
        advantage = occurrences.advantage.double().clone()
        advantage[used] = advantage[used] * factor
        return replace(occurrences, advantage=advantage)


VPPO = GRPO.but(
    name="vppo",
    title="Visually-perceptive policy optimisation",
    source="Huang et al., Spotlight on Token Perception for Multimodal Reinforcement Learning, arXiv:2510.09285",
    catalogue_ids=("vppo",),
    axes=("credit", "objective", "policy"),
    task="digits",
    formula="s_t = e^d - d - 1,  d = log pi(a_t | corrupted) - log pi(a_t | picture);  "
    "A_it -> alpha_i A_it at the 0.4 n_i decisions of largest s, else 0;  alpha_i = 0.9 + n_i c,  mean alpha = 1",
    conventions={
        **GRPO.conventions,
        "corruption": "patches of 14 pixels, or a quarter of a smaller side, each black with chance 0.5; which ones "
        "follows from the picture's digest, so every answer to it and every step sees the same ones (chosen here: the "
        "authors draw them anew)",
        "denominators": "decisions without advantage stay in them",
        "rounding": "credit.share of a response's decisions, rounded up (chosen here)",
        "weights": "scaled over the answers of the step that count; 1 where all depend alike, as without pictures",
    },
    credit=PictureDependent(of=GRPO.credit),
)
