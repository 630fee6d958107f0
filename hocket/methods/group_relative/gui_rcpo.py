"""GUI-RCPO: GRPO without labels, on how many of a group's boxes agree on a place (Du et al., arXiv:2508.05615).

The boxes of a group vote on the places that they cover. `RegionVotes` pays each box the mean votes inside it, relative
to the most votes anywhere, in place of a verdict. `consensus` is GUI-RC, the answer of many samples: the centre of the
largest region with the most votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, GroupBy
from hocket.core.columns import TEXT
from hocket.core.markup import tagged
from hocket.core.numerals import listed
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.members import groups_of, with_return
from hocket.rewards.regions import Box, Point, area
from hocket.stages import Shaping


def box_read(text: str | None, size: float) -> Box | None:
    """The box of a text: its four numbers, or a square of this size around its two; None for anything else."""
    numbers = listed(text or "")
    if len(numbers) == 2:
        x, y = numbers
        return x - size / 2, y - size / 2, x + size / 2, y + size / 2
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else None


@dataclass(frozen=True)
class Votes:
    """How many boxes cover each place: `count[row, column]` between the edges `ys` and `xs`."""

    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    count: NDArray[np.int64]

    @classmethod
    def of(cls, boxes: Sequence[Box]) -> Votes:
        """The votes of boxes with an area, at least one."""
        sides = np.array(boxes, dtype=np.float64)
        xs, ys = np.unique(sides[:, [0, 2]]), np.unique(sides[:, [1, 3]])
        count = np.zeros((len(ys) - 1, len(xs) - 1), dtype=np.int64)
        for x0, y0, x1, y1 in sides:
            count[(ys[:-1] >= y0) & (ys[:-1] < y1)] += ((xs[:-1] >= x0) & (xs[:-1] < x1)).astype(np.int64)
        return cls(xs, ys, count)

    def density(self, box: Box) -> float:
        """The mean votes inside one of the boxes, over the most votes anywhere: in (0, 1]."""
        size = np.outer(np.diff(self.ys), np.diff(self.xs))
        rows = (self.ys[:-1] >= box[1]) & (self.ys[:-1] < box[3])
        columns = (self.xs[:-1] >= box[0]) & (self.xs[:-1] < box[2])
        cover = np.outer(rows, columns) * size
        return float((cover * self.count).sum() / (cover.sum() * self.count.max()))


def region_rewards(boxes: Sequence[Box | None]) -> list[float]:
    """The reward of each box; 0 of none, and of one without an area, which do not vote."""
    voting = [box for box in boxes if box is not None and area(box) > 0]
    votes = Votes.of(voting) if voting else None
    return [votes.density(box) if votes and box is not None and area(box) > 0 else 0.0 for box in boxes]


def consensus(boxes: Sequence[Box | None]) -> Point | None:
    """The centre of the largest connected region with the most votes; None where no box has an area.

    Of equally large ones it is the first from above.
    """
    voting = [box for box in boxes if box is not None and area(box) > 0]
    if not voting:
        return None
    votes = Votes.of(voting)
    size = np.outer(np.diff(votes.ys), np.diff(votes.xs))
    middles = [(edges[:-1] + edges[1:]) / 2 for edges in (votes.xs, votes.ys)]
    open_to = {(int(row), int(column)) for row, column in np.argwhere(votes.count == votes.count.max())}
    best, centre = 0.0, (0.0, 0.0)
    for seed in sorted(open_to):
        region, edge = set[tuple[int, int]](), [seed] if seed in open_to else []
        while edge:
            row, column = edge.pop()
            if (row, column) in open_to:
                open_to.remove((row, column))
                region.add((row, column))
                edge += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        total = float(sum(size[place] for place in region))
        if total > best:
            x = float(sum(size[place] * middles[0][place[1]] for place in region)) / total
            y = float(sum(size[place] * middles[1][place[0]] for place in region)) / total
            best, centre = total, (x, y)
    return centre


@dataclass(frozen=True)
class RegionVotes(Shaping):
    """`R(b) = mean of the votes in b / most votes`, in place of the reward: no label is used.

    GUI-RCPO (arXiv 2508.05615, appendix A). Experience without any words (a controller's) keeps its reward.

    Attributes:
        by: whose boxes vote together. size: the side of the square that a click votes for, in units of the answers.
    """

    by: GroupBy = GroupBy("scenario")
    size: float = 50.0

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise ValueError(f"size must be above 0, not {self.size}")

    def __call__(self, batch: Batch) -> Batch:
        texts = TEXT.read(batch, "RegionVotes")
        if not any(texts):
            return batch
        value = torch.zeros(batch.trajectories, dtype=torch.float64)
        for members in groups_of(batch, self.by):
            boxes = [box_read(tagged(texts[row] or ""), self.size) for row in members]
            for row, reward in zip(members, region_rewards(boxes), strict=True):
                value[row] = reward
        return with_return(batch, value)


GUI_RCPO = GRPO_KL.but(
    name="gui-rcpo",
    title="Region Consistency Policy Optimisation",
    source="Du et al., Test-Time Reinforcement Learning for GUI Grounding via Region Consistency, arXiv:2508.05615",
    catalogue_ids=("gui-rcpo",),
    axes=("reward", "rollout", "policy", "environment"),
    task="boxes?kinds=box",
    formula="v(x, y) = boxes of the group that cover (x, y);  R(b) = mean_{(x, y) in b} v / max v;  GRPO, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04, as in the released script",
        "samples": "16 of a scenario; the temperature is decoding's (the authors take 0.7)",
        "labels": "none are used: the verifiers' scores are replaced",
        "votes": "on areas between the edges of boxes, which for whole numbers is the authors' grid of pixels",
        "a click": "a square of shaping.0.size = 50 around it, the released script's pixels",
        "no box": "anything but four or two numbers in the answer, and a box without an area: reward 0, and no vote",
        "no words": "where nothing was written at all (a controller), rewards stay",
    },
    note="shown on drawn rectangles; the shipped model hardly reads them, so that it learns was not seen",
    shaping=(RegionVotes(),),
    **{"rollout.samples": 16},
)
