"""Skirmishes of soldiers that choose skills, or write them, in words: task `battle:3v3`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked
from hocket.methods.search.compass_smac.battle_skills import CHARGE, SKILLS
from hocket.methods.search.compass_smac.lessons import LOST, PROPOSE, TALKS, lessons_of_squad
from hocket.methods.search.compass_smac.skills import Sandboxed
from hocket.methods.search.compass_smac.workflow import Skilled
from hocket.methods.search.compass_smac.world import Battle, Battles
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, Reflecting, any_move, episode
from hocket.zoo.joint.skirmish import Skirmish
from hocket.zoo.tasks.skirmish import GROUND, SkirmishTask

SPREAD_OUT: Mapping[str, int] = {"size": 13, "spread": 5, "radio": 5, "health": 4, "strength": 3, "length": 60}
"""Soldiers so far from each other that none sees another, each within the radio of its neighbours alone.

Who hunts what it was told of wins more often here than who waits for foes where it stands.
"""

AUTHORS: Mapping[str, Mapping[str, Any]] = {"compass-smac": {"propose": PROPOSE, "batch": LOST, "retries": 0}}
"""Searchers whose reflecting model can be taught, in few words, with the settings that suit it."""

DOUBT = 0.1
"""How often a beginner takes any skill."""


@dataclass(frozen=True)
class BattleTask(SkirmishTask):
    """Those of soldiers who choose skills. `searcher` says whose reflecting model is taught besides."""

    searcher: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.searcher and (self.searcher not in AUTHORS or not self._world.brief):
            raise ConfigurationError(
                f"task {super().name}: searcher = {self.searcher!r}: taught are, with brief=true, {', '.join(AUTHORS)}"
            )

    @property
    def name(self) -> str:
        return f"{super().name}&searcher={self.searcher}" if self.searcher else super().name

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {
            **super().suggest(recipe),
            "decoding.max_tokens": 12 if "hunt" in self._world.skills or self._world.brief else 160,
        }

    @property
    def _world(self) -> Battles:
        assert isinstance(self.workflow.world, Battles)
        return self.workflow.world

    @property
    def lessons(self) -> Lessons:
        """In few words those of `hocket.methods.search.compass_smac.lessons`.

        Else a beginner who hunts when it knows of a foe and holds when it does not, and now and then does anything;
        where it has no `hunt` it writes a skill of its own, once.
        """
        if self._world.brief:
            return self._brief_lessons
        return Lessons(
            "to hunt when a foe is known (by a skill it writes where there is none) and to hold else, with doubts",
            60,
            lambda scenario, rng: episode(self.workflow, scenario, beginner, rng),
            talks=8,
            then=lambda recipe: {"steps": 20, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 40},
        )

    @property
    def _brief_lessons(self) -> Lessons:
        named = super().name
        besides = ", and to write a skill that a lost squad lacks" if self.searcher else ""
        return Lessons(
            f"to go for a known foe where a skill does, and to fall back or join an ally while none is known{besides}",
            600 if self.searcher else 300,
            lambda scenario, rng: lessons_of_squad(self._world, scenario, rng, bool(self.searcher)),
            talks=TALKS,
            prompts=16,
            schedule="cosine",
            then=lambda recipe: {"steps": 20, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 40},
            searchers={name: Reflecting(f"{named}&searcher={name}", told) for name, told in AUTHORS.items()},
        )


def beginner(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """The choice of a beginner."""
    assert isinstance(environment, Battle)
    if rng.random() < DOUBT:
        return any_move(environment, seat, rng)
    if not environment.view(seat)["foes"]:
        return "hold"
    return next((name for name in ("hunt", "charge") if name in environment.skills), CHARGE)


def ground_of(soldiers: int, foes: int, settings: Mapping[str, int]) -> Skirmish:
    """The ground with these settings of `Skirmish`; else `SPREAD_OUT`, larger where the line is longer, and 2 hops."""
    rows = (soldiers - 1) * settings.get("spread", SPREAD_OUT["spread"]) + 1
    size = max(SPREAD_OUT["size"], rows + 2)
    return Skirmish(soldiers, foes, **{"hops": 2, **SPREAD_OUT, "size": size, **settings})


def from_name(name: str, settings: Mapping[str, str]) -> BattleTask:
    """The task with settings of the ground, how long a choice holds, and with which skills (`skills=hold+hunt`).

    Raises:
        ConfigurationError: for settings that are unknown or wrong.
    """
    found = re.fullmatch(r"battle:(\d+)v(\d+)", name)
    if found is None:
        raise ConfigurationError(f"there is no task {name!r}; write battle:3v3, soldiers and foes")
    given: dict[str, Any] = checked(
        name,
        settings,
        {**dict.fromkeys(GROUND, int), "hold": int, "writing": bool, "brief": bool, "skills": str, "searcher": str},
    )
    searcher = given.pop("searcher", "")
    named = given.pop("skills", "+".join(SKILLS)).split("+")
    strange = next((one for one in named if one not in SKILLS), None)
    if strange is not None:
        raise ConfigurationError(f"task {name}: there is no skill {strange!r}{nearest(strange, SKILLS)}")
    ground = {key: given.pop(key) for key in GROUND if key in given}
    world = Battles(
        ground_of(int(found[1]), int(found[2]), ground), Sandboxed(), {one: SKILLS[one] for one in named}, **given
    )
    return BattleTask(Skilled(world, memory=False, instruct=False, turns=world.limit), searcher=searcher)


BATTLE = TaskForm(
    name="battle:WORLD",
    description="soldiers who choose skills, or write them, against scripted foes, e.g. battle:3v3?hops=2",
    make=from_name,
)
