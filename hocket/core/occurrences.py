"""One scenario asked several times in a step: each occurrence is a group of its own, with draws of its own.

Draws, groups, journals and records go by a scenario's id. So every later occurrence in a step has a mark in its id,
which names nothing else, and what remembers scenarios from step to step goes by the id without it (`unmarked`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from hocket.types import Scenario

_MARK = re.compile(r" \(asked again: \d+\)")


def unmarked(scenario: str) -> str:
    """A scenario's id, whichever of its occurrences it names; what was made from an occurrence is unmarked too."""
    return _MARK.sub("", scenario) if "(" in scenario else scenario


class Occurrences:
    """Gives the scenarios of a step, as they are asked, ids that no two of them share."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken, self._next = set(taken), dict[str, int]()

    def of(self, scenario: Scenario, least: int = 0) -> Scenario:
        """The scenario itself where it is the first of its id, else the same with a mark.

        Args:
            least: how often it may have been asked before, unseen here.
        """
        own, number = scenario.id, least
        if number or own in self._taken:
            plain = unmarked(own)
            number = max(number, self._next.get(plain, 1))
            while (own := f"{plain} (asked again: {number})") in self._taken:
                number += 1
            self._next[plain] = number + 1
        self._taken.add(own)
        return scenario if own == scenario.id else replace(scenario, id=own)


def apart(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Scenarios that are played together, in order, each as its own occurrence."""
    seen = Occurrences()
    return [seen.of(one) for one in scenarios]
