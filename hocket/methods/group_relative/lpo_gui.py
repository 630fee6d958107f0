"""LPO: clicks paid by where they land (Tang et al., Location Preference Optimization, arXiv:2506.09373).

The screen is cut in windows. `Location` pays a click the entropy of its window's grey values, relative to the largest,
times a part that falls linearly with the distance to the target. So near misses earn more than far ones, and clicks on
empty windows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.media import MEDIA, pictures_in
from hocket.core.pictures import open_picture
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.opinions import Opinions
from hocket.rewards.regions import Point, distance, point_of
from hocket.rewards.verifiers import EXTRACTIONS, Extraction, check_extraction
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

BINS = 256
EPSILON = 1e-6


def entropies(grey: NDArray[np.uint8], windows: int) -> NDArray[np.float64]:
    """The entropy in bits of each window's histogram of grey values, `[windows, windows]`, of a picture `[H, W]`."""
    made = np.zeros((windows, windows))
    for row, band in enumerate(np.array_split(grey, windows, axis=0)):
        for column, window in enumerate(np.array_split(band, windows, axis=1)):
            shares = np.bincount(window.ravel(), minlength=BINS) / max(window.size, 1)
            made[row, column] = -(shares[shares > 0] * np.log2(shares[shares > 0])).sum() + 0.0
    return made


@lru_cache(4096)
def entropies_of(digest: str, windows: int) -> NDArray[np.float64]:
    """The same of a picture by its digest."""
    picture = open_picture(MEDIA.data(digest), MEDIA.name(digest)).convert("L")
    return entropies(np.asarray(picture, dtype=np.uint8), windows)


def density_reward(density: NDArray[np.float64], click: Point, space: Point) -> float:
    """The entropy at a click over the largest anywhere; 0 outside the space."""
    if not (0 <= click[0] < space[0] and 0 <= click[1] < space[1]):
        return 0.0
    rows, columns = density.shape
    row, column = int(click[1] / space[1] * rows), int(click[0] / space[0] * columns)
    return float(density[row, column] / (density.max() + EPSILON))


def distance_reward(click: Point, target: Point, farthest: float) -> float:
    """`max(0, 1 - |click - target| / farthest)`."""
    return max(0.0, 1.0 - distance(click, target) / farthest)


@dataclass(frozen=True)
class Location(Reward):
    """`r = r_w r_d` of a click: LPO (arXiv 2506.09373). 0 for an answer that is no two numbers, or outside the space.

    Reads the scenario's picture, and `point` and `space` of its metadata: the target, and width and height in units of
    the answers. Without them there is no opinion.

    Attributes:
        windows: windows of a side; the paper aligns them with the patches of the model's tower.
        farthest: the distance from which on nothing is earned, as a share of the space's diagonal.
        density: whether r_w is a factor.
    """

    windows: int = 4
    farthest: float = 1.0
    density: bool = True
    extract: Extraction = "answer-tag"
    name: str = "location"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_extraction(self.extract)
        if self.windows < 1:
            raise ValueError(f"windows must be at least 1, not {self.windows}")
        if self.farthest <= 0:
            raise ValueError(f"farthest must be above 0, not {self.farthest}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(trajectory.text, trajectory.scenario) for trajectory in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        target, space = scenario.metadata.get("point"), scenario.metadata.get("space")
        pictures = pictures_in(scenario.messages)
        if target is None or space is None or not pictures:
            return None
        click = point_of(EXTRACTIONS[self.extract](text))
        if click is None or not (0 <= click[0] < space[0] and 0 <= click[1] < space[1]):
            return 0.0
        near = distance_reward(click, (target[0], target[1]), self.farthest * float(np.hypot(*space)))
        rich = density_reward(entropies_of(pictures[0], self.windows), click, (space[0], space[1]))
        return near * rich if self.density else near


LPO_GUI = GRPO_KL.but(
    name="lpo-gui",
    title="Location Preference Optimisation",
    source="Tang et al., LPO: Towards Accurate GUI Agent Interaction, arXiv:2506.09373",
    catalogue_ids=("lpo-gui",),
    axes=("reward", "policy"),
    task="boxes?kinds=point",
    formula="r = r_w r_d,  r_w = H(window of the click)/(max H + eps),  H = -sum_b p_b log2 p_b of grey values,  "
    "r_d = max(0, 1 - |click - target|/d_max);  GRPO, clip 0.2 and 0.28, KL k3 1e-4",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 1e-4",
        "clipping side": "0.2 below, 0.28 above",
        "windows": "rewards.0.windows = 4 a side, the patches of nano-vlm; 256 grey values; eps 1e-6",
        "farthest": "d_max is the diagonal of the space (chosen here): rewards.0.farthest = 1 of it",
        "no click": "anything but two numbers in the answer, or a click outside the space: 0",
        "actions": "clicks alone; the paper sums over the clicks of an action whose type is right",
    },
    note="shown on drawn buttons; the shipped model hardly reads them, so that it learns was not seen",
    rewards=(Location(),),
    **{"objective.high": 0.28, "regularisers.0.coefficient": 1e-4},
)
