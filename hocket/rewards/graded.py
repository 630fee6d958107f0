"""Rewards that grade how near an answer is, where right or wrong would tell most wrong answers the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.core.columns import LABEL, TEXT, InfoColumn, info_column
from hocket.errors import ConfigurationError, nearest
from hocket.keys import Key
from hocket.rewards.members import groups_of, with_return
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import EXTRACTIONS, Extraction
from hocket.signals import returns
from hocket.stages import Reward, Shaping
from hocket.types import Batch, GroupBy, Scenario, Trajectory

ENTITIES = InfoColumn("entities", "The entities that a right answer names; also in a scenario's metadata.")

# ---------------------------------------------------------------- counts


def closeness(guess: float, truth: float, *, top: float = 1.5, cut: float = 0.5) -> float:
    """`top - gap` if `gap = |guess - truth| / |truth| < cut`, else 0; a truth of 0 has gap 0 or infinity."""
    gap = abs(guess - truth) / abs(truth) if truth else (0.0 if guess == truth else float("inf"))
    return top - gap if gap < cut else 0.0


@dataclass(frozen=True)
class Closeness(Reward):
    """The fuzzy count reward of CrowdVLM-R1 (arXiv 2504.03724), as in its released script; see `closeness`.

    The guess is the number extracted from the text, 0 is given without one. The truth is the scenario's answer, or
    what its metadata call `key`; without a truth there is no opinion.
    """

    top: float = 1.5
    cut: float = 0.5
    extract: Extraction = "answer-tag"
    key: str = "answer"
    name: str = "closeness"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.extract not in EXTRACTIONS:
            raise ConfigurationError(f"extract = {self.extract!r} is unknown{nearest(self.extract, EXTRACTIONS)}")
        if not 0 < self.cut <= self.top:
            raise ConfigurationError(f"cut must lie between 0 and top = {self.top}, not {self.cut}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(trajectory.text, trajectory.scenario) for trajectory in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        truth = number_of(known_of(scenario, self.key))
        if truth is None:
            return None
        guess = number_of(EXTRACTIONS[self.extract](text))
        return 0.0 if guess is None else closeness(guess, truth, top=self.top, cut=self.cut)


_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?", re.ASCII)


def number_of(value: Any) -> float | None:
    """A number, or the number that a whole text spells; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip() if value is not None else ""
    return float(text) if _NUMBER.fullmatch(text) else None


def known_of(scenario: Scenario, name: str) -> Any:
    """What a scenario's metadata say of `name`; for `answer`, its answer where it has one."""
    if name == "answer" and scenario.answer is not None:
        return scenario.answer
    return scenario.metadata.get(name)


# ---------------------------------------------------------------- intervals

Interval = tuple[float, float]


def interval_iou(one: Interval, other: Interval) -> float:
    """`|one and other| / |one or other|` of two intervals of a line, in [0, 1]; 1 for equal ones, even of length 0.

    An interval that ends before it begins has no points.
    """
    if one == other:
        return 1.0 if one[0] <= one[1] else 0.0
    shared = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
    lengths = [max(0.0, end - start) for start, end in (one, other)]
    union = sum(lengths) - shared
    return shared / union if union > 0 else 0.0


@dataclass(frozen=True)
class IntervalIoU(Reward):
    """The temporal reward of Temporal-R1 (arXiv 2506.01908): the IoU of the interval said and the true one.

    The interval said is the first two numbers of the extracted answer; without them the reward is 0. The true one is
    the pair of numbers that the scenario's metadata call `key`; without it there is no opinion.
    """

    extract: Extraction = "answer-tag"
    key: str = "interval"
    name: str = "iou"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.extract not in EXTRACTIONS:
            raise ConfigurationError(f"extract = {self.extract!r} is unknown{nearest(self.extract, EXTRACTIONS)}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(trajectory.text, trajectory.scenario) for trajectory in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        truth = known_of(scenario, self.key)
        if truth is None:
            return None
        said = interval_of(EXTRACTIONS[self.extract](text) or "")
        return 0.0 if said is None else interval_iou(said, (float(truth[0]), float(truth[1])))


def interval_of(text: str) -> Interval | None:
    """The first two numbers of a text; None if there are fewer."""
    found = [float(number) for number in _BOUND.findall(text)[:2]]
    return (found[0], found[1]) if len(found) == 2 else None


_BOUND = re.compile(r"(?<!\d)\d{1,15}(?:\.\d{1,15})?", re.ASCII)


# ---------------------------------------------------------------- entities


def matched_share(text: str, entities: Sequence[str]) -> float:
    """The share of `entities` whose words stand in the text, whatever their case; 0 without any entities."""
    levelled = f" {' '.join(text.lower().split())} "
    found = [re.search(rf"(?<!\w){re.escape(' '.join(one.lower().split()))}(?!\w)", levelled) for one in entities]
    return sum(match is not None for match in found) / len(entities) if entities else 0.0


@dataclass(frozen=True)
class EntityMatch(Shaping):
    """`R` of a right answer, `alpha g_i / max_j g_j` of a wrong one in the right form, 0 without an answer.

    E-GRPO (arXiv 2510.24694): g is the share of a question's known entities that stand in the text, and the maximum
    runs over the group. An answer is right if its return is at least `right`; it is in the right form if it has a
    `label`. Reads the columns `text` and `label`, and `entities` (a list of names; a column or in the scenario's
    metadata); where none are named, g is 0.

    Attributes:
        alpha: what the best wrong answer of a group gets, in [0, 1): less than a right one.
        column: where entities are looked for; `text` is the last turn's, a workflow may tell of more.
    """

    alpha: float = 0.3
    right: float = 1.0
    by: GroupBy = GroupBy("scenario")
    column: str = TEXT.name

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < self.right:
            raise ValueError(f"alpha must lie in [0, {self.right}), below a right answer's reward, not {self.alpha}")

    def __call__(self, batch: Batch) -> Batch:
        texts = info_column(batch, self.column, "EntityMatch")
        labels = LABEL.read(batch, "EntityMatch")
        entities = ENTITIES.or_metadata(batch)
        value = returns(batch).clone()
        for members in groups_of(batch, self.by):
            share = [matched_share(texts[row] or "", entities[row] or ()) for row in members]
            highest = max(share, default=0.0)
            for row, own in zip(members, share, strict=True):
                if value[row] < self.right:
                    formed = labels[row] is not None and highest > 0
                    value[row] = self.alpha * own / highest if formed else 0.0
        return with_return(batch, value)
