"""What each message was worth, as a target to learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.method_columns import MESSAGE_VALUES
from hocket.credit.pairs import members_by_group
from hocket.credit.sibling_turns import tree_of, turns_of
from hocket.segments import segment_extreme
from hocket.signals import returns, turn_visits
from hocket.stages import Credit
from hocket.types import Batch, GroupBy, Occurrences


@dataclass(frozen=True)
class MessageValues(Credit):
    """Targets for a value read at the end of each message: the mean return through it, in [-1, 1].

    MASPRM (arXiv 2510.24803). The target of a message stands at its last decision, before which all of it but its last
    token is known (the end of turn, where it ended by itself). Only these decisions keep a weight, and a message that
    several episodes share keeps it in the first alone, so that each counts once. The mean is the one that
    `hocket.rollout.MessageSearch` wrote (`info["message_values"]`); without it that of `2 R - 1` over the group's
    episodes through the message, R their returns, kept in [0, 1].

    The advantage is what the message changed: its value minus that of what was said before, of the first message minus
    the scenario's mean.
    """

    by: GroupBy = GroupBy("scenario")

    gives_targets: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `target` and advantages `[E]` float64, and weights."""
        seen = batch.occurrences
        visit, starts = turn_visits(batch)
        size = int(starts.sum())
        turn, owner = batch.turn[seen.decision[starts]], seen.trajectory[starts]
        value, gain = self._values(batch)
        last = segment_extreme(torch.arange(len(seen)), visit, size, largest=True)
        first = torch.full((batch.turns,), size, dtype=torch.long).scatter_reduce(
            0, turn, torch.arange(size), "amin", include_self=True
        )
        mine = torch.zeros(len(seen), dtype=torch.bool)
        mine[last[first[turn] == torch.arange(size)]] = True
        weight = torch.where(mine, seen.weight, torch.zeros_like(seen.weight))
        places = list(zip(owner.tolist(), turn.tolist(), strict=True))
        target = torch.tensor([value.get(place, 0.0) for place in places], dtype=torch.float64)
        change = torch.tensor([gain.get(place, 0.0) for place in places], dtype=torch.float64)
        return replace(seen, target=target[visit], advantage=torch.where(mine, change[visit], 0.0), weight=weight)

    def _values(self, batch: Batch) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
        """By trajectory and turn, what the message is worth, and what it changed."""
        turns = turns_of(batch)
        told = MESSAGE_VALUES.rows(batch)
        outcome = (2 * returns(batch).clamp(0.0, 1.0) - 1).tolist()
        value: dict[tuple[int, int], float] = {}
        gain: dict[tuple[int, int], float] = {}
        for members in members_by_group(batch, self.by):
            start = sum(outcome[one] for one in members) / len(members)
            if all(told[one] is None for one in members):
                for node in tree_of(members, turns).below():
                    value.update({(leaf, node.turn): node.value(outcome) for leaf in node.leaves})
            else:
                for one in members:
                    value.update({(one, turn): float(y) for turn, y in zip(turns[one], told[one] or (), strict=False)})
            for one in members:
                before = start
                for turn in turns[one]:
                    here = value.get((one, turn), before)
                    gain[one, turn], before = here - before, here
        return value, gain
