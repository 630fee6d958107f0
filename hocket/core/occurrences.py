"""Scenarios that are drawn several times in a step: each occurrence is a separate group with its own random draws.

Random draws, groups, journals and records are keyed by the scenario's id. So each repeated occurrence in a step gets a
mark in its id. Memory across steps is keyed by the id without the mark (`unmarked`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from hocket.types import Scenario

_MARK = re.compile(r" \(asked again: \d+\)")


def unmarked(scenario: str) -> str:
    """A scenario's id without the mark of an occurrence; also for ids that were derived from a marked one."""
    return _MARK.sub("", scenario) if "(" in scenario else scenario


class OccurrenceIds:
    """Gives the scenarios of a step unique ids, in the order in which they are drawn."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken, self._next = set(taken), dict[str, int]()

    def of(self, scenario: Scenario, least: int = 0) -> Scenario:
        """The scenario itself if its id is new, else a copy with a mark in its id.

        Args:
            least: how often it may have been drawn before by others.
        """
        name, number = scenario.id, least
        if number or name in self._taken:
            plain = unmarked(name)
            number = max(number, self._next.get(plain, 1))
            while (name := f"{plain} (asked again: {number})") in self._taken:
                number += 1
            self._next[plain] = number + 1
        self._taken.add(name)
        return scenario if name == scenario.id else replace(scenario, id=name)


def apart(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Scenarios that are played together, in order, with unique ids."""
    occurrences = OccurrenceIds()
    return [occurrences.of(scenario) for scenario in scenarios]
