"""Gymnasium environments with actions that can be listed, in words, for language models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from hocket.agents.environments.legal import IllegalMoves, LegalMoves
from hocket.agents.environments.protocol import Environment, Observation
from hocket.agents.environments.spaces import actions_of, allowed, kept, shown
from hocket.agents.environments.user_environments import (
    UserEnvironment,
    open_user_environment,
    wrapped,
)
from hocket.core.errors import ConfigurationError, HocketError, suggestion
from hocket.core.keys import Key
from hocket.core.user_files import importing_from
from hocket.core.worlds import reward_of
from hocket.types import Scenario

SEAT = "agent"

Described = Callable[[Any, Any], str]
"""What an observation says: called with the observation and the (unwrapped) environment."""


def _lake(observation: Any, world: Any) -> str:
    rows = [[cell.decode() for cell in row] for row in world.desc]
    row, column = divmod(int(observation), len(rows[0]))
    rows[row][column] = "*"
    return "\n".join("".join(cells) for cells in rows)


def _blackjack(observation: Any, world: Any) -> str:
    total, dealer, ace = (int(part) for part in observation)
    usable = " with a usable ace" if ace else ""
    return f"Your sum: {total}{usable}. The dealer shows {'an ace' if dealer == 1 else dealer}."


def _cell(observation: Any, world: Any) -> str:
    row, column = divmod(int(observation), 12)
    return f"You are in row {row} (0 to 3), column {column} (0 to 11)."


@dataclass(frozen=True)
class Words:
    """How an environment is put into words: its rules, the names of its actions, and what an observation says."""

    rules: str = ""
    actions: tuple[str, ...] | None = None
    describe: Described | None = None


KNOWN: Mapping[str, Words] = {
    "FrozenLake": Words(
        "Walk on a frozen lake from S to G. F is ice, H a hole that ends the walk, * is you.",
        ("left", "down", "right", "up"),
        _lake,
    ),
    "Blackjack": Words("Blackjack: come closer to 21 than the dealer, not above.", ("stick", "hit"), _blackjack),
    "CliffWalking": Words(
        "Walk from row 3, column 0 to row 3, column 11. Row 3, columns 1 to 10 is a cliff that throws you back.",
        ("up", "right", "down", "left"),
        _cell,
    ),
    "Taxi": Words(
        "Drive a taxi: pick up the passenger and bring them to their goal.",
        ("south", "north", "east", "west", "pick up", "drop off"),
    ),
}
"""The toy texts of Gymnasium, by name up to the version."""


@dataclass(frozen=True)
class GymnasiumWorld:
    """The environment `environment`, made with keyword arguments `settings`, as a world with one seat, `agent`.

    Actions are Discrete, MultiDiscrete or MultiBinary (listed as legal moves, but for those that `info["action_mask"]`
    forbids) or Text (any text). Observations of any space are put into words.

    Attributes:
        environment: a registered name, or a function that makes the environment. settings: its arguments.
        words: how it is put into words; None takes what this module knows of it, else plain numbers.
        rule: what illegal moves cost.

    Raises:
        ConfigurationError: without gymnasium, for an unknown environment, or actions that cannot be listed.
    """

    environment: str | Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    words: Words | None = None
    rule: IllegalMoves = field(default_factory=IllegalMoves)

    def __post_init__(self) -> None:
        _ = self.actions  # opens the environment once, so that mistakes show at once

    @property
    def name(self) -> str:
        known = self.environment if isinstance(self.environment, str) else self.environment.__name__
        return f"gymnasium:{known}"

    @property
    def agents(self) -> tuple[str, ...]:
        return (SEAT,)

    @cached_property
    def wording(self) -> Words:
        """How it is put into words."""
        known = self.environment.partition("-v")[0] if isinstance(self.environment, str) else ""
        return self.words or KNOWN.get(known, Words())

    @cached_property
    def actions(self) -> Mapping[str, Any] | None:
        """What stands for each move; None where any text is one."""
        world = self.new()
        try:
            return actions_of(self.name, world.action_space, self.wording.actions)
        finally:
            world.close()

    def make(self, scenario: Scenario) -> Environment:
        return _Listed(self) if self.actions is not None else _Free(self)

    def new(self) -> Any:
        """Opens one Gymnasium environment."""
        if isinstance(self.environment, UserEnvironment):
            return open_user_environment(self.environment, self.settings)
        if not isinstance(self.environment, str):
            return self.environment(**self.settings)
        arguments = dict(self.settings)
        wrappers = arguments.pop("wrappers", "")
        try:
            import gymnasium
        except ImportError:
            raise ConfigurationError("gymnasium tasks need gymnasium: pip install 'hocket[control]'") from None
        try:
            with importing_from(Path.cwd()):
                made = gymnasium.make(self.environment, disable_env_checker=True, **arguments)
        except gymnasium.error.DependencyNotInstalled as error:
            raise ConfigurationError(f"{self.name}: {error}") from None
        except (gymnasium.error.Error, ImportError):
            hint = suggestion(self.environment, gymnasium.registry, "an environment of a package is MODULE:NAME-vN")
            raise ConfigurationError(f"gymnasium has no environment {self.environment!r}{hint}") from None
        except TypeError as error:
            raise ConfigurationError(f"{self.name}: {error}") from None
        return wrapped(made, wrappers, self.name)


class _Course:
    """A Gymnasium episode: what was seen last, and whether it is over."""

    def __init__(self, world: GymnasiumWorld) -> None:
        self.world = world
        self.course = world.new()
        self.seen: Any = None
        self.mask: Any = None
        self.moved = self.over = self.truncated = False

    def reset(self, key: Key) -> None:
        observation, info = self.course.reset(seed=key.word >> 33)  # some environments take 31 bits only
        self.seen, self.mask = kept(observation), kept(info.get("action_mask"))
        self.moved = self.over = self.truncated = False

    def step(self, action: Any) -> float:
        observation, reward, terminated, truncated, info = self.course.step(kept(action))
        self.seen, self.mask = kept(observation), kept(info.get("action_mask"))
        self.moved, self.over = True, bool(terminated or truncated)
        self.truncated = bool(truncated and not terminated)
        return reward_of(reward, self.world.name)

    def observation(self) -> Observation:
        words = self.world.wording
        text = shown(self.seen) if words.describe is None else words.describe(self.seen, self.course.unwrapped)
        return Observation(f"{words.rules}\n{text}".strip(), state=text, news=text if self.moved else None)

    def copied(self) -> _Course:
        try:
            return copy.deepcopy(self)
        except Exception as error:
            raise HocketError(f"{self.world.name} cannot be copied ({type(error).__name__}: {error})") from error


class _Listed(LegalMoves):
    """An episode whose legal moves are listed."""

    def __init__(self, world: GymnasiumWorld) -> None:
        super().__init__(world.agents, world.rule)
        self._course = _Course(world)
        self._actions = world.actions or {}

    def _begin(self, key: Key) -> None:
        self._course.reset(key.derive("gymnasium"))

    def _movers(self) -> tuple[str, ...]:
        return () if self._course.over else self.agents

    def _moves(self, agent: str) -> Mapping[str, Any]:
        return allowed(self._actions, self._course.mask)

    def _seen(self, agent: str) -> Observation:
        return self._course.observation()

    def _make(self, moves: Mapping[str, Any]) -> Mapping[str, float]:
        return {SEAT: self._course.step(moves[SEAT])}

    @property
    def truncated(self) -> bool:
        return self._course.truncated

    def clone(self) -> Self:
        other = copy.copy(self)
        other._course = self._course.copied()
        other._copy_record(self)
        return other

    def close(self) -> None:
        self._course.course.close()


class _Free(Environment):
    """An episode in which any text is a move."""

    def __init__(self, world: GymnasiumWorld) -> None:
        self.agents = world.agents
        self._course = _Course(world)

    def reset(self, key: Key) -> None:
        self._course.reset(key.derive("gymnasium"))

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self._course.over else (SEAT,)

    @property
    def truncated(self) -> bool:
        return self._course.truncated

    def observe(self, agent: str) -> Observation:
        sight = self._course.observation()
        return sight if self.acting else Observation(sight.text, (), sight.state, sight.news, sight.pictures)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        return {SEAT: self._course.step(moves[SEAT])}

    def clone(self) -> Self:
        other = copy.copy(self)
        other._course = self._course.copied()
        return other

    def close(self) -> None:
        self._course.course.close()
