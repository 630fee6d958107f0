"""Squads of scripted planners in skirmishes, many side by side: whom a fact reaches, and what a library is worth."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from hocket.agents.search.searcher import CaseResult
from hocket.agents.tools.recall import called_up
from hocket.core.keys import Key
from hocket.core.texts import Block, Recall, Texts, about, problem
from hocket.methods.search.compass_smac.skills import Sandboxed
from hocket.methods.search.compass_smac.task import ground_of
from hocket.methods.search.compass_smac.world import Battle, Battles, Programs, View, carry_out, drills
from hocket.types import Scenario

Planner = Callable[[View, Mapping[str, str]], str]
"""What a soldier chooses: from its view and the skills, a name or a program."""


def fitting(view: View, skills: Mapping[str, str]) -> str:
    """The skill whose description fits the situation best, by BM25; without any, the first."""
    return _fitting(bool(view["foes"]), tuple(skills.items()))


@cache
def _fitting(known: bool, skills: tuple[tuple[str, str], ...]) -> str:
    situation = "attack the foe, or go to the nearest that is known" if known else "stay"
    place = called_up(Recall(1), situation, [f"{name}: {about(program)}" for name, program in skills])[0]
    return skills[place][0]


def fought(world: Battles, seeds: Sequence[int], planner: Planner = fitting) -> list[Battle]:
    """Battles to their end, side by side; battle n begins as seed n says."""
    battles = []
    for seed in seeds:
        battle = world.make(Scenario(f"battle/{seed}"))
        battle.reset(Key.of(seed))
        battles.append(battle)
    while left := [battle for battle in battles if battle.acting]:
        carry_out(left, [{one: planner(b.view(one), b.skills) for one in b.acting} for b in left])
    return battles


@dataclass(frozen=True)
class Squads:
    """A target whose planners are a rule: what a searcher of skills works with. An episode costs a call per soldier."""

    world: Battles
    planner: Planner = fitting
    blocks: Sequence[Block] = ()

    @property
    def roles(self) -> Sequence[str]:
        return self.world.agents

    @property
    def skills(self) -> Mapping[str, str]:
        return self.world.skills

    @property
    def drills(self) -> Sequence[str]:
        return drills(self.world.ground)

    def calls(self, texts: Texts) -> int:
        return len(self.roles)

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        world = self.world if texts.skills is None else replace(self.world, skills=texts.skills)
        found: list[CaseResult] = []
        for case, battle in zip(cases, fought(world, cases, self.planner), strict=True):
            said = f"{'won' if battle.won else 'lost'} after {battle.steps} steps"
            one = CaseResult(case, 0, float(battle.won), len(self.roles), f"battle {case}", "", said)
            found += itertools.repeat(one, samples)
        return found

    def refuses(self, texts: Texts) -> str | None:
        return problem(texts, self.roles, {})


def battles(programs: Programs | None = None, skills: Mapping[str, str] | None = None, **settings: int) -> Battles:
    """Battles on the ground of the task `battle:3v3`, with settings of its name."""
    world = Battles(ground_of(settings.pop("count", 3), settings.pop("foes", 3), settings), programs or Sandboxed())
    return world if skills is None else replace(world, skills=skills)
