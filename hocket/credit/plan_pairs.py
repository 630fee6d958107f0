"""Pairs of plans: the one that is worth most against the one that is worth least."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum

import torch

from hocket.credit.pairs import Pairing, members_by_group, paired
from hocket.credit.sibling_turns import tree_of, turns_of
from hocket.signals import returns
from hocket.types import Batch, Occurrences

ROUNDING = 1e-12
"""Means of equal rewards in another order may differ by so much of their size; that is a tie."""


@dataclass(frozen=True)
class PlanPairs(Pairing):
    """The first turn whose episodes earn most against the one whose episodes earn least: MPO (arXiv 2503.02682).

    A plan is the first turn of a trajectory, worth `Q(m) = (1/N) sum_n R_n`, the mean return of the trajectories that
    begin with it. Each group gives one pair, argmax and argmin of Q, the first among equals; none where they differ by
    `margin` or less, so also where all are worth the same. `pairs` name the first trajectory of each plan, which
    alone keep a weight, and `compared` the plans: `DPO` looks at their decisions and at no others, so whoever carries
    plans out learns nothing.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        value, turns = returns(batch).tolist(), turns_of(batch)
        found = []
        for members in members_by_group(batch, self.by):
            plans = list(tree_of(members, turns).children.values())
            quality = [fsum(value[one] for one in plan.leaves) / len(plan.leaves) for plan in plans]
            best, worst = quality.index(max(quality)), quality.index(min(quality))
            if quality[best] - quality[worst] > self.margin + ROUNDING * max(map(abs, quality)):
                found.append((plans[best], plans[worst]))
        # Whoever carries plans out keeps its weights, and with them its entropy in the metrics.
        seen = paired(batch, [(best.leaves[0], worst.leaves[0]) for best, worst in found])
        compared = torch.tensor([(best.turn, worst.turn) for best, worst in found], dtype=torch.long).reshape(-1, 2)
        return replace(seen, compared=compared)
