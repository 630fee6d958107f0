"""Environments that users bring, with Gymnasium's or PettingZoo's interface: classes, functions, objects and files."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.user_files import load_object

Interface = Literal["gymnasium", "parallel", "turns"]
"""Of one agent; of several that act at once; of several that act in turn."""

LONGEST = 1000
"""Steps after which an episode of a user's environment is cut, unless the environment ends it or states a limit."""

WRAPPERS: Mapping[Interface, tuple[str, ...]] = {
    "gymnasium": ("gymnasium.wrappers",),
    "parallel": ("pettingzoo.utils.wrappers", "supersuit"),
    "turns": ("pettingzoo.utils.wrappers", "supersuit"),
}
"""The modules that wrappers are named from."""


def name_of(value: Any) -> str:
    """The name of an object from Python: of its class or function."""
    if not inspect.isclass(value) and is_environment(value):
        value = type(getattr(value, "unwrapped", value))
    return str(getattr(value, "__name__", type(value).__name__)).replace("<lambda>", "task")


@dataclass(frozen=True)
class UserEnvironment:
    """An environment of a user's own; each call makes a new one.

    Attributes:
        name: in names of tasks. value: its class, a function that makes it, or an environment, which is copied.
    """

    name: str
    value: Any

    @classmethod
    def at(cls, reference: str) -> UserEnvironment:
        """Of `FILE.py:NAME`, named by NAME."""
        return cls(reference.rpartition(":")[2], load_object(reference, "task"))

    @property
    def __name__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __call__(self, **settings: Any) -> Any:
        """A new environment.

        Raises:
            ConfigurationError: when it cannot be made, and for what is no environment.
        """
        made = self._copied(settings) if self._is_object else self._made(settings)
        if interface_of(made) is None:
            raise ConfigurationError(
                f"task {self.name}: it made an object of type {type(made).__name__}, which is no environment; an "
                "environment has reset, step, observation_space and action_space, as gymnasium.Env has"
            )
        return made

    @property
    def _is_object(self) -> bool:
        return not inspect.isclass(self.value) and is_environment(self.value)

    def _made(self, settings: Mapping[str, Any]) -> Any:
        try:
            return self.value(**settings)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"task {self.name} cannot be made: {type(error).__name__}: {error}; arguments are written "
                "NAME?key=value&key=value"
            ) from error

    def _copied(self, settings: Mapping[str, Any]) -> Any:
        if settings:
            raise ConfigurationError(
                f"task {self.name} is an environment already, so it takes no {next(iter(settings))}; give its class"
            )
        try:
            return copy.deepcopy(self.value)
        except Exception as error:
            raise ConfigurationError(
                f"task {self.name}: the environment cannot be copied ({type(error).__name__}: {error}), and training "
                "plays many at once; give its class, or a function that makes it"
            ) from error


FROM_PYTHON: dict[str, UserEnvironment] = {}
"""Environments of agents that act in turn, for worlds that name what they play."""


def is_environment(value: Any) -> bool:
    """Whether an object, or the objects of a class, have the methods of an environment."""
    return callable(getattr(value, "reset", None)) and callable(getattr(value, "step", None))


def interface_of(environment: Any) -> Interface | None:
    """The interface that an environment has, by its members; None where it is none."""
    if not is_environment(environment):
        return None
    if hasattr(environment, "agent_iter"):
        return "turns"
    if hasattr(environment, "possible_agents"):
        return "parallel"
    return "gymnasium" if hasattr(environment, "observation_space") and hasattr(environment, "action_space") else None


# ---------------------------------------------------------------- opening


def open_user_environment(environment: UserEnvironment, settings: Mapping[str, Any]) -> Any:
    """An environment of one agent, with its wrappers and its limit of steps.

    Settings are its arguments, but for `wrappers`, and for `max_episode_steps` if it takes no such argument.
    """
    import gymnasium

    arguments = dict(settings)
    wrappers = arguments.pop("wrappers", "")
    limit = None if _takes(environment.value, "max_episode_steps") else arguments.pop("max_episode_steps", None)
    made = wrapped(environment(**arguments), wrappers, f"task {environment.name}")
    if limit is None and _states_limit(made):
        return made
    return gymnasium.wrappers.TimeLimit(made, LONGEST if limit is None else int(limit))


def without_limit(environment: UserEnvironment, settings: Mapping[str, Any]) -> bool:
    """Whether neither the environment of one agent nor the settings state a limit of steps."""
    rest = {key: value for key, value in settings.items() if key not in ("wrappers", "max_episode_steps")}
    return "max_episode_steps" not in settings and not _states_limit(
        wrapped(environment(**rest), settings.get("wrappers", ""), f"task {environment.name}")
    )


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _states_limit(environment: Any) -> bool:
    """Whether an environment was registered with a limit of steps, or is in a wrapper that has one."""
    spec = getattr(environment, "spec", None)
    if spec is not None and spec.max_episode_steps is not None:
        return True
    return hasattr(environment, "_max_episode_steps") or (
        hasattr(environment, "env") and _states_limit(environment.env)
    )


def limit_remark(name: str) -> str:
    """A sentence about the limit of steps of a user's environment that states none."""
    return (
        f"task {name}: an episode is cut after {LONGEST} steps unless the environment ends it; max_episode_steps=N "
        "sets another limit"
    )


_BEGUN = ("observation", "info")
_MOVED = ("observation", "reward", "terminated", "truncated", "info")
"""What `reset` and `step` return."""


def tried(environment: Any, where: str) -> None:
    """Plays a step of a user's environment of one agent, so that mistakes show before a run.

    Raises:
        ConfigurationError: when `reset` or `step` fail, or return something else than Gymnasium's interface says.
    """
    call = "reset(seed=0)"
    returned = {"reset(seed=0)": _BEGUN, "step(action)": _MOVED}
    try:
        begun = environment.reset(seed=0)
        _check_parts(begun, _BEGUN, call, where)
        _check_observation(environment, begun[0], call, where)
        call = "step(action)"
        environment.action_space.seed(0)
        moved = environment.step(environment.action_space.sample())
        _check_parts(moved, _MOVED, call, where)
        _check_observation(environment, moved[0], call, where)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{where}: {call} raises {type(error).__name__}: {error}; gymnasium.Env has "
            f"reset(self, *, seed=None, options=None) and step(self, action), and {call} returns "
            f"({', '.join(returned[call])})"
        ) from error


def _check_parts(value: Any, parts: Sequence[str], call: str, where: str) -> None:
    if not isinstance(value, tuple) or len(value) != len(parts):
        shown = f"{len(value)} values" if isinstance(value, tuple) else f"an object of type {type(value).__name__}"
        raise ConfigurationError(f"{where}: {call} returns {shown}; return ({', '.join(parts)})")


def _check_observation(environment: Any, observation: Any, call: str, where: str) -> None:
    space = environment.observation_space
    shape = getattr(observation, "shape", None)
    if getattr(space, "shape", None) is not None and shape is not None and tuple(shape) != tuple(space.shape):
        raise ConfigurationError(
            f"{where}: {call} returns an observation of shape {tuple(shape)}, and observation_space is {space}; make "
            "them agree"
        )


# ---------------------------------------------------------------- wrappers

_WRAPPER = re.compile(r"(?P<name>[^()]+)(?:\((?P<arguments>.*)\))?", re.DOTALL)


def wrapped(environment: Any, wrappers: str | Sequence[str], where: str) -> Any:
    """An environment in wrappers, the first innermost.

    Args:
        wrappers: `NAME`, `NAME(1, key=2)` or `FILE.py:NAME(...)`, as a list or separated by commas. Names are those of
            gymnasium.wrappers, and for environments of several agents of pettingzoo.utils.wrappers and supersuit.
        where: what the environment is, for errors.

    Raises:
        ConfigurationError: for a wrapper that is unknown or does not go with the environment.
    """
    for text in _listed(wrappers):
        match = _WRAPPER.fullmatch(text)
        if match is None:
            raise ConfigurationError(f"{where}: wrappers = {text!r}: write NAME or NAME(value, key=value)")
        wrapper = _wrapper(match["name"].strip(), interface_of(environment) or "gymnasium", where)
        values, named = _arguments(match["arguments"] or "", text, where)
        try:
            environment = wrapper(environment, *values, **named)
        except Exception as error:
            raise ConfigurationError(f"{where}: wrapper {text} fails: {type(error).__name__}: {error}") from error
    return environment


def _listed(wrappers: str | Sequence[str]) -> list[str]:
    """The wrappers of a text, split at commas outside brackets."""
    if not isinstance(wrappers, str):
        return [str(text) for text in wrappers]
    parts, depth = [""], 0
    for character in wrappers:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _wrapper(name: str, interface: Interface, where: str) -> Any:
    if ".py:" in name:
        return load_object(name, f"{where}: wrappers")
    known: dict[str, Any] = {}
    for module in WRAPPERS[interface]:
        try:
            known = {**vars(importlib.import_module(module)), **known}
        except ImportError:  # One of them is optional.
            continue
    if not callable(known.get(name)):
        classes = [key for key, value in known.items() if callable(value) and key[:1].isupper()]
        raise ConfigurationError(f"{where}: there is no wrapper {name!r}{nearest(name, classes)}")
    return known[name]


def _arguments(text: str, wrapper: str, where: str) -> tuple[list[Any], dict[str, Any]]:
    try:
        call = cast(ast.Call, ast.parse(f"f({text})", mode="eval").body)
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(value) for value in call.args], named
    except (SyntaxError, ValueError):
        raise ConfigurationError(
            f"{where}: wrapper {wrapper}: its arguments must be numbers, texts or lists, as in Python"
        ) from None
