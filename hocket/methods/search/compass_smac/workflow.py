"""Plays a world whose seats choose skills, with a library of them that texts can replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.reading import LastLine, MoveParser
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.methods.search.compass_smac.world import Battle, Battles, drills, program_in
from hocket.types import Scenario
from hocket.zoo.joint.skirmish import Skirmish


@dataclass(frozen=True)
class SkillOrProgram(LastLine):
    """The name of a skill on the last line, or a whole program."""

    @property
    def instruction(self) -> str:
        return "Say the name of a skill on the last line, or write one: def NAME(view), with a docstring."

    def __call__(self, reply: str, actions: Sequence[str] | None) -> str | None:
        return reply if program_in(reply) is not None else super().__call__(reply, actions)


@dataclass(frozen=True)
class Skilled(PlayEnvironment):
    """An environment's episode as `PlayEnvironment`; `skills` stand in the place of the world's own, by name.

    Its answer in words is the battle's account.
    """

    skills: Mapping[str, str] | None = None

    @property
    def library(self) -> Mapping[str, str]:
        """The skills that an episode begins with."""
        return self._world.skills if self.skills is None else self.skills

    @property
    def drills(self) -> Sequence[str]:
        """What a new skill must pass."""
        return _drills(self._world.ground)

    @property
    def calls(self) -> int:
        """Answers in an episode, about: in most, something new ends a choice before its steps are over."""
        ground = self._world.ground
        return ground.count * max(1, ground.length // (2 * self._world.hold))

    def reading_of(self, observation: Observation) -> MoveParser:
        return self.reading or SkillOrProgram()

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        battle = replace(self._world, skills=self.library).make(scenario)
        outcome = await PlayEnvironment.play(replace(self, world=_Begun(battle), skills=None), scenario, team)
        return None if outcome is None else replace(outcome, answer=battle.account)

    @property
    def _world(self) -> Battles:
        return cast(Battles, self.world)


@dataclass(frozen=True, eq=False)
class _Begun:
    """A world whose one environment is there already, so that it can be asked afterwards how it came out."""

    battle: Battle

    @property
    def name(self) -> str:
        return self.battle.world.name

    @property
    def agents(self) -> tuple[str, ...]:
        return self.battle.agents

    def make(self, scenario: Scenario) -> Battle:
        return self.battle


@cache
def _drills(ground: Skirmish) -> tuple[str, ...]:
    return tuple(drills(ground))
