"""Environments as tasks by name: `openspiel:..`, `textarena:..`, `gymnasium:..`, `pettingzoo:..`, `openenv:..`.

A scenario is a seed, which determines all chance events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from hocket.agents.environments.gymnasium import GymnasiumWorld
from hocket.agents.environments.legal import IllegalMoves
from hocket.agents.environments.parallel_pettingzoo import ZooTeam
from hocket.agents.environments.pettingzoo import of_pettingzoo, turn_by_turn
from hocket.agents.environments.protocol import Environment, World
from hocket.agents.environments.reading import READINGS
from hocket.agents.environments.user_environments import FROM_PYTHON, UserEnvironment, interface_of
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.columns import ILLEGAL, RETURNS
from hocket.core.errors import ConfigurationError
from hocket.core.options import checked, read_value
from hocket.stages import Reward, Split, Task
from hocket.tasks.form import TaskForm, variant
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.tasks.lessons import Beginner, Lessons, any_move, episode
from hocket.types import Scenario, Trajectory

TURNS = 200
"""The default limit of moves per episode, because some games of free text never end."""


@dataclass(frozen=True)
class EnvironmentTask:
    """Episodes of a world, without end: scenario n has seed 2n in training and 2n + 1 in evaluation.

    `success` is in [0, 1]. With several seats it is whether `seat` (by default the first) won, that is, had the largest
    return; ties share it. With one seat, or if all seats have equal returns by the world's rules (`cooperative`), it is
    the return, clipped to [0, 1]. `measure` replaces this rule. The returns are among the traits.
    """

    workflow: PlayEnvironment
    seat: str | None = None
    measure: Callable[[Trajectory], float] | None = None

    def __post_init__(self) -> None:
        if self.seat is not None and self.seat not in self.workflow.world.agents:
            seats = ", ".join(self.workflow.world.agents)
            raise ConfigurationError(f"task {self.name}: seat = {self.seat!r}; its seats are {seats}")

    @property
    def name(self) -> str:
        return self.workflow.world.name

    @property
    def kind(self) -> Literal["text"]:
        return "text"

    leads: ClassVar[str] = "greedy"
    """The way of playing whose figures are reported. Both are measured, because greedy moves may walk in circles."""

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * number + (split == "eval")
        return Scenario(f"{self.name}/{seed}", seed=seed)

    @property
    def rewards(self) -> Sequence[Reward]:
        """None: the world has its own rewards."""
        return ()

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"decoding.max_tokens": 32}

    @property
    def lessons(self) -> Lessons | None:
        """The form of moves: legal ones drawn at random if they are listed, else the moves of the game's script.

        During training the other seats keep the weights after the lessons.
        """
        name = self.workflow.world.name
        course = COURSES.get(name) or (LISTED if name.partition(":")[0] in ("openspiel", "gymnasium") else None)
        if course is None:
            return None
        together = getattr(self.workflow.world, "cooperative", False)
        return Lessons(
            course.taught,
            course.steps,
            lambda scenario, rng: episode(self.workflow, scenario, course.beginner, rng),
            talks=1 if self.workflow.memory else 8,
            then=lambda recipe: course.then,
            beginners=() if together else self.workflow.roles[1:],
        )

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """The return of each seat (`reward/SEAT`), with several also `win/SEAT`; `illegal`, the share of moves."""
        returns = _returns(trajectory)
        figures = {f"reward/{seat}": value for seat, value in returns.items()}
        if len(returns) > 1:
            figures.update({f"win/{seat}": _won(returns, seat) for seat in returns})
        wrong = sum(ILLEGAL.get(trajectory, {}).values())
        return {**figures, "illegal": wrong / max(len(trajectory.turns), 1)}

    def label(self, trajectory: Trajectory) -> str | None:
        """None: episodes of a game have no answer."""
        return None

    def success(self, trajectory: Trajectory) -> float:
        if self.measure is not None:
            return self.measure(trajectory)
        returns = _returns(trajectory)
        world = self.workflow.world
        seat = self.seat or world.agents[0]
        if seat not in returns:
            return 0.0
        if len(returns) > 1 and not getattr(world, "cooperative", False):
            return _won(returns, seat)
        return min(max(returns[seat], 0.0), 1.0)


def _returns(trajectory: Trajectory) -> Mapping[str, float]:
    """The return of each seat; empty if the episode failed."""
    return {seat: float(value) for seat, value in RETURNS.get(trajectory, {}).items()}


def _won(returns: Mapping[str, float], seat: str) -> float:
    best = max(returns.values())
    winners = [name for name, value in returns.items() if value == best]
    return 1.0 / len(winners) if seat in winners else 0.0


# ---------------------------------------------------------------- lessons


@dataclass(frozen=True)
class Course:
    """The lessons of a game: the script, what it teaches, the steps, and the settings afterwards; see `Lessons`."""

    beginner: Beginner
    taught: str
    steps: int = 0
    then: Mapping[str, Any] = field(default_factory=dict)


LISTED = Course(any_move, "legal moves, drawn at random")
"""For any game that lists its moves; used only on request."""


def _guess(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """A number from 1 to 20 that was not guessed before; in half of the cases one that the hints allow."""
    text = environment.observe(seat).text
    tried = [
        (int(number), hint) for number, hint in re.findall(r"\[(\d+)\]\n\[GAME\] The target number is (\w+)", text)
    ]
    left = [number for number in range(1, 21) if number not in dict(tried)]
    if rng.random() < 0.5:
        left = [n for n in left if all((n > number) == (hint == "higher") for number, hint in tried)]
    return f"[{left[int(rng.integers(len(left)))]}]"


COURSES: Mapping[str, Course] = {
    "openspiel:kuhn_poker": Course(
        any_move, "legal moves, drawn at random", 30, {"steps": 40, "update.lr": 2.5e-4, "evaluation.n": 500}
    ),
    "textarena:GuessTheNumber-v0": Course(
        _guess,
        "numbers that were not guessed before, half of them against the hints",
        0,
        {"steps": 20, "update.lr": 2.5e-4, "evaluation.n": 100},
    ),
}
"""Games with their own lessons, by the name of their world."""


# ---------------------------------------------------------------- by name

_PLAY = {"memory": bool, "turns": int, "own_chance": bool, "instruct": bool, "reading": str, "seat": str}
_RULE = {"tries": int, "penalty": float, "forfeit": float}


def environment_task(name: str, settings: Mapping[str, str]) -> EnvironmentTask:
    """The task `KIND:NAME`.

    Settings are those of the play (`memory`, `turns`, `own_chance`, `instruct`, `reading`, `seat`), `roles=one` (one
    role plays all seats), those of illegal moves (`tries`, `penalty`, `forfeit`) where the world has a rule, and the
    world's own.

    Raises:
        ConfigurationError: for settings that are unknown or wrong, and whatever the world refuses.
    """
    kind, _, rest = name.partition(":")
    options = dict(settings)
    play = {key: options.pop(key) for key in _PLAY if key in options}
    role = options.pop("roles", None)
    if role not in (None, "one", "each"):
        raise ConfigurationError(f"task {name}: roles is one (one role plays all seats) or each, not {role!r}")
    chosen = checked(name, play, _PLAY)
    world = WORLDS[kind](rest, options)
    reading, seat = chosen.pop("reading", None), chosen.pop("seat", None)
    if reading is not None and reading not in READINGS:
        raise ConfigurationError(f"task {name}: reading is {reading!r}; choose from {', '.join(READINGS)}")
    seats = dict.fromkeys(world.agents, "policy") if role == "one" else {}
    return EnvironmentTask(PlayEnvironment(world, seats, READINGS.get(reading), **{"turns": TURNS, **chosen}), seat)


def _ruled(name: str, settings: Mapping[str, str]) -> tuple[IllegalMoves, dict[str, Any]]:
    """The rule of illegal moves, and the remaining settings, read as JSON where possible."""
    rule = checked(name, {key: text for key, text in settings.items() if key in _RULE}, _RULE)
    left = {key: read_value(text) for key, text in settings.items() if key not in _RULE}
    try:
        return IllegalMoves(**rule), left
    except ValueError as error:
        raise ConfigurationError(f"task {name}: {error}") from None


def _openspiel(name: str, settings: Mapping[str, str]) -> World:
    from hocket.agents.environments.openspiel import OpenSpiel

    rule, parameters = _ruled(f"openspiel:{name}", settings)
    return OpenSpiel(name, parameters, rule=rule)


def _textarena(name: str, settings: Mapping[str, str]) -> World:
    from hocket.agents.environments.textarena import TextArena

    values = {key: read_value(text) for key, text in settings.items()}
    return TextArena(name, values.pop("players", None), values)


def _gymnasium(name: str, settings: Mapping[str, str]) -> World:
    rule, arguments = _ruled(f"gymnasium:{name}", settings)
    return GymnasiumWorld(UserEnvironment.at(name) if ".py:" in name else name, arguments, rule=rule)


def _pettingzoo(name: str, settings: Mapping[str, str]) -> World:
    from hocket.agents.environments.pettingzoo import PettingZoo

    rule, arguments = _ruled(f"pettingzoo:{name}", settings)
    return PettingZoo(UserEnvironment.at(name) if ".py:" in name else name, arguments, rule=rule)


def _kind(name: str, options: dict[str, str], otherwise: str) -> str:
    """The kind of a task, which is removed from the settings."""
    kind = options.pop("kind", otherwise)
    if kind not in ("text", "control"):
        raise ConfigurationError(f"task {name}: kind is text or control, not {kind!r}")
    return kind


def spiel_task(name: str, settings: Mapping[str, str]) -> Task:
    """A game in words, or for control policies with `?kind=control`."""
    options = dict(settings)
    if _kind(name, options, "text") == "text":
        return environment_task(name, options)
    return variant("openspiel:GAME?kind=control").make(name, options)


def zoo_task(name: str, settings: Mapping[str, str]) -> Task:
    """A task of PettingZoo: its modules in words, others for control policies, unless the setting `kind` is set."""
    module, options = name.removeprefix("pettingzoo:"), dict(settings)
    if _kind(name, options, "text" if of_pettingzoo(module) else "control") == "text":
        return environment_task(name, options)
    if ".py:" in module:
        return user_environment_task(UserEnvironment.at(module), options)
    if turn_by_turn(module):
        return variant("pettingzoo:MODULE?kind=control").make(name, options)
    ids = checked(name, {key: text for key, text in options.items() if key == "ids"}, {"ids": bool}).get("ids", True)
    left = {key: read_value(text) for key, text in options.items() if key != "ids"}
    return JointTask(ZooTeam(module, left), identified=bool(ids))


OF_ENVIRONMENTS = ("wrappers", "max_episode_steps", "ids", "against", "searches")
"""Settings of the tasks of users' environments that need not be arguments of the environment."""


def user_environment_task(environment: UserEnvironment, settings: Mapping[str, str]) -> Task:
    """The task of a user's environment, by its interface: for controllers, or in words if its actions are free text.

    Raises:
        ConfigurationError: when it cannot be made, or has spaces that no policy reads.
    """
    values = {key: read_value(text) for key, text in settings.items()}
    sample = environment(**{key: value for key, value in values.items() if key not in OF_ENVIRONMENTS})
    try:
        interface = interface_of(sample)
        in_words = interface == "gymnasium" and type(sample.action_space).__name__ == "Text"
    finally:
        sample.close()
    if in_words:
        return EnvironmentTask(PlayEnvironment(GymnasiumWorld(environment, values), turns=TURNS))
    if interface == "gymnasium":
        return GymTask(environment.name, values, environment)
    if interface == "parallel":
        ids = bool(values.pop("ids", True))
        return JointTask(ZooTeam(environment.name, values, environment), identified=ids)
    FROM_PYTHON[environment.name] = environment
    return variant("pettingzoo:MODULE?kind=control").make(environment.name, settings)


def _openenv(name: str, settings: Mapping[str, str]) -> World:
    from hocket.agents.environments.openenv import OpenEnv

    hints = {"into": str, "show": str, "wire": str, "concurrent": int, "seconds": float, "penalty": float, "tries": int}
    return OpenEnv(name, **checked(f"openenv:{name}", settings, hints))


WORLDS: Mapping[str, Callable[[str, Mapping[str, str]], World]] = {
    "openspiel": _openspiel,
    "textarena": _textarena,
    "gymnasium": _gymnasium,
    "pettingzoo": _pettingzoo,
    "openenv": _openenv,
}
"""The maker of each kind of world, from its name and settings."""


OPENSPIEL = TaskForm(
    name="openspiel:GAME",
    description="a game of OpenSpiel in words, e.g. openspiel:kuhn_poker, or for control policies (?kind=control)",
    family="packages",
    make=spiel_task,
)

TEXTARENA = TaskForm(
    name="textarena:GAME",
    description="a game of TextArena, e.g. textarena:TicTacToe-v0",
    family="packages",
    make=environment_task,
)

GYMNASIUM = TaskForm(
    name="gymnasium:ENVIRONMENT",
    description="a Gymnasium environment in words, e.g. gymnasium:FrozenLake-v1?is_slippery=false",
    family="packages",
    make=environment_task,
)

PETTINGZOO = TaskForm(
    name="pettingzoo:MODULE",
    description="a PettingZoo environment in words, e.g. pettingzoo:classic.rps_v2, or for control (?kind=control)",
    family="packages",
    make=zoo_task,
)

OPENENV = TaskForm(
    name="openenv:URL",
    description="the environment behind an OpenEnv server, e.g. openenv:http://localhost:8000",
    family="packages",
    make=environment_task,
)
