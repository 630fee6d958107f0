"""Affordance-R1: GRPO on boxes, points and names of parts, matched to the true ones (Wang et al., arXiv:2508.06206).

After the authors' code. An answer earns up to ten points: four for its form, three for its parts, and one each for the
name of the affordance, for the number of parts, and for not repeating sentences.

Chosen here: names are compared by letters, where the authors compare word vectors, and all of them must be near enough;
an answer that is not a list of objects earns nothing for their fields.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hocket.core.keys import Key
from hocket.core.markup import edit_distance, whole
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.methods.group_relative.affordance_r1.parts import Part, items_in, listed_objects, parts_of
from hocket.objectives.divergence import KLToReference
from hocket.rewards.opinions import Opinions
from hocket.rewards.regions import Box, distance, matched
from hocket.stages import Reward
from hocket.types import Trajectory

_FORM = re.compile(r"<think>.*?</think>\s*<rethink>.*?</rethink>\s*<answer>.*?</answer>", re.DOTALL)


def pixel_overlap(item: Box, other: Box) -> float:
    """Intersection over union of boxes whose edges are pixels of theirs, in [0, 1]; 0 of a box turned round."""
    (a, b, c, d), (e, f, g, h) = item, other
    common = max(0.0, min(c, g) - max(a, e) + 1) * max(0.0, min(d, h) - max(b, f) + 1)
    union = (c - a + 1) * (d - b + 1) + (g - e + 1) * (h - f + 1) - common
    return common / union if union > 0 else 0.0


@dataclass(frozen=True)
class PartReward(Reward):
    """A reward of an answer's text and the parts of the scenario's answer, which is JSON; else no opinion."""

    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(item.text, item.scenario.answer) for item in trajectories)

    def grade(self, text: str, answer: Any) -> float | None:
        """The reward of one text."""
        due = parts_of(listed_objects(str(answer)))
        return None if due is None else self.score(whole(text).strip(), due)

    @abstractmethod
    def score(self, text: str, due: Sequence[Part]) -> float:
        """The reward of a text whose thought is opened, for the true parts."""


@dataclass(frozen=True)
class Form(PartReward):
    """1 for a thought, a second one and an answer in tags, and the mean over objects of their fields of the right form.

    These are a box of four, a point of two, and an affordance: up to 4 in all.
    """

    name: str = "form"

    def score(self, text: str, due: Sequence[Part]) -> float:
        items = items_in(text) or []
        fields = sum(map(formed_fields, items)) / len(items) if items else 0.0
        return float(_FORM.fullmatch(text) is not None) + fields


def formed_fields(item: Mapping[str, Any]) -> int:
    """How many of box, point and affordance an object has."""
    lists = (("bbox_2d", 4), ("point_2d", 2))
    formed = sum(isinstance(item.get(name), list) and len(item[name]) == count for name, count in lists)
    return formed + ("affordance" in item)


@dataclass(frozen=True)
class Perception(PartReward):
    """`max over one-to-one matchings of sum_ij s_ij / max(parts predicted, parts true)`, with `s_ij` from 0 to 3.

    One point each: boxes overlap by more than `overlap`; their edges are off by less than `edges`, on average; points
    are nearer than `radius`, and the predicted one lies in its box. 0 if an object lacks box or point.

    Attributes:
        overlap: see `pixel_overlap`. edges, radius: in units of the answers. most: parts read of either.
    """

    overlap: float = 0.65
    edges: float = 10.0
    radius: float = 30.0
    most: int = 120
    name: str = "perception"

    def score(self, text: str, due: Sequence[Part]) -> float:
        parts = (parts_of(items_in(text)) or [])[: self.most]
        due = due[: self.most]
        return matched(parts, due, self.nearness) / max(len(parts), len(due))

    def nearness(self, item: Part, other: Part) -> float:
        """How many of the three hold of a predicted and a true part."""
        (a, b, c, d), (x, y) = item.box, item.point
        edges = float(np.abs(np.subtract(item.box, other.box)).mean())
        pointed = distance(item.point, other.point) < self.radius and a <= x <= c and b <= y <= d
        return float(pixel_overlap(item.box, other.box) > self.overlap) + float(edges < self.edges) + float(pointed)


@dataclass(frozen=True)
class AffordanceName(PartReward):
    """1 where every predicted affordance is alike enough to the first true one.

    Attributes:
        above: what `1 - edit distance / longer length` must exceed.
    """

    above: float = 0.8
    name: str = "affordance"

    def score(self, text: str, due: Sequence[Part]) -> float:
        names = [str(item.get("affordance", "")) for item in items_in(text) or []]
        return float(bool(names) and all(likeness(name, due[0].affordance) > self.above for name in names))


def likeness(left: str, right: str) -> float:
    """`1 - edit distance / longer length` of two words, whatever their case; 0 of an empty one."""
    left, right = left.strip().lower(), right.strip().lower()
    return 1 - edit_distance(left, right) / max(len(left), len(right)) if left and right else 0.0


@dataclass(frozen=True)
class PartCount(PartReward):
    """1 for the right number of objects."""

    name: str = "count"

    def score(self, text: str, due: Sequence[Part]) -> float:
        return float(len(items_in(text) or []) == len(due))


@dataclass(frozen=True)
class NoRepetition(PartReward):
    """1 unless sentences, which end at a full stop, repeat earlier ones twice or more."""

    name: str = "no_repetition"

    def score(self, text: str, due: Sequence[Part]) -> float:
        sentences = [sentence.strip() for sentence in text.split(".") if sentence.strip()]
        return float(len(sentences) - len(set(sentences)) < 2)


AFFORDANCE_R1 = GRPO_KL.but(
    name="affordance-r1",
    title="Affordance-R1: GRPO on matched boxes, points and names of parts",
    source="Wang et al., Affordance-R1, arXiv:2508.06206, and the authors' code",
    catalogue_ids=("affordance-r1",),
    axes=("reward", "policy", "environment"),
    task="affordances",
    formula="R = [tags] + mean of fields formed (0..3) + max_match sum s_ij / max(M, N) + [names] + [M = N] + "
    "[no sentence repeated];  s = [IoU > .65] + [L1 < 10] + [point < 30, in its box];  GRPO, KL k3 0.005",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.005",
        "thresholds": "rewards.1.overlap, .edges, .radius, in units of the answers; the authors' have 840 x 840",
        "names": "one minus the edit distance over the longer word, above 0.8; the authors take word vectors",
        "matching": "Hungarian method of scipy, at most 120 parts",
        "warm start": "`--lessons N`; the paper's model has seen boxes in pretraining",
    },
    note="shown on handwriting, whose rings and tips stand in for handles and blades of photographed things; 16 steps "
    "after lessons found few more parts, and the overlap alone as reward more",
    rewards=(Form(), Perception(), AffordanceName(), PartCount(), NoRepetition()),
    regularisers=(KLToReference("k3", coefficient=0.005, aggregate="sequence-mean"),),
)
