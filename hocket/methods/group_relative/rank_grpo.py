"""Rank-GRPO: GRPO for ranked lists, item by item (Zhu et al., arXiv:2510.20150).

An item earns its own hit, or the discounted gain from its rank on, and is compared with the group's items at that rank
(`RankRelative`); the clipped ratio is one per item. Items are lines (`SegmentsByText` of `hocket.rewards.spans`), and
`ListGain` tells which are hits. `listed-steps` is a task of such lists that the shipped base can write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.plans import PLANNER_SYSTEM, plan_text
from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.formulas import centred, scaled
from hocket.methods.base.grpo import GRPO
from hocket.objectives.divergence import KLToReference
from hocket.rewards.spans import SegmentsByText
from hocket.stages import Credit, Reward, Split
from hocket.tasks.arithmetic import expression_of, question_of
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory


def discounted_gains(hits: Sequence[float]) -> list[float]:
    """`R_k = sum_{j >= k} hit_j / log2(j + 1)`, ranks from 1: the gain of rank k and later ones. R_1 is the DCG."""
    gains = [hit / math.log2(rank + 1) for rank, hit in enumerate(hits, start=1)]
    left, found = 0.0, []
    for gain in reversed(gains):
        left += gain
        found.append(left)
    return found[::-1]


_MARKS = re.compile(r"^(?:\d+\s*[.)]\s+|\d+\s*[.)](?=\D)|[-*#•]+\s+)+")
"""A list's own marks before an item: its number, or a bullet."""


def name_of(item: str) -> str:
    """What an item names: without number or bullet, emphasis, quotes, case and outer space."""
    bare = _MARKS.sub("", item.strip()).strip().strip("*_").strip()
    quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
    return " ".join((bare[1:-1] if quoted else bare).split()).casefold()


def hits_of(items: Sequence[str], relevant: Sequence[str]) -> list[float]:
    """1 where an item is relevant and is listed for the first time, else 0; by `name_of`."""
    wanted = {name_of(name) for name in relevant} - {""}
    hits = []
    for item in items:
        name = name_of(item)
        hits.append(float(name in wanted))
        wanted.discard(name)
    return hits


@dataclass(frozen=True)
class ListGain(Reward):
    """The discounted cumulative gain of a list with an item per line (Järvelin and Kekäläinen 2002).

    What is relevant are the members of the scenario's answer. The hits by rank become the trajectory's column `hits`,
    which `hocket.credit.RankRelative` reads. Every line break ends a rank, as it ends a segment of `SegmentsByText`; a
    blank line is an item that hits nothing.
    """

    name: str = "dcg"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        """The gain of each list; None where the scenario does not say what is relevant."""
        return [self._gain(trajectory) for trajectory in trajectories]

    def _gain(self, trajectory: Trajectory) -> float | None:
        relevant = trajectory.scenario.answer
        if not isinstance(relevant, (list, tuple)):
            return None
        hits = hits_of(trajectory.text.split("\n"), [str(name) for name in relevant])
        HITS.write(trajectory, hits)
        return discounted_gains(hits)[0] if hits else 0.0


def remaining_gain(hits: Tensor) -> Tensor:
    """`R_k = sum_{j >= k} hit_j / log2(j + 1)` along the last axis, ranks from 1; same shape. R_1 is the DCG."""
    discount = torch.log2(torch.arange(hits.shape[-1], dtype=hits.dtype) + 2)
    return (hits / discount).flip(-1).cumsum(-1).flip(-1)


@dataclass(frozen=True)
class RankRelative(Credit):
    """`A_ik = (R_ik - mean_i R_ik) / (std_i R_ik + epsilon)`, over a group at one rank k: Rank-GRPO (arXiv 2510.20150).

    The items of a list are its segments (`Turn.segment`, or `hocket.rewards.SegmentsByText` which finds them in the
    text), one turn per trajectory. R_ik reads the column `hits`, the gain of each of trajectory i's items; a list that
    is shorter has 0 at the missing ranks. Without hits the whole return stands at every rank.

    Attributes:
        gain: `hit`, that of rank k alone (`exp_inf` in the released code, its default), or `remaining`, the discounted
            gain from rank k on (`log_decay`; see `remaining_gain`). Neither looks at ranks before k.
        length: the wished number of items; tokens of later ones get `-overflow`, and the last token of a list that
            ended by itself gets `+complete` if there are exactly `length` items before it, `-early` if fewer and
            `-overflow` if more. None shapes nothing: then the last token belongs to its item like any other.
        overflow, complete, early: the sizes of the public code.
    """

    gain: Literal["remaining", "hit"] = "hit"
    length: int | None = None
    overflow: float = 0.1
    complete: float = 0.1
    early: float = 0.1
    ddof: int = 1
    epsilon: float = 1e-4

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.gain not in ("remaining", "hit"):
            raise ValueError(f"gain must be 'remaining' or 'hit', not {self.gain!r}")
        if self.length is not None and self.length < 1:
            raise ValueError(f"length must be at least 1, not {self.length}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences
        by_rank = self._advantages(batch)
        rank = batch.segment[seen.decision]
        inside = rank < by_rank.shape[1]
        found = by_rank[seen.trajectory, rank.clamp(max=by_rank.shape[1] - 1)]
        found = torch.where(inside, found, 0.0)
        if self.length is not None:
            found = self._shaped(batch, found, rank)
        return replace(seen, advantage=torch.where(counted_trajectories(batch)[seen.trajectory], found, 0.0))

    def _advantages(self, batch: Batch) -> Tensor:
        """A of each trajectory at each rank, `[N, L]`; 0 for trajectories that do not count."""
        value = self._values(batch)
        used = torch.nonzero(counted_trajectories(batch)).flatten()
        groups = GroupBy("scenario")(batch)
        index = groups.index[used]
        found = torch.zeros_like(value)
        for rank in range(value.shape[1]):
            middle = centred(value[used, rank], index, groups.size)
            found[used, rank] = scaled(middle, middle, index, groups.size, ddof=self.ddof, epsilon=self.epsilon)
        return found

    def _values(self, batch: Batch) -> Tensor:
        """R of each trajectory at each rank, `[N, L]` float64."""
        given: list[Any] = list(HITS.rows(batch))
        ranks = int(batch.segment.max()) + 1 if batch.decisions else 1
        longest = self.length or max([ranks, *(len(row) for row in given if row is not None)])
        rows = torch.zeros(batch.trajectories, longest, dtype=torch.float64)
        for number, row in enumerate(given):
            if row is not None:
                kept = [float(hit) for hit in list(row)[:longest]]
                if not all(math.isfinite(hit) for hit in kept):
                    raise ValueError(f"trajectory {number}: hits must be finite numbers")
                rows[number, : len(kept)] = torch.tensor(kept, dtype=torch.float64)
        value = remaining_gain(rows) if self.gain == "remaining" else rows
        told = torch.tensor([row is not None for row in given])
        return torch.where(told[:, None], value, returns(batch)[:, None])

    def _shaped(self, batch: Batch, found: Tensor, rank: Tensor) -> Tensor:
        """Advantages with what surplus items cost and the end of the list earns."""
        assert self.length is not None
        last = batch.last()
        ended = torch.nonzero((last >= 0) & ~batch.truncated).flatten()
        ends = torch.zeros(len(rank), dtype=torch.bool)
        ends[last[ended]] = True
        items = torch.zeros(batch.trajectories, dtype=torch.long)
        trajectory = batch.occurrences.trajectory
        items = items.scatter_reduce(0, trajectory[~ends], rank[~ends] + 1, "amax")
        earned = torch.zeros(batch.trajectories, dtype=torch.float64)
        earned[items < self.length] = -self.early
        earned[items == self.length] = self.complete
        earned[items > self.length] = -self.overflow
        found = torch.where(~ends & (rank >= self.length), torch.full_like(found, -self.overflow), found)
        return torch.where(ends, earned[trajectory], found)


HITS = InfoColumn("hits", "For each item of a list whether it is relevant, 0 or 1.")


# ---------------------------------------------------------------- lists that the shipped base can write


LESSONS = 60
"""Supervised steps after which the shipped model lists three steps now and then; before, it never does."""

SKILL = 0.7
"""How often the beginner of the lessons lists a step where it belongs; else any of the sum's."""

THEN = {"steps": 40, "evaluation.n": 100}
"""Settings for training after the lessons."""


class ListedSteps(TextTask):
    """The steps of a sum of six terms as a list: pairs of terms, three of them.

    The prompt is the planner's (`hocket.agents.workflows.plans`), so the shipped base answers with a numbered list; it
    knows sums of four terms at most, and lists two steps, often wrong ones. A scenario's answer are the three.

    The paper begins with supervised tuning on lists; here lessons of a beginner do, who repeats steps and stops early.
    """

    name: str = "listed-steps"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        while True:
            terms = [int(size) for size in rng.integers(1, 100, size=6) * rng.choice((-1, 1), size=6)]
            question = question_of(expression_of([abs(terms[0]), *terms[1:]]))
            if split_of(question) == split:
                break
        steps = [expression_of(terms[start : start + 2]) for start in (0, 2, 4)]
        steps[0] = steps[0].removeprefix("-")
        prompt = ({"role": "system", "content": PLANNER_SYSTEM}, {"role": "user", "content": question})
        return Scenario(f"{self.name}/{split}/{number}", prompt, steps, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 64, "credit.length": 3}

    @property
    def lessons(self) -> Lessons:
        """The form of a list, with slips in its items and in its length."""
        taught = "lists of steps by a beginner, who repeats some and stops early or late"
        return Lessons(taught, LESSONS, self._lesson, then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        steps = [step if rng.random() < SKILL else str(rng.choice(scenario.answer)) for step in scenario.answer]
        size = int(rng.choice((2, 3, 4), p=(0.3, 0.5, 0.2)))
        text = plan_text([*steps, str(rng.choice(scenario.answer))][:size])
        return [Lesson(scenario.messages, ({"role": "assistant", "content": text},))]

    def verify(self, text: str, scenario: Scenario) -> float:
        """The list's gain over the best one's."""
        gains = discounted_gains(hits_of(text.split("\n"), scenario.answer))
        return gains[0] / discounted_gains([1.0] * len(scenario.answer))[0]

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`items`: whether there are three."""
        return {"items": float(trajectory.text.count("\n") == 2)}

    def label(self, trajectory: Trajectory) -> str | None:
        return " | ".join(map(name_of, trajectory.text.split("\n")))


def from_settings(name: str, settings: Mapping[str, str]) -> ListedSteps:
    """The task, which has no settings."""
    checked(name, settings, {})
    return ListedSteps()


LISTED_STEPS = TaskForm(
    name="listed-steps",
    description="lists: the three steps of a sum of six terms",
    make=from_settings,
)


RANK_GRPO = GRPO.but(
    name="rank-grpo",
    title="Rank-GRPO: items of a list as units",
    source="Zhu et al., Rank-GRPO: Training LLM-based Conversational Recommender Systems, arXiv:2510.20150",
    catalogue_ids=("rank-grpo",),
    axes=("credit", "objective", "reward"),
    formula="A_ik = (hit_ik - mean_i)/(std_i + eps),  L = -1/T sum_i sum_t min(s_ik A_ik, clip(s_ik) A_ik) + 0.001 k3, "
    "s_ik the geometric mean of item k's ratios",
    task="listed-steps",
    conventions={
        **GRPO.conventions,
        "epsilon": "1e-4, added to the standard deviation, as in the public code",
        "items": "a line each, the line break with the item before it (shaping.0.separator); names count without "
        "numbers, bullets, quotes and case; the released code, for films, wants 'title (year)'",
        "blank lines": "an item that hits nothing; in the released code rewards skip them and credit does not, so that "
        "it falls on the wrong item behind one",
        "reward": "the hit at each rank (exp_inf, the released runs'); credit.gain = remaining is log_decay; without "
        "the column hits the return stands at every rank",
        "shorter lists": "0 at the ranks they lack",
        "length": "credit.length, 20 in the released code, off unless the task suggests it: surplus tokens -0.1, and "
        "the end +0.1 if right and -0.1 if not",
        "surplus items": "a ratio each, as all items have; in the released code those beyond the length share one, the "
        "geometric mean over all their tokens",
        "break before the end": "ends the last item; in the released code it begins a further one, so that a complete "
        "list with a last line break counts as overlong",
        "clipping side": "0.06 below and 0.08 above, whole items, as in the released code",
        "aggregation": "mean over all decisions of the batch (the released code's, over its micro-batch)",
        "KL": "k3 to the policy before training, coefficient 0.001, as in the released code",
    },
    rewards=(ListGain(),),
    shaping=(SegmentsByText(separator="\n"),),
    credit=RankRelative(),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="token-mean"),),
    **{
        "objective.ratio": "segment",
        "objective.low": 0.06,
        "objective.high": 0.08,
        "objective.aggregate": "token-mean",
    },
)
