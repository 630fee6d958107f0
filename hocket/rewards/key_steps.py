"""Rewards for required steps of a solution, by rules on the text, whatever the answer."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.markup import whole
from hocket.core.signals import returns
from hocket.rewards.members import with_return
from hocket.stages import Shaping


def reasoning_of(text: str) -> str:
    """What stands before the last `<answer>`; the whole text without one."""
    before, opened, _ = text.rpartition("<answer>")
    return before if opened else text


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
        text = whole(text)
        hits = [list(re.finditer(stage, text, re.IGNORECASE)) for stage in self.stages]
        if not all(hits):
            return False
        first = [matches[0].start() for matches in hits]
        last = max((matches[-1].start() for matches in hits[:-1]), default=-1)
        return all(left < right for left, right in itertools.pairwise(first)) and last < first[-1]
