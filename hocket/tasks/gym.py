"""Gymnasium environments as a task: a scenario is a reset seed, and the environment's rewards verify it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.spaces import ranges_of
from hocket.core.batch import Level
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError, suggestion
from hocket.core.worlds import Ranges, reward_of
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class GymTask:
    """Episodes of the Gymnasium environment `environment`, made with keyword arguments `settings`.

    Scenario n resets with seed 2n in training and 2n + 1 in evaluation, without end. Box observations are flattened
    and discrete ones become one-hot vectors; actions are discrete or a Box. Networks read pictures scaled by their
    space's bounds, see `ranges`.

    Raises:
        ConfigurationError: without gymnasium, for an unknown environment, or for spaces a small network cannot read.
    """

    environment: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self._spaces  # opens the environment once, so that mistakes show at once

    @property
    def name(self) -> str:
        return f"gym:{self.environment}"

    @property
    def kind(self) -> Literal["control"]:
        return "control"

    # ------------------------------------------------------------ scenarios

    leads: ClassVar[str] = "greedy"
    """The way of playing whose figures are reported. Both are measured, see `hocket.train.kinds.ways`."""

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")  # some environments take 32-bit seeds only
        return Scenario(id=f"{self.environment}/{seed}", seed=seed, metadata={"environment": self.environment})

    @property
    def rewards(self) -> Sequence[Reward]:
        return ()

    def success(self, trajectory: Trajectory) -> float:
        """The undiscounted return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`truncated`: whether a limit of time ended the episode."""
        return {"truncated": float(trajectory.truncated)}

    # ------------------------------------------------------------ settings

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """Settings with which a recipe learns the classic problems within a minute; see this module's constants."""
        if has_path(recipe, "credit.lam"):
            chosen = ACTOR_CRITIC if self.discrete else {**ACTOR_CRITIC, **CONTINUOUS}
        else:
            chosen = GROUPED
        # A loss of the complete batch needs one mini-batch.
        return {**chosen, "update.minibatches": 1} if recipe.couples is Level.BATCH else chosen

    # ------------------------------------------------------------ environments

    @cached_property
    def _spaces(self) -> tuple[Any, Any]:
        """Observation and action space, checked."""
        world = _made(self.environment, self.settings)
        world.close()
        spaces = _gymnasium().spaces
        observation_space, acted = world.observation_space, world.action_space
        if not isinstance(observation_space, (spaces.Box, spaces.Discrete)):
            raise ConfigurationError(
                f"task {self.name}: its observations are a {type(observation_space).__name__} space; control networks "
                "read Box or Discrete, so wrap the environment (gymnasium.wrappers.FlattenObservation)"
            )
        if not isinstance(acted, spaces.Discrete) and not _is_vector(acted, spaces):
            raise ConfigurationError(
                f"task {self.name}: its actions are {acted}; control networks choose Discrete actions or "
                "one-dimensional Box vectors, so wrap the environment"
            )
        return observation_space, acted

    @property
    def discrete(self) -> bool:
        return hasattr(self._spaces[1], "n")

    @property
    def actions(self) -> int:
        """The number of choices if `discrete`, else of dimensions of the action vector."""
        space = self._spaces[1]
        return int(space.n) if self.discrete else int(space.shape[0])

    @property
    def observations(self) -> int:
        space = self._spaces[0]
        return int(space.n) if hasattr(space, "n") else int(np.prod(space.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Height, width and channels of a grid observation."""
        shape = tuple(int(side) for side in self._spaces[0].shape or ())
        return shape if len(shape) in (2, 3) else ()

    @property
    def ranges(self) -> Ranges:
        """The bounds by which networks scale observations, if they do."""
        return ranges_of(self._spaces[0])

    def make(self) -> Gymnasium:
        """Opens one environment."""
        return Gymnasium(_made(self.environment, self.settings), *self._spaces, name=f"task {self.name}")

    def rendered(self, mode: str) -> Self:
        """The same task whose environments are drawn: `human`, `rgb_array` or `ansi`.

        Raises:
            ConfigurationError: when the environment does not draw so, naming the modes it has.
        """
        world = _made(self.environment, self.settings)
        modes = [str(one) for one in world.metadata.get("render_modes") or ()]
        world.close()
        if mode not in modes:
            known = f"it knows {', '.join(modes)}" if modes else "it draws nothing"
            raise ConfigurationError(f"task {self.name} is not drawn as {mode}; {known}")
        return replace(self, settings={**self.settings, "render_mode": mode})


class Gymnasium:
    """A Gymnasium environment in a controller's terms: float32 vectors in, plain actions out.

    A continuous action of ±1 is the end of the environment's range (unbounded dimensions are passed as they are);
    actions beyond are clipped.

    Attributes:
        world: the environment itself. space: of the observations that `read` takes.
    """

    def __init__(self, world: Any, observations: Any, actions: Any, *, name: str = "the environment") -> None:
        self.world, self.space, self._name = world, observations, name
        self._one_hot = np.eye(int(observations.n), dtype=np.float32) if hasattr(observations, "n") else None
        self._start = int(getattr(observations, "start", 0))
        self._first_action = int(getattr(actions, "start", 0))
        self._range: tuple[NDArray[Any], ...] | None = None
        if not hasattr(actions, "n"):
            low, high = actions.low, actions.high
            bounded = np.isfinite(low) & np.isfinite(high)
            centre = np.where(bounded, 0.5 * (np.where(bounded, low, 0) + np.where(bounded, high, 0)), 0.0)
            half = np.where(bounded, np.where(bounded, high, 1) - centre, 1.0)
            self._range = (centre.astype(actions.dtype), half.astype(actions.dtype), low, high)

    def read(self, observation: Any) -> NDArray[np.float32]:
        """One observation of the environment as the networks read it, `[O]`."""
        if self._one_hot is not None:
            row: NDArray[np.float32] = self._one_hot[int(observation) - self._start].copy()
            return row
        # Some worlds fill one array again and again.
        return np.array(observation, np.float32).reshape(-1)

    def reset(self, seed: int) -> NDArray[np.float32]:
        return self.read(self.world.reset(seed=seed)[0])

    def move(self, action: Any) -> Any:
        """A controller's action as the environment takes it."""
        if self._range is None:
            return int(action) + self._first_action
        centre, half, low, high = self._range
        return np.minimum(np.maximum(centre + half * action, low), high)  # np.clip takes twice as long

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        observation, reward, terminated, truncated, _ = self.world.step(self.move(action))
        return self.read(observation), reward_of(reward, self._name), bool(terminated), bool(truncated)

    def close(self) -> None:
        self.world.close()


def _is_vector(space: Any, spaces: Any) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError:
        raise ConfigurationError("gym tasks need gymnasium: pip install 'hocket[control]'") from None
    return gymnasium


def environment_names() -> list[str]:
    """The names of Gymnasium's environments; none without the package."""
    try:
        return list(_gymnasium().registry)
    except ConfigurationError:
        return []


def _made(name: str, settings: Mapping[str, Any]) -> Any:
    """A Gymnasium environment without the passive checker, whose cost per step is that of the environment itself."""
    gymnasium = _gymnasium()
    try:
        return gymnasium.make(name, disable_env_checker=True, **settings)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigurationError(f"task gym:{name}: {error}") from None
    except (gymnasium.error.Error, ImportError) as error:
        if isinstance(error, ImportError) and name in gymnasium.registry:
            raise ConfigurationError(
                f"task gym:{name} needs what is not installed here ({error}); for MuJoCo's worlds "
                "pip install 'gymnasium[mujoco]'"
            ) from None
        hint = suggestion(name, gymnasium.registry, "an environment of a package is gym:MODULE:NAME-vN")
        raise ConfigurationError(f"task gym:{name}: gymnasium has no such environment{hint}") from None
    except TypeError as error:
        raise ConfigurationError(f"task gym:{name}: {error}") from None


_RUN: Mapping[str, Any] = {"threads": 1, "evaluation.n": 100, "evaluation.between": 20}
"""A second thread slows networks this small down, tenfold if the cores are busy."""

GROUPED: Mapping[str, Any] = {
    **_RUN,
    "steps": 16,
    "curriculum.prompts": 8,
    "rollout.samples": 16,
    "credit.gamma": 0.98,
    "objective.aggregate": "token-mean",
    "update.lr": 4e-3,
    "update.epochs": 10,
    "update.minibatches": 8,
}
"""Many episodes from each initial state, because a baseline needs a large group."""

ACTOR_CRITIC: Mapping[str, Any] = {
    **_RUN,
    "steps": 25,
    "curriculum.prompts": 16,
    "rollout.samples": 1,
    "credit.gamma": 0.98,
    "credit.lam": 0.95,
    "objective.aggregate": "token-mean",
    "update.lr": 3e-3,
    "update.epochs": 8,
    "update.minibatches": 8,
}
"""Every initial state once, because a critic estimates the values of states."""

CONTINUOUS: Mapping[str, Any] = {"steps": 40, "curriculum.prompts": 32, "credit.gamma": 0.95, "update.lr": 1.5e-3}
"""Changes for continuous actions, whose noise needs more episodes, a shorter horizon and smaller steps."""


def from_settings(name: str, settings: Mapping[str, str]) -> GymTask:
    """The task with these settings, read as JSON where they can be."""
    return GymTask(name.removeprefix("gym:"), {key: _value(text) for key, text in settings.items()})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


GYM = TaskForm(
    name="gym:ENVIRONMENT",
    description="a Gymnasium environment for control policies, e.g. gym:CartPole-v1",
    family="packages",
    make=from_settings,
)
