"""Rewards that look at the length of an answer, in decisions of all its turns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hocket.core.columns import METADATA
from hocket.errors import ConfigurationError
from hocket.rewards.members import with_return
from hocket.rewards.outcomes import RIGHT, right
from hocket.segments import segment_count, segment_extreme, segment_mean, segment_std
from hocket.signals import counted_trajectories, returns
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy

SCENARIO = GroupBy("scenario")


# ---------------------------------------------------------------- one answer alone


def cosine_reward(length: Tensor, limit: int, at_zero: Tensor | float, at_limit: Tensor | float) -> Tensor:
    """`b + (a - b) (1 + cos(pi min(l, L) / L)) / 2`, a at length 0 and b from L on; float64."""
    share = length.double().clamp(max=limit) / limit
    return at_limit + (torch.as_tensor(at_zero) - at_limit) * (1 + torch.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class CosineLength(Shaping):
    """The cosine length reward in place of the verdict: open-rs (arXiv 2503.16219), after Yeo et al. 2025.

    A right answer earns `right_short` at length 0, falling to `right_long` at `limit`; a wrong one rises from
    `wrong_short` to `wrong_long`. The published script counts characters and has no cap at `limit`; here decisions
    count, and the cap is ours. Its defaults for wrong answers are reversed, which pays them for being short: such
    values, and any by which some wrong answer beats a right one, are refused.

    Attributes:
        weight: of the reward. least: an answer is right when its return before is at least this.
    """

    limit: int
    right_short: float = 1.0
    right_long: float = 0.5
    wrong_short: float = -1.0
    wrong_long: float = -0.5
    weight: float = 2.0
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")
        if self.right_short < self.right_long:
            raise ValueError(f"right_short = {self.right_short} is below right_long = {self.right_long}; swap them")
        if self.wrong_short > self.wrong_long:
            raise ValueError(
                f"wrong_short = {self.wrong_short} is above wrong_long = {self.wrong_long}, which pays wrong answers "
                "for being short; swap them"
            )
        if self.wrong_long >= self.right_long:
            raise ValueError(
                f"wrong_long = {self.wrong_long} lets a wrong answer beat a right one; set it below right_long = "
                f"{self.right_long}"
            )

    def __call__(self, batch: Batch) -> Batch:
        solved, length = right(batch, self.least), batch.lengths()
        paid = cosine_reward(length, self.limit, self.right_short, self.right_long)
        owed = cosine_reward(length, self.limit, self.wrong_short, self.wrong_long)
        return with_return(batch, self.weight * torch.where(solved, paid, owed))


Shape = Literal["triangle", "flat", "linear"]


def budget_reward(length: Tensor, budget: Tensor, shape: Shape) -> Tensor:
    """What a length is worth under a budget, `[N]` in [0, 1]; float64.

    `triangle`: `l/B` up to B, `2 - l/B` up to 2B, then 0. `flat`: 1 up to B, then as the triangle. `linear`:
    `1 - l/(2B)` up to 2B, then 0. The last two are ablations of the first.
    """
    share = length.double() / budget.double()
    if shape == "linear":
        return (1 - share / 2).clamp(min=0.0)
    rising = torch.ones_like(share) if shape == "flat" else share
    return torch.where(share <= 1, rising, (2 - share).clamp(min=0.0))


@dataclass(frozen=True)
class BudgetLength(Shaping):
    """Adds what a length is worth under the budget that was asked: Train Long, Think Short (arXiv 2508.08940).

    Reads `metadata["budget"]` of every scenario, which `hocket.curriculum.ShrinkingBudget` writes. Given to right and
    wrong answers alike.

    Attributes:
        weight: of this reward. correct: what the return before it is multiplied by. shape: see `budget_reward`.

    Raises:
        ConfigurationError: on a call, when a scenario has no budget.
    """

    weight: float = 1.0
    correct: float = 1.0
    shape: Shape = "triangle"

    def __post_init__(self) -> None:
        if self.shape not in ("triangle", "flat", "linear"):
            raise ValueError(f"shape must be triangle, flat or linear, not {self.shape!r}")

    def __call__(self, batch: Batch) -> Batch:
        told = [(known or {}).get("budget") for known in METADATA.read(batch, "BudgetLength")]
        if None in told:
            raise ConfigurationError(
                "BudgetLength reads metadata 'budget' of every scenario; set curriculum to "
                "hocket.curriculum.ShrinkingBudget"
            )
        worth = budget_reward(batch.lengths(), torch.tensor(told, dtype=torch.float64), self.shape)
        return with_return(batch, self.correct * returns(batch) + self.weight * worth)


# ---------------------------------------------------------------- answers of a group


def length_scores(length: Tensor, among: Tensor, group: Tensor, size: int, epsilon: float) -> Tensor:
    """`(l_i - mean_g l) / (std_g l + epsilon)` over the members of `among` `[N]` bool; 0 for the others; float64.

    The deviation divides by the number of members, so a single member's score is 0.
    """
    own, place = length[among].double(), group[among]
    centre = own - segment_mean(own, place, size)[place]
    score = torch.zeros(len(length), dtype=torch.float64)
    score[among] = centre / (segment_std(own, place, size, ddof=0)[place] + epsilon)
    return score


@dataclass(frozen=True)
class StandardisedLength(Shaping):
    """Right answers earn `exp(-alpha z)`, z their length's z-score among the group's right ones; wrong ones `wrong`.

    GRPO-LEAD (arXiv 2504.09696). A group's only right answer has z = 0. The exponential is positive, so a right
    answer always beats a wrong one as long as `wrong` is not.

    Attributes:
        alpha: strength; the paper's runs take 0.05. wrong: reward of a wrong answer, at most 0.
        least: an answer is right when its return before is at least this. epsilon: added to the deviation.
    """

    alpha: float = 0.05
    wrong: float = -1.0
    least: float = RIGHT
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.wrong > 0:
            raise ValueError(f"alpha must be at least 0 and wrong at most 0, not {self.alpha} and {self.wrong}")

    def __call__(self, batch: Batch) -> Batch:
        groups, solved = SCENARIO(batch), right(batch, self.least)
        score = length_scores(
            batch.lengths(), solved & counted_trajectories(batch), groups.index, groups.size, self.epsilon
        )
        return with_return(batch, torch.where(solved, torch.exp(-self.alpha * score), self.wrong))


@dataclass(frozen=True)
class LengthOnceRight(Shaping):
    """Where all of a group's answers are right, a right answer earns `1 + weight (1 - l / limit)`.

    ConciseR's second stage (arXiv 2505.21178): correctness is never traded for length. The paper's code is not
    public; this form, what is left of the budget, is the catalogue's example. The other groups are left alone.

    Attributes:
        limit: the most decisions a response may have. weight: of the length term.
        always: adds the length term everywhere, to wrong answers too: the ablation.
        least: an answer is right when its return before is at least this.
    """

    limit: int
    weight: float = 1.0
    always: bool = False
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")

    def __call__(self, batch: Batch) -> Batch:
        value, groups, among = returns(batch), SCENARIO(batch), counted_trajectories(batch)
        failed = segment_count(groups.index[among & (value < self.least)], groups.size) > 0
        open_to = torch.ones_like(failed) if self.always else ~failed
        term = self.weight * (1 - batch.lengths().double() / self.limit)
        return with_return(batch, torch.where(open_to[groups.index], value + term, value))


@dataclass(frozen=True)
class RelativeLength(Shaping):
    """Adds `weight (1 - l_i / longest right answer of the group)` to every answer of a group that has a right one.

    LC-R1 (arXiv 2506.14755), as its public trainer has it: wrong answers take part, and longer ones than the longest
    right one lose. A group without a right answer gets no length term.
    """

    weight: float = 1.0
    least: float = RIGHT

    def __call__(self, batch: Batch) -> Batch:
        value, groups = returns(batch), SCENARIO(batch)
        among = counted_trajectories(batch) & (value >= self.least)
        length = batch.lengths().double()
        longest = segment_extreme(length[among], groups.index[among], groups.size, largest=True)[groups.index]
        term = torch.where(longest > 0, 1 - length / longest.clamp(min=1.0), 0.0)
        return with_return(batch, value + self.weight * term)


@dataclass(frozen=True)
class LongerIsBetter(Shaping):
    """Adds `weight min(l / limit, 1)`: a bonus for longer chains, as in GCPO (arXiv 2506.07160)."""

    limit: int
    weight: float = 0.1

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")

    def __call__(self, batch: Batch) -> Batch:
        term = (batch.lengths().double() / self.limit).clamp(max=1.0)
        return with_return(batch, returns(batch) + self.weight * term)
