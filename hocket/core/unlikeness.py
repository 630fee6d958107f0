"""How different the answers to one scenario are, for stages that ask: a number per sample, of which the ledger knows.

A sample's is `1 - BLEU(sample | the others)` over its decisions, so that a group's mean is 1 minus its self-BLEU
(Zhu et al. 2018, arXiv:1802.01886).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from hocket.core.columns import InfoColumn
from hocket.types import Trajectory

UNLIKENESS = InfoColumn(
    "unlikeness", "How little the sample's decisions are like those of the others of its group, in [0, 1]."
)

ORDERS = 3
"""N-grams of 1 to so many decisions count, all alike."""

UNMATCHED = 0.1
"""What counts as matched where some decisions are and no n-gram of an order is (method 1 of Chen and Cherry 2014)."""


def bleu(said: Sequence[Hashable], others: Sequence[Sequence[Hashable]]) -> float:
    """Sentence BLEU of a sequence against several, in [0, 1]: the geometric mean of clipped precisions, and brevity.

    Orders longer than the sequence are left out, so one that some other equals has 1. One without any decision of the
    others' has 0, and an empty one is like empty ones alone.
    """
    if not said:
        return float(any(not other for other in others))
    total, orders = 0.0, min(ORDERS, len(said))
    for order in range(1, orders + 1):
        known = Counter[tuple[Hashable, ...]]()
        for other in others:
            known |= _grams(other, order)
        found = _grams(said, order)
        matched = (found & known).total()
        if order == 1 and not matched:
            return 0.0
        total += math.log(matched or UNMATCHED) - math.log(found.total())
    nearest = min((len(other) for other in others), key=lambda length: (abs(length - len(said)), length))
    return math.exp(total / orders + min(0.0, 1 - nearest / len(said)))


def _grams(said: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(tuple(said[at : at + order]) for at in range(len(said) - order + 1))


def unlikenesses(group: Sequence[Trajectory]) -> list[float | None]:
    """That of each sample of a scenario, None of one alone."""
    said = [[decision.tobytes() for turn in one.turns for decision in turn.action] for one in group]
    if len(said) < 2:
        return [None] * len(said)
    return [1 - bleu(own, said[:place] + said[place + 1 :]) for place, own in enumerate(said)]


def note_unlikeness(trajectories: Sequence[Trajectory]) -> None:
    """Writes the column, each scenario's samples being a group."""
    groups: dict[str, list[Trajectory]] = {}
    for one in trajectories:
        groups.setdefault(one.scenario.id, []).append(one)
    for group in groups.values():
        for one, found in zip(group, unlikenesses(group), strict=True):
            UNLIKENESS.write(one, found)
