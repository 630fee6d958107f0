"""Errands in households as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.keys import Key
from hocket.environments.household import Households, plan
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.solitary import played
from hocket.tasks.split import split_of
from hocket.tasks.text import check_number
from hocket.types import Scenario


class HouseholdTask(EnvironmentTask):
    """Houses are drawn without end; which split a house belongs to, its own words decide.

    A scenario's metadata say `house` (the number that makes it), `errand`, and `shortest`, the moves of a best plan.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world = self.workflow.world
        assert isinstance(world, Households)
        key, tries = Key.of(0).derive("household", world.size, split, number), 0
        while split_of((house := world.house(Key.of(key.derive(tries).word >> 12))).text) != split:
            tries += 1
        told = {"house": key.derive(tries).word >> 12, "errand": house.goal.errand, "shortest": len(plan(house))}
        return Scenario(f"household/{world.size}/{split}/{number}", house.task, metadata=told, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}


SETTINGS = {"size": int, "steps": int, "dense": float, "recall": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> HouseholdTask:
    """The task with settings of the world and of how it is played."""
    return HouseholdTask(played(name, settings, Households, SETTINGS))


HOUSEHOLD = TaskForm(
    name="household",
    description="errands in a house in words, e.g. household?size=2&dense=0.1",
    make=from_settings,
)
