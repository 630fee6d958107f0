"""Rewards for the steps that a solution needs, whatever the answer: rules on the text alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hocket.core.columns import LABEL, TEXT, InfoColumn
from hocket.rewards.diversity import words_of
from hocket.rewards.members import with_return
from hocket.signals import returns
from hocket.stages import Shaping
from hocket.types import Batch

KEY_STEPS = InfoColumn("key_steps", "The steps that a solution must contain; also in a scenario's metadata.")

KeyStep = str | Sequence[str]
"""A phrase that a solution must contain, or several that mean the same."""


def reasoning_of(text: str) -> str:
    """What stands before the last `<answer>`; the whole text without one."""
    before, opened, _ = text.rpartition("<answer>")
    return before if opened else text


def _synonyms(step: KeyStep) -> tuple[str, ...]:
    return (step,) if isinstance(step, str) else tuple(step)


def _phrase(synonym: str) -> str:
    """A pattern for a phrase that begins and ends where words do, white space levelled."""
    return rf"(?<!\w){re.escape(' '.join(synonym.lower().split()))}(?!\w)"


def match_ratio(text: str, steps: Sequence[KeyStep]) -> float:
    """The share k of key steps of which some synonym stands in the reasoning; 0 without any steps.

    Steps count in any order and once each.
    """
    levelled = " ".join(reasoning_of(text).lower().split())
    found = [any(re.search(_phrase(synonym), levelled) for synonym in _synonyms(step)) for step in steps]
    return sum(found) / len(steps) if steps else 0.0


def keyword_density(text: str, steps: Sequence[KeyStep]) -> float:
    """The share of the reasoning's words that belong to phrases of key steps: near 1 for a text stuffed with them."""
    levelled = " ".join(reasoning_of(text).lower().split())
    phrases = sorted({synonym for step in steps for synonym in _synonyms(step)}, key=len, reverse=True)
    if not phrases or not words_of(levelled):
        return 0.0
    rest = re.sub("|".join(map(_phrase, phrases)), " ", levelled)
    return 1 - len(words_of(rest)) / len(words_of(levelled))


@dataclass(frozen=True)
class KeySteps(Shaping):
    """`R + alpha k` of a text with an answer, 0 of one without: the step-wise accuracy reward of R1-VL (2503.12937).

    k is the share of the question's key steps that the reasoning contains (`match_ratio`). Reads the columns `text`,
    `label` (None without an answer), and `key_steps` (a list of phrases or of lists of synonyms; a column or in the
    scenario's metadata); where no steps are named the reward stays. A text of nothing but key words has k = 1 too:
    `most_density` withholds the term from texts whose `keyword_density` is above it.

    Attributes:
        alpha: 0.1 in the released code. most_density: 1 withholds nothing, as in the paper.
    """

    alpha: float = 0.1
    most_density: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        if self.alpha == 0:
            return batch
        texts = TEXT.read(batch, "KeySteps")
        labels = LABEL.read(batch, "KeySteps")
        value = returns(batch).clone()
        for row, steps in enumerate(KEY_STEPS.or_metadata(batch)):
            if steps:
                answered = labels[row] is not None
                value[row] = value[row] + self.alpha * self.ratio(texts[row] or "", steps) if answered else 0.0
        return with_return(batch, value)

    def ratio(self, text: str, steps: Sequence[KeyStep]) -> float:
        """k, or 0 for a stuffed text."""
        return 0.0 if keyword_density(text, steps) > self.most_density else match_ratio(text, steps)


@dataclass(frozen=True)
class OrderedStages(Shaping):
    """`R += weight` for a text that has all required stages in their order: R1-VL's step-wise validity reward.

    The default is the format that many recipes ask for: a thought in tags, then an answer in tags.

    Attributes:
        stages: regular expressions; the first match of each must come after that of the one before, and nothing of
            an earlier stage may follow the last stage.
        weight: of the term; 0 leaves the batch untouched.
    """

    stages: tuple[str, ...] = ("<think>", "</think>", "<answer>", "</answer>")
    weight: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        if self.weight == 0:
            return batch
        texts = TEXT.read(batch, "OrderedStages")
        valid = [float(self.holds(text or "")) for text in texts]
        return with_return(batch, returns(batch) + self.weight * torch.tensor(valid, dtype=torch.float64))

    def holds(self, text: str) -> bool:
        """Whether every stage is there and in its place."""
        found = [list(re.finditer(stage, text, re.IGNORECASE)) for stage in self.stages]
        if not all(found):
            return False
        first = [matches[0].start() for matches in found]
        last = max((matches[-1].start() for matches in found[:-1]), default=-1)
        return all(one < other for one, other in itertools.pairwise(first)) and last < first[-1]
