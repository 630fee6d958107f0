"""The scenarios of a step, as the rollout requests them from the curriculum."""

from __future__ import annotations

from hocket.core.occurrences import OccurrenceIds
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.train.run_parts import RunParts
from hocket.types import Assignment, Scenario

FURTHER = 2**16
"""How many further scenarios the rollout of a separately collected group may draw."""


class ScenarioDraws:
    """Draws the scenarios of a step. Every draw advances `parts.asked` and the curriculum's memory.

    A scenario that is drawn several times in a step counts as a different scenario each time
    (`hocket.core.occurrences`).

    Args:
        group: draws for this group alone, whose scenario is number `parts.asked` of the run. Further scenarios of its
            rollout have numbers in a range of that group, far from all others.
    """

    def __init__(self, parts: RunParts, step: int, group: int | None = None) -> None:
        self._parts, self._step, self._group = parts, step, group
        self._curriculum = parts.lead.recipe.curriculum
        self._occurrences = OccurrenceIds()
        self._place = 0 if group is None else group % self._curriculum.prompts
        self._before = 0 if group is None else self._drawn_by_other_groups()

    def first(self) -> list[Assignment]:
        """The assignments that the step, or the group, begins with."""
        if self._group is None:
            return self.more(self._curriculum.prompts)
        assignments = self.more(1)
        self._parts.asked = FURTHER * (FURTHER + self._group)
        # Above all numbers of the first assignments.
        self._before = 2 * self._curriculum.prompts + FURTHER * self._place
        return assignments

    def more(self, count: int) -> list[Assignment]:
        """The next `count` assignments."""
        scenarios = [self._occurrences.of(scenario, self._before) for scenario in self._scenarios(count)]
        plain = [Assignment(scenario, decoding=self._parts.decoding) for scenario in scenarios]
        return [self._parts.hooks.assign(self._parts, assignment, self._step) for assignment in plain]

    def _scenarios(self, count: int) -> list[Scenario]:
        parts, lead = self._parts, self._parts.lead
        arguments = parts.task, parts.asked, count, parts.ledger, parts.key.derive("curriculum")
        if isinstance(self._curriculum, RememberingCurriculum):
            scenarios, memory = self._curriculum.ask_with(lead.memory["curriculum"], *arguments)
            lead.memory = {**lead.memory, "curriculum": memory}
        else:
            scenarios = self._curriculum(*arguments)
        parts.asked += count
        return scenarios

    def _drawn_by_other_groups(self) -> int:
        """How often other groups may have drawn this group's scenario earlier in the same step."""
        parts, first = self._parts, self._parts.asked - self._place
        passes = self._curriculum.again(parts.task, first, parts.asked)
        if not isinstance(self._curriculum, Shuffled):
            return passes
        # Several numbers of a task may refer to the same scenario, as in a mixture of files or in a user's task.
        drawn = self._curriculum(parts.task, first, self._place + 1, parts.ledger, parts.key.derive("curriculum"))
        *earlier, last = (scenario.id for scenario in drawn)
        return passes + earlier.count(last)
