"""PettingZoo's environments, turn by turn (AEC) and in parallel, in words."""

from __future__ import annotations

import copy
import importlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from hocket.agents.environments.legal import IllegalMoves, LegalMoves
from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.spaces import actions_of, allowed, kept, shown
from hocket.agents.environments.user_environments import FROM_PYTHON
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.user_files import importing_from, load_file
from hocket.core.worlds import reward_of
from hocket.types import Scenario


@dataclass(frozen=True)
class PettingZoo:
    """A PettingZoo environment as a world. Its agents are the seats; actions must be discrete.

    Where an observation is a dictionary with `action_mask` (or the info has one), only the moves that it leaves are
    legal, and the mask is not shown.

    Attributes:
        environment: a module with a function `env` (else `parallel_env`), such as `pettingzoo.classic.rps_v2` or
            `classic.rps_v2`; or a function that makes an AEC or a parallel environment. settings: its arguments.
        describe: what an observation says: called with the agent and its observation; None shows its numbers.
        actions: the names of the actions in order; None takes numbers.
        rules: text before the first observation.
        zero_sum: whether rewards sum to zero, so that what one forfeits is shared out among the others.
        rule: what illegal moves cost.

    Raises:
        ConfigurationError: without pettingzoo, for an unknown module, or actions that cannot be listed.
    """

    environment: str | Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    describe: Callable[[str, Any], str] | None = None
    actions: tuple[str, ...] | None = None
    rules: str = ""
    zero_sum: bool = False
    rule: IllegalMoves = field(default_factory=IllegalMoves)

    def __post_init__(self) -> None:
        _ = self.moves  # opens the environment once, so that mistakes show at once

    @property
    def name(self) -> str:
        known = self.environment if isinstance(self.environment, str) else self.environment.__name__
        return f"pettingzoo:{known}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self.moves)

    @cached_property
    def moves(self) -> Mapping[str, Mapping[str, Any]]:
        """By agent what stands for each move."""
        world = self.new()
        try:
            moves = {}
            for agent in map(str, world.possible_agents):
                listed = actions_of(f"{self.name}, agent {agent},", world.action_space(agent), self.actions)
                if listed is None:
                    raise ConfigurationError(
                        f"{self.name}: actions of agent {agent} are free text, not a list of moves"
                    )
                moves[agent] = listed
            return moves
        finally:
            world.close()

    def make(self, scenario: Scenario) -> LegalMoves:
        world = self.new()
        return _Parallel(self, world) if _parallel(world) else _Turns(self, world)

    def new(self) -> Any:
        """Opens one PettingZoo environment."""
        if not isinstance(self.environment, str):
            return self.environment(**self.settings)
        return maker(self.environment, ("env", "parallel_env"))(**self.settings)


FOLDERS = ("atari", "butterfly", "classic", "mpe", "sisl", "test", "utils")
"""The packages of pettingzoo itself, of which a module may be named without it."""


def of_pettingzoo(environment: str) -> bool:
    """Whether a module is one of pettingzoo's own, and not of a package that offers its interface, such as mpe2."""
    return environment.partition(".")[0] in ("pettingzoo", *FOLDERS) or "." not in environment


def _module(environment: str) -> Any:
    """The module of an environment, which may be a file."""
    if environment.endswith(".py"):
        return load_file(Path(environment), "task")
    short = of_pettingzoo(environment) and not environment.startswith("pettingzoo.")
    path, name = f"pettingzoo.{environment}" if short else environment, f"pettingzoo:{environment}"
    try:
        with importing_from(Path.cwd()):
            return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name == "pettingzoo":
            raise ConfigurationError("PettingZoo's worlds need it: pip install 'hocket[games]'") from None
        if error.name is not None and path.startswith(error.name):
            where = "pettingzoo" if of_pettingzoo(environment) else "this Python"
            raise ConfigurationError(f"{where} has no module {path}") from None
        raise ConfigurationError(f"{name} needs {error.name}: pip install 'pettingzoo[classic]'") from None
    except ImportError as error:
        raise ConfigurationError(f"{name} cannot be imported: {error}") from None


def maker(environment: str, names: Sequence[str]) -> Callable[..., Any]:
    """The first function of these names that a module of environments has, or an environment from Python.

    Raises:
        ConfigurationError: without the module or what it needs, or when it has none of them.
    """
    if environment in FROM_PYTHON:
        return FROM_PYTHON[environment]
    module = _module(environment)
    makers: list[Callable[..., Any]] = [made for name in names if callable(made := getattr(module, name, None))]
    if not makers:
        raise ConfigurationError(f"{module.__name__} has no {' or '.join(names)}; name a module such as classic.rps_v2")
    return makers[0]


def turn_by_turn(environment: str) -> bool:
    """Whether a module offers an environment in which agents move one after the other, and no parallel one."""
    module = _module(environment)
    return callable(getattr(module, "env", None)) and not callable(getattr(module, "parallel_env", None))


def observed(sight: Any, info: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """What an agent sees, without its mask of actions, and the mask: the sight's own, else that of its info, or None.

    A dictionary that has one thing beside its mask is that thing.
    """
    mask = (info or {}).get("action_mask")
    if not isinstance(sight, Mapping) or "action_mask" not in sight:
        return sight, mask
    sight_mask, rest = sight["action_mask"], {name: part for name, part in sight.items() if name != "action_mask"}
    return next(iter(rest.values())) if len(rest) == 1 else rest, mask if sight_mask is None else sight_mask


class Purse:
    """What the agents of an AEC environment earn: what `last()` tells each at its turn is since its last move.

    `rewards`, what a move alone brought everybody, pays at once. In a world where it sums to something else than
    `last()` tells, the rest is paid when `last()` tells it, and a warning says so, once.

    Args:
        world: its name, for errors and the warning.
    """

    def __init__(self, world: str) -> None:
        self.world = world
        self._paid: dict[Any, float] = {}

    def empty(self) -> None:
        """Another episode begins."""
        self._paid.clear()

    def copied(self) -> Purse:
        """For a copy of its environment."""
        other = Purse(self.world)
        other._paid = dict(self._paid)
        return other

    def turned(self, course: Any, *, moved: bool = False) -> tuple[dict[str, float], bool]:
        """Turns to the next agent that moves; who earned what, and whether a limit cut one of those who left meanwhile.

        Args:
            course: the environment, before its first move or, `moved`, after one.
        """
        earned, cut = dict[str, float](), False
        for agent, reward in course.rewards.items() if moved else ():
            earned[str(agent)] = paid = reward_of(reward, self.world)
            self._paid[agent] = self._paid.get(agent, 0.0) + paid
        while course.agents:
            agent = course.agent_selection
            earned[str(agent)] = earned.get(str(agent), 0.0) + self._rest(course, agent)
            if not (course.terminations.get(agent) or course.truncations.get(agent)):
                break
            cut = cut or bool(course.truncations.get(agent))
            course.step(None)
        return earned, cut

    def _rest(self, course: Any, agent: Any) -> float:
        """What an agent whose turn it is has earned beyond what it was paid."""
        due, paid = reward_of(course.last(observe=False)[1], self.world), self._paid.pop(agent, 0.0)
        if abs(due - paid) <= 1e-6 * max(1.0, abs(due), abs(paid)):
            return 0.0
        if self.world not in _WARNED:
            _WARNED.add(self.world)
            warnings.warn(
                f"{self.world}: its `rewards` gave {agent} {paid:g} where `last()` tells {due:g}; agents are paid what "
                "`last()` tells",
                RuntimeWarning,
                stacklevel=2,
            )
        return due - paid


_WARNED = set[str]()
"""Worlds whose users have been warned that their `rewards` differ from what `last()` returns."""


def _parallel(world: Any) -> bool:
    return not hasattr(world, "agent_iter")


class _Seated(LegalMoves):
    """What both kinds have in common: observations, masks, copies."""

    @abstractmethod
    def _shown(self, agent: str) -> tuple[Any, Any]:
        """The last observation of an agent, and the mask of its actions that is stated now; None when there is none."""

    def __init__(self, world: PettingZoo, course: Any) -> None:
        super().__init__(world.agents, world.rule)
        self.world = world
        self.zero_sum = world.zero_sum
        self._course = course
        self._moved: set[str] = set()
        self._cut = False

    def _moves(self, agent: str) -> Mapping[str, Any]:
        return allowed(self.world.moves[agent], self._shown(agent)[1])

    def _seen(self, agent: str) -> Observation:
        sight, _ = self._shown(agent)
        describe = self.world.describe
        words = (shown(sight) if describe is None else describe(agent, sight)) if sight is not None else "Nothing."
        text = f"{self.world.rules}\nYou are {agent}.\n{words}".strip()
        return Observation(text, state=f"{agent}: {words}", news=words if agent in self._moved else None)

    @property
    def truncated(self) -> bool:
        return self._cut and self.over and not self._forfeited

    def clone(self) -> Self:
        other = copy.copy(self)
        try:
            other._course = copy.deepcopy(self._course)
        except Exception as error:
            raise HocketError(f"{self.world.name} cannot be copied ({type(error).__name__}: {error})") from error
        other._moved = set(self._moved)
        other._copy_record(self)
        return other

    def close(self) -> None:
        self._course.close()


class _Turns(_Seated):
    """An AEC environment: one agent moves at a time."""

    def __init__(self, world: PettingZoo, course: Any) -> None:
        super().__init__(world, course)
        self._purse = Purse(world.name)

    def _begin(self, key: Key) -> None:
        self._moved = set()
        self._course.reset(seed=key.derive("pettingzoo").word >> 33)
        self._purse.empty()
        _, self._cut = self._purse.turned(self._course)

    def _movers(self) -> tuple[str, ...]:
        return (self._course.agent_selection,) if self._course.agents else ()

    def _shown(self, agent: str) -> tuple[Any, Any]:
        return observed(self._course.observe(agent), getattr(self._course, "infos", {}).get(agent))

    def _make(self, moves: Mapping[str, Any]) -> Mapping[str, float]:
        ((agent, action),) = moves.items()
        self._moved.add(agent)
        self._course.step(kept(action))
        earned, cut = self._purse.turned(self._course, moved=True)
        self._cut = self._cut or cut
        return earned

    def clone(self) -> Self:
        other = super().clone()
        other._purse = self._purse.copied()
        return other


class _Parallel(_Seated):
    """A parallel environment: all agents move at once."""

    def __init__(self, world: PettingZoo, course: Any) -> None:
        super().__init__(world, course)
        self._sights: dict[str, Any] = {}
        self._masks: dict[str, Any] = {}

    def _begin(self, key: Key) -> None:
        self._moved, self._cut, self._sights = set(), False, {}
        self._note(*self._course.reset(seed=key.derive("pettingzoo").word >> 33))

    def _note(self, sights: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        """Keeps what was seen last, also of those who left, and the masks that are stated now."""
        views = {agent: observed(kept(sights.get(agent)), infos.get(agent)) for agent in self.agents}
        self._sights = {**self._sights, **{agent: sight for agent, (sight, _) in views.items() if sight is not None}}
        self._masks = {agent: kept(mask) for agent, (_, mask) in views.items()}

    def _movers(self) -> tuple[str, ...]:
        return tuple(agent for agent in self.agents if agent in self._course.agents)

    def _shown(self, agent: str) -> tuple[Any, Any]:
        return self._sights.get(agent), self._masks.get(agent)

    def _make(self, moves: Mapping[str, Any]) -> Mapping[str, float]:
        self._moved.update(moves)
        sights, rewards, _, truncations, infos = self._course.step(kept(moves))
        self._note(sights, infos)
        self._cut = any(truncations.values())
        return {agent: reward_of(reward, self.world.name) for agent, reward in rewards.items()}
