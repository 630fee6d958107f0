"""A skirmish in words: each soldier is a planner who chooses a skill, or writes one, and the skill moves it.

A skill is a program (`hocket.methods.search.compass_smac.battle_skills`) and runs in closed loop: it is shown the
soldier's view and says an action, step after step, until something new is known. Programs run where `Programs` says, in
tasks the sandbox.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.protocol import UNREADABLE, Environment, Observation, same_move
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.search.compass_smac.battle_skills import SKILLS
from hocket.types import Scenario
from hocket.zoo.joint.skirmish import ATTACK, Battlefield, Skirmish

ACTIONS = ("stay", "north", "south", "west", "east")

View = dict[str, Any]

_Picture = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64], list[NDArray[np.bool_]]]


class Programs(Protocol):
    """Where skills are checked and run."""

    def act(self, calls: Sequence[tuple[str, View]]) -> Sequence[str | None]:
        """What each program says to its view; None where it fails."""
        ...

    def admitted(
        self, library: Mapping[str, str], program: str, tests: Sequence[str]
    ) -> tuple[dict[str, str], str | None]:
        """The library with a program that passes its tests, else as it was and why."""
        ...


@dataclass(frozen=True)
class Battles:
    """Skirmishes whose soldiers choose skills.

    Soldiers that choose are asked at the same time; then their skills run for at most `hold` steps, and end together as
    soon as a soldier learns of a foe that it did not know, falls, or its skill fails. The fallen are asked no more.
    A move is the name of a skill, or a program: one that passes its check joins the library of this episode, and runs.
    What fails its check never does; what is neither runs the skill chosen before. All earn what the skirmish pays.

    Attributes:
        ground: where it is fought. programs: where skills run. skills: by name, the first for who chose nothing yet.
        writing: whether soldiers may write programs.
        brief: told in few words, for small models. In `At 3,0 4. Foe 5,12 3 told. Did hold.` one stands in row 3 and
            column 0 with health 4 and was told of a foe.
    """

    ground: Skirmish
    programs: Programs
    skills: Mapping[str, str] = field(default_factory=lambda: SKILLS)
    hold: int = 4
    writing: bool = True
    brief: bool = False

    cooperative = True

    def __post_init__(self) -> None:
        if self.hold < 1:
            raise ConfigurationError(f"task {self.name}: hold = {self.hold}; a skill runs for at least 1 step")
        if not self.skills:
            raise ConfigurationError(f"task {self.name}: a squad without any skill can do nothing; give it one")

    @property
    def name(self) -> str:
        brief = "&brief=true" if self.brief else ""
        return f"battle:{self.ground.count}v{self.ground.foes}?hops={self.ground.hops}{brief}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"soldier_{number}" for number in range(1, self.ground.count + 1))

    @property
    def limit(self) -> int:
        """Moves of an episode at most, if every choice lasted one step."""
        return self.ground.length * self.ground.count

    def make(self, scenario: Scenario) -> Battle:
        return Battle(self)


class Battle(Environment):
    """One skirmish. `course` is it, one copy wide; `skills` the library as it is by now.

    `choices` counts what was chosen by those who knew of a foe (True) and by those who knew of none.
    """

    blocking = True

    def __init__(self, world: Battles) -> None:
        self.world, self.agents = world, world.agents
        self.course: Battlefield = world.ground.open(1)
        self.reset(Key.of(0))

    def reset(self, key: Key) -> None:
        self.course.reset([0], [key.word & 0x7FFFFFFF])
        self.skills = dict(self.world.skills)
        self.chosen = dict.fromkeys(self.agents, next(iter(self.skills)))
        self.told = dict.fromkeys(self.agents, "")
        self.wrong = dict.fromkeys(self.agents, 0)
        self.choices: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self.steps, self._over, self._late = 0, False, False
        self._now: _Picture | None = None

    # ------------------------------------------------------------ who acts, and what it sees

    @property
    def acting(self) -> tuple[str, ...]:
        if self._over or self._late:
            return ()
        up = self.course.standing[0]
        return tuple(agent for number, agent in enumerate(self.agents) if up[number])

    @property
    def truncated(self) -> bool:
        return self._late

    @property
    def illegal(self) -> Mapping[str, int]:
        return dict(self.wrong)

    @property
    def won(self) -> bool:
        """Whether the last foe has fallen before the last soldier."""
        return bool(self.course.won()[0])

    def view(self, agent: str) -> View:
        """What a skill is shown."""
        number, course, n = self.agents.index(agent), self.course, self.world.ground.count
        known, sees, far, legal = (one[number] for one in self._picture())
        place, health = course.place[0], course.health[0]

        def told(unit: int) -> View:
            gap = (place[unit] - place[number]).tolist()
            seen, left = bool(sees[unit]), int(health[unit])
            return {"gap": gap, "far": int(far[unit]), "health": left, "seen": seen, "go": _step(gap)}

        def foe(unit: int) -> View:
            hit = legal[ATTACK + unit - n]
            return {"number": unit - n + 1, **told(unit), "hit": action_name(ATTACK + unit - n) if hit else None}

        near = sorted((unit for unit in range(len(known)) if unit != number and known[unit]), key=lambda u: int(far[u]))
        return {
            "at": place[number].tolist(),
            "size": self.world.ground.size,
            "health": int(health[number]),
            "foes": [foe(unit) for unit in near if unit >= n],
            "allies": [told(unit) for unit in near if unit < n],
            "legal": [action_name(action) for action in np.flatnonzero(legal).tolist()],
        }

    def _picture(self) -> _Picture:
        """What all soldiers know, see, how far it is, and what they may do: once for each moment."""
        if self._now is None:
            course, n = self.course, self.world.ground.count
            legal = [mask[0] for mask in course.allowed()]
            self._now = course.knows()[0], course.sees()[0], course.away()[0, :n], legal
        return self._now

    @property
    def account(self) -> str:
        """How it came out, and what was chosen in it."""
        won = "won" if self.won else "lost"
        with_foes, without = (
            ", ".join(f"{name} {times}" for name, times in self.choices[known].most_common()) or "nothing"
            for known in (True, False)
        )
        return f"{won} after {self.steps} steps; foes known: {with_foes}; none known: {without}"

    def observe(self, agent: str) -> Observation:
        """In words; the legal moves are the names of the skills."""
        view = self.view(agent)
        text = self._in_few_words(agent, view) if self.world.brief else self._in_sentences(agent, view)
        return Observation(text, tuple(self.skills), state=text)

    def _in_few_words(self, agent: str, view: View) -> str:
        here = view["at"]

        def told(name: str, one: View) -> str:
            row, column = here[0] + one["gap"][0], here[1] + one["gap"][1]
            return f"{name} {row},{column} {one['health']}{'' if one['seen'] else ' told'}."

        parts = [f"At {here[0]},{here[1]} {view['health']}."]
        parts += [told("Ally", one) for one in view["allies"]] + [told("Foe", one) for one in view["foes"]]
        return " ".join((*parts, self.told[agent] or f"Did {self.chosen[agent]}."))

    def _in_sentences(self, agent: str, view: View) -> str:
        lines = [f"You are {agent}, health {view['health']}, at {view['at'][0]},{view['at'][1]}."]
        lines += [f"Ally {_where(one['gap'])}, health {one['health']}." for one in view["allies"]]
        lines += [
            f"Foe {one['number']} {_where(one['gap'])}, health {one['health']}{'' if one['seen'] else ', told'}."
            for one in view["foes"]
        ]
        lines.append(self.told[agent] or f"You did: {self.chosen[agent]}.")
        return "\n".join(lines)

    # ------------------------------------------------------------ what is done

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        return carry_out([self], [moves])[0]

    def choose(self, moves: Mapping[str, str]) -> None:
        """Hears what everybody who acts wants to do."""
        self.check_movers(moves)
        foes = self._picture()[0][:, self.world.ground.count :]
        for agent, move in moves.items():
            self.told[agent] = ""
            known = same_move(move, tuple(self.skills))
            program = program_in(move) if known is None and self.world.writing else None
            if program is not None:
                before = dict(self.skills)
                self.skills, why = self.world.programs.admitted(
                    before, program, drills(self.world.ground, self.view(agent))
                )
                known = (
                    next((name for name, one in self.skills.items() if one == program), None) if why is None else None
                )
                self.told[agent] = "" if why is None else f"Your skill was refused: {why}."
            elif known is None and move != UNREADABLE:
                self.told[agent] = "There is no such skill."
            self.wrong[agent] += known is None
            self.chosen[agent] = self.chosen[agent] if known is None else known
            self.choices[bool(foes[self.agents.index(agent)].any())][self.chosen[agent]] += 1

    def step(self, said: Mapping[str, str | None]) -> tuple[float, bool]:
        """One step by the actions that skills said; what it paid, and whether something is new."""
        seats, failed, n = [], False, self.world.ground.count
        (known, _, _, legal), up = self._picture(), self.course.standing[0]
        for number, agent in enumerate(self.agents):
            action = action_number(said.get(agent), self.world.ground.foes)
            if up[number] and (action is None or not legal[number][action]):
                self.told[agent], failed = f"Your skill {self.chosen[agent]} failed: it said no legal action.", True
                action = None
            seats.append(np.array([action or 0]))
        moved = self.course.step(seats, np.ones(1, bool))
        self._over, self._late = bool(moved.terminated[0, 0]), bool(moved.truncated[0, 0])
        self.steps += 1
        self._now = None
        met = (self._picture()[0] & ~known)[:, n:].any()
        fallen = (up & ~self.course.standing[0])[:n].any()
        return float(moved.rewards[0, 0]), bool(met or fallen or failed)


def carry_out(battles: Sequence[Battle], moves: Sequence[Mapping[str, str]]) -> list[dict[str, float]]:
    """Lets the chosen skills of several skirmishes run side by side, until each of them asks again; what all earned."""
    for battle, chosen in zip(battles, moves, strict=True):
        battle.choose(chosen)
    earned, running = [0.0] * len(battles), list(range(len(battles)))
    for _ in range(battles[0].world.hold if battles else 0):
        asked = [(place, agent) for place in running for agent in battles[place].acting]
        if not asked:
            break
        calls = [(battles[p].skills[battles[p].chosen[agent]], battles[p].view(agent)) for p, agent in asked]
        said = dict(zip(asked, battles[0].world.programs.act(calls), strict=True))
        for place in list(running):
            battle = battles[place]
            paid, news = battle.step({agent: said[place, agent] for agent in battle.acting})
            earned[place] += paid
            if news or not battle.acting:
                running.remove(place)
    return [dict.fromkeys(battle.agents, paid) for battle, paid in zip(battles, earned, strict=True)]


def action_name(number: int) -> str:
    """An action of the skirmish in words."""
    return ACTIONS[number] if number < ATTACK else f"attack {number - ATTACK + 1}"


def action_number(said: str | None, foes: int) -> int | None:
    """The action that was said; None where it is none."""
    names = {action_name(number): number for number in range(ATTACK + foes)}
    return None if said is None else names.get(said)


def program_in(move: str) -> str | None:
    """The program in a move: from its first `def` or `import` on, without a fence; None where there is none."""
    found = re.search(r"^(?:import |from |def )[\s\S]*", move, re.M)
    return found[0].partition("```")[0].rstrip() + "\n" if found and "def " in found[0] else None


def drills(ground: Skirmish, *views: View) -> list[str]:
    """What a new skill must pass: it says a legal action in the drills of the ground, and in the `views` given."""
    return [f"assert {{skill}}({view!r}) in {view['legal']!r}" for view in (*views, *_drilled(ground))]


def _drilled(ground: Skirmish) -> list[View]:
    """Views before the fight, in it, and at the edge, of a ground's first seed: always the same."""
    battle = Battle(Battles(ground, _NOBODY))
    battle.course.reset([0], [0])
    found = []
    for step in range(3 * ground.size):
        if step % ground.size == 0:
            found += [battle.view(agent) for agent in battle.acting]
        battle.step(dict.fromkeys(battle.agents, "stay"))
    return [*found, *_cornered(ground)]


def _cornered(ground: Skirmish) -> list[View]:
    """The first soldier's views from the corners, where no direction is always open; none from a foe's own cell."""
    found = []
    for corner in ([0, 0], [0, ground.size - 1], [ground.size - 1, 0], [ground.size - 1, ground.size - 1]):
        battle = Battle(Battles(ground, _NOBODY))
        battle.course.reset([0], [0])
        if corner not in battle.course.place[0].tolist():
            battle.course.place[0, 0] = corner
            found.append(battle.view(battle.agents[0]))
    return found


class _Nobody:
    def act(self, calls: Sequence[tuple[str, View]]) -> Sequence[str | None]:
        return ["stay"] * len(calls)

    def admitted(
        self, library: Mapping[str, str], program: str, tests: Sequence[str]
    ) -> tuple[dict[str, str], str | None]:
        return dict(library), "nobody checks it"


_NOBODY = _Nobody()


def _step(gap: Sequence[int]) -> str:
    """The step along the longer way, of equals along the row."""
    down, right = gap
    if abs(down) > abs(right):
        return "south" if down > 0 else "north"
    return "east" if right > 0 else "west"


def _where(gap: Sequence[int]) -> str:
    down, right = gap
    parts = [f"{abs(down)} {'south' if down > 0 else 'north'}"] if down else []
    parts += [f"{abs(right)} {'east' if right > 0 else 'west'}"] if right else []
    return " ".join(parts) or "here"
