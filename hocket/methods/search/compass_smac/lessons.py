"""What a squad is taught in few words: soldiers to choose a skill by what they know, an author to write one.

Skills are drawn: of four kinds, under several names and in several versions, so that a soldier has to look what its
library holds, and an author, who is shown a library and battles that were lost with it, what it lacks. The script's
soldier goes for a foe that it knows of where some skill does, holds where none does, and while it knows of none falls
back, joins an ally or holds; now and then it does anything. The script's author names the kind of skill that is
lacking, one for foes that are known first, and writes a version of it, another with each number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import numpy as np

from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.methods.search.compass_smac.battle_skills import GATHER, HOLD, HUNT, RETREAT
from hocket.methods.search.compass_smac.world import Battle, Battles, View, carry_out
from hocket.tasks.lessons import Lesson
from hocket.types import Message, Scenario

PROPOSE = "{library}\n{episodes}\nSkill {number}:"
"""A searcher's question to the author, short enough for a small model."""

EPISODE = "Question: \nAnswer: {account}"
"""A battle as searchers show it."""

FOES, ALLIES, WEST, AWAY = "Go to a foe.", "Join an ally.", "Fall back.", "Look about."
"""What would have helped, in the author's words: the kinds of skills."""

GO = """def {name}(view):
    "attack the {which} foe, or go there"
    foes = {foes}
    return (foes[0]["hit"] or foes[0]["go"]) if foes else "stay"
"""
JOIN = """def {name}(view):
    "go to the {which} ally"
    allies = {allies}
    return allies[0]["go"] if allies else "stay"
"""
WALK = """def {name}(view):
    "go to the {way}"
    return "{way}" if "{way}" in view["legal"] else "stay"
"""

ORDERS = {
    "nearest": 'view["{units}"]',
    "farthest": 'view["{units}"][::-1]',
    "weakest": 'sorted(view["{units}"], key=lambda one: one["health"])',
}
"""Those that one may go to, in the order in which one does."""

VERSIONS: Mapping[str, Mapping[str, str]] = {
    FOES: {
        name: GO.format(name=name, which=which, foes=ORDERS[which].format(units="foes"))
        for name, which in zip(("chase", "rush", "charge"), ORDERS, strict=True)
    },
    ALLIES: {
        name: JOIN.format(name=name, which=which, allies=ORDERS[which].format(units="allies"))
        for name, which in zip(("join", "rally", "meet"), ORDERS, strict=True)
    },
    WEST: {
        name: WALK.format(name=name, way=way)
        for name, way in (("leave", "west"), ("escape", "north"), ("withdraw", "south"))
    },
    AWAY: {
        name: WALK.format(name=name, way=way) for name, way in (("scout", "east"), ("roam", "north"), ("look", "south"))
    },
}
"""Skills of each kind, by name. Lessons name no better one; the first of three is taught four times in ten."""

DOUBT = 0.4
"""How often the script's soldier does anything, so that what it did tells little of what it is to do."""

PROPOSALS = 20
"""Numbers of proposals, by which an author takes one version or another."""

LOST = 2
"""Lost battles that an author is shown."""

SIZES = (0, 1, 1, 2, 2, 3, 3)
"""Skills besides `hold`, each as often as another."""

READ = 2
"""The most of them that an author is shown, which leaves it room to write."""

TALKS, AUTHORS = 8, 3
"""Lessons of a round of battles with one library, and how many of them are an author's."""


@dataclass(frozen=True)
class Drawn:
    """A skill of a known kind."""

    kind: str
    name: str
    program: str


OWN: Sequence[Drawn] = (
    Drawn(FOES, "hunt", HUNT),
    Drawn(ALLIES, "gather", GATHER),
    Drawn(WEST, "retreat", RETREAT),
)
"""Those that a squad may begin with besides `hold`."""


def version(kind: str, number: int) -> Drawn:
    """The skill of a kind that a proposal of this number is for: one after the other."""
    name, program = list(VERSIONS[kind].items())[number % 10 % len(VERSIONS[kind])]
    return Drawn(kind, name, program)


def library_of(rng: np.random.Generator) -> list[Drawn]:
    """A library without `hold`: of some kinds a skill each, in any order, half of them a squad's own."""
    kinds, found, size = list(VERSIONS), [], SIZES[int(rng.integers(len(SIZES)))]
    for place in rng.permutation(len(kinds)).tolist()[:size]:
        own = [one for one in OWN if one.kind == kinds[place] and rng.random() < 0.5]
        found.append(own[0] if own else version(kinds[place], int(rng.integers(PROPOSALS))))
    return found


def chosen(knows: bool, library: Sequence[Drawn]) -> str:
    """What the script's soldier takes, by whether it knows of a foe."""
    by_kind = {one.kind: one.name for one in library}
    kinds = (FOES,) if knows else (WEST, ALLIES)
    return next((by_kind[kind] for kind in kinds if kind in by_kind), "hold")


def lacking(library: Sequence[Drawn]) -> str:
    """What the script's author says would have helped."""
    kinds = {one.kind for one in library}
    return next((kind for kind in (FOES, WEST, ALLIES) if kind not in kinds), AWAY)


def lessons_of_squad(world: Battles, scenario: Scenario, rng: np.random.Generator, author: bool) -> list[Lesson]:
    """Lessons of a few battles with one library: choices where a foe is known and where none is, and an author's."""
    library = library_of(rng)
    skills = {"hold": HOLD, **{one.name: one.program for one in library}}
    battles = _begun(replace(world, programs=OURS, skills=skills), scenario)
    seen: dict[bool, list[str]] = {True: [], False: []}
    while left := [battle for battle in battles if battle.acting]:
        carry_out(left, [_moves(battle, library, seen, rng) for battle in left])
    authors = AUTHORS if author and len(library) <= READ else 0
    system = Texts(skills=skills).system("soldier")
    found = [_chose(library, seen, system if rng.random() < 0.5 else None, rng) for _ in range(TALKS - authors)]
    return found + [_written(skills, library, battles, rng) for _ in range(authors)]


def _begun(world: Battles, scenario: Scenario) -> list[Battle]:
    battles = []
    for number in range(LOST + 1):
        battle = world.make(scenario)
        battle.reset(Key.of(scenario.seed).derive("environment", number))
        battles.append(battle)
    return battles


def _moves(
    battle: Battle, library: Sequence[Drawn], seen: dict[bool, list[str]], rng: np.random.Generator
) -> dict[str, str]:
    """What everybody chooses; what it was told is put down by whether it knows of a foe."""
    moves = {}
    for agent in battle.acting:
        knows = bool(battle.view(agent)["foes"])
        seen[knows].append(battle.observe(agent).told())
        doubts = rng.random() < DOUBT
        moves[agent] = list(battle.skills)[int(rng.integers(len(battle.skills)))] if doubts else chosen(knows, library)
    return moves


def _chose(
    library: Sequence[Drawn], seen: Mapping[bool, Sequence[str]], system: str | None, rng: np.random.Generator
) -> Lesson:
    """A choice of each kind, in any order; none hangs on the other."""
    told: list[Message] = [{"role": "system", "content": system}] if system else []
    for knows in rng.permutation([knows for knows, some in seen.items() if some]).tolist():
        question = seen[knows][int(rng.integers(len(seen[knows])))]
        told += [{"role": "user", "content": question}, {"role": "assistant", "content": chosen(knows, library)}]
    first = 2 if system else 1
    return Lesson(tuple(told[:first]), tuple(told[first:]))


def _written(
    skills: Mapping[str, str], library: Sequence[Drawn], battles: Sequence[Battle], rng: np.random.Generator
) -> Lesson:
    """What an author says of lost battles; of won ones where too few were lost, told as lost."""
    lost = sorted(battles, key=lambda battle: battle.won)[: int(rng.integers(1, LOST + 1))]
    told = "\n\n".join(EPISODE.format(account=battle.account.replace("won", "lost")) for battle in lost)
    number = int(rng.integers(1, PROPOSALS + 1))
    question = PROPOSE.format(library="\n".join(skills.values()), episodes=told, number=number)
    kind = lacking(library)
    said = f"{number}. {kind}\n{version(kind, number).program}".rstrip()
    return Lesson(({"role": "user", "content": question},), ({"role": "assistant", "content": said},))


class Ours:
    """Where the skills of this file run: here, as they are known."""

    def act(self, calls: Sequence[tuple[str, View]]) -> list[str | None]:
        """What each says."""
        return [_made(program)(view) for program, view in calls]

    def admitted(
        self, library: Mapping[str, str], program: str, tests: Sequence[str]
    ) -> tuple[dict[str, str], str | None]:
        """Nothing enters."""
        return dict(library), "no skill is written in a lesson"


OURS = Ours()


@cache
def _made(program: str) -> Callable[[View], str]:
    space: dict[str, Any] = {"__name__": "skill"}
    exec(program, space)  # Made of the forms above, by nobody else.
    return cast(Callable[[View], str], next(one for one in space.values() if getattr(one, "__module__", "") == "skill"))
