"""Gymnasium environments as a task: a scenario is a reset seed, and the environment's rewards verify it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.flat_spaces import FlatObservation, choice_sizes, chosen_action, is_choice, is_vector
from hocket.agents.environments.user_environments import (
    UserEnvironment,
    limit_remark,
    open_user_environment,
    tried,
    without_limit,
    wrapped,
)
from hocket.core.batch import Level
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError, suggestion
from hocket.core.options import read_value
from hocket.core.user_files import importing_from
from hocket.core.worlds import Ranges, reward_of
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class GymTask:
    """Episodes of a Gymnasium environment, made with keyword arguments `settings`.

    Scenario n resets with seed 2n in training and 2n + 1 in evaluation, without end. Observations are flattened, and
    discrete parts become one-hot vectors; actions are a Box, or one or several choices. Networks read pictures scaled
    by their space's bounds, see `ranges`.

    Attributes:
        environment: a registered name, also `MODULE:NAME`, or the name of an environment of a user's own.
        settings: its arguments; `wrappers` are put around it, see `hocket.agents.environments.user_environments`.
        maker: makes the environment, if it is a user's own.

    Raises:
        ConfigurationError: without gymnasium, for an unknown environment, or for spaces a small network cannot read.
    """

    environment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    maker: UserEnvironment | None = None

    def __post_init__(self) -> None:
        _ = self._spaces  # opens the environment once, so that mistakes show at once

    @property
    def name(self) -> str:
        return f"gym:{self.environment}"

    @property
    def remarks(self) -> Sequence[str]:
        """What a person should know before a run."""
        endless = self.maker is not None and without_limit(self.maker, self.settings)
        return (*self._observation.remarks, *((limit_remark(self.name),) if endless else ()))

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
        return suggested(recipe, discrete=self.discrete)

    # ------------------------------------------------------------ environments

    @cached_property
    def _spaces(self) -> tuple[Any, Any]:
        """Observation and action space, checked."""
        world = self._open()
        try:
            where, sight, acts = f"task {self.name}", world.observation_space, world.action_space
            FlatObservation(sight, where)
            if not is_vector(acts) and not choice_sizes(acts):
                raise ConfigurationError(
                    f"{where}: its actions are {acts}; control networks choose Discrete, MultiDiscrete and MultiBinary "
                    "actions, and Box vectors of real numbers, so wrap the environment"
                )
            if self.maker is not None:
                tried(world, where)
        finally:
            world.close()
        return sight, acts

    @cached_property
    def _observation(self) -> FlatObservation:
        """How what is seen is read."""
        return FlatObservation(self._spaces[0], f"task {self.name}")

    def _open(self) -> Any:
        """A Gymnasium environment without the passive checker, whose cost per step is the environment's own."""
        if self.maker is not None:
            _gymnasium()
            return open_user_environment(self.maker, self.settings)
        return _made(self.environment, self.settings)

    @property
    def discrete(self) -> bool:
        return not is_vector(self._spaces[1])

    @property
    def actions(self) -> int:
        """The options of all choices if `discrete`, else the dimensions of the action vector."""
        space = self._spaces[1]
        return sum(choice_sizes(space)) if self.discrete else int(np.prod(space.shape))

    @property
    def choices(self) -> tuple[int, ...]:
        """The options of every choice, where an action is several; empty for one choice or a vector."""
        return () if is_choice(self._spaces[1]) else choice_sizes(self._spaces[1])

    @property
    def observations(self) -> int:
        return self._observation.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is seen, where it begins with a grid: height and width, and channels."""
        return self._observation.shape

    @property
    def ranges(self) -> Ranges:
        """Of what is seen, where networks do not read the numbers as they are."""
        return self._observation.ranges

    def make(self) -> Gymnasium:
        """Opens one environment."""
        return Gymnasium(self._open(), *self._spaces, name=f"task {self.name}")

    def rendered(self, mode: str) -> Self:
        """The same task whose environments are drawn: `human`, `rgb_array` or `ansi`.

        Raises:
            ConfigurationError: when the environment does not draw so, naming the modes it has.
        """
        world = self._open()
        modes = [str(name) for name in world.metadata.get("render_modes") or ()]
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
        read: one observation of the environment as the networks read it, `[O]`.
    """

    def __init__(self, world: Any, observations: Any, actions: Any, *, name: str = "the environment") -> None:
        self.world, self.space, self._name = world, observations, name
        self.read = FlatObservation(observations, name).read
        self._actions = actions
        self._single = is_choice(actions)
        self._first_action = int(getattr(actions, "start", 0)) if self._single else 0
        self._range: tuple[NDArray[Any], ...] | None = None
        if is_vector(actions):
            low, high = actions.low.ravel(), actions.high.ravel()
            bounded = np.isfinite(low) & np.isfinite(high)
            centre = np.where(bounded, 0.5 * (np.where(bounded, low, 0) + np.where(bounded, high, 0)), 0.0)
            half = np.where(bounded, np.where(bounded, high, 1) - centre, 1.0)
            self._range = (centre.astype(actions.dtype), half.astype(actions.dtype), low, high)

    def reset(self, seed: int) -> NDArray[np.float32]:
        return self.read(self.world.reset(seed=seed)[0])

    def move(self, action: Any) -> Any:
        """A controller's action as the environment takes it."""
        if self._single:
            return int(action) + self._first_action
        if self._range is None:
            return chosen_action(self._actions, iter(np.ravel(action).tolist()))
        centre, half, low, high = self._range
        moved = np.minimum(np.maximum(centre + half * action, low), high)  # np.clip takes twice as long
        return moved.reshape(self._actions.shape)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        observation, reward, terminated, truncated, _ = self.world.step(self.move(action))
        return self.read(observation), reward_of(reward, self._name), bool(terminated), bool(truncated)

    def snapshot(self) -> Any:
        """The state of the environment, which `restore` puts back, into another one of the task too.

        Raises:
            ConfigurationError: for an environment that cannot be copied.
        """
        try:
            return copy.deepcopy(self.world)
        except Exception as error:  # Any environment may refuse in its own way.
            raise ConfigurationError(
                f"{self._name} cannot be restored, because it cannot be copied ({type(error).__name__}: {error}); give "
                "it a __deepcopy__, or take another task"
            ) from None

    def restore(self, snapshot: Any) -> None:
        """Puts a state that `snapshot` gave back; the state may be restored again."""
        self.world = copy.deepcopy(snapshot)

    def __deepcopy__(self, memo: dict[int, Any]) -> Gymnasium:
        other = copy.copy(self)
        other.world = self.snapshot()
        return other

    def close(self) -> None:
        self.world.close()


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
    """A registered environment in its wrappers."""
    gymnasium, arguments = _gymnasium(), dict(settings)
    wrappers = arguments.pop("wrappers", "")
    try:
        with importing_from(Path.cwd()):
            made = gymnasium.make(name, disable_env_checker=True, **arguments)
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
    return wrapped(made, wrappers, f"task gym:{name}")


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


SHORT_BATCHES: Mapping[str, Any] = {
    "steps": 40,
    "update.lr": 2e-3,
    "update.schedule": "linear",
    "update.clip_norm": None,
    "hooks.0.length": 16,
    "hooks.0.width": 16,
}
"""Changes for recipes that learn within an episode. A bound on the norm would weaken the batches in which one fails."""

OFF_POLICY: Mapping[str, Any] = {
    **_RUN,
    "steps": 60,
    "curriculum.prompts": 1,
    "rollout.samples": 1,
    "network.hidden": [256, 256],
    "network.activation": "relu",
}
"""An episode at a time, since every decision is learnt from many times."""

VALUES: Mapping[str, Any] = {"steps": 300, "network.hidden": [64, 64]}
"""Changes for recipes that choose by action values."""


def critic_credit(recipe: Any) -> str | None:
    """Where the λ of a recipe's critic stands: at its credit, or at what that credit is `of`; None without a critic."""
    return next((place for place in ("credit", "credit.of") if has_path(recipe, f"{place}.lam")), None)


def at_critic(place: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings whose `credit.` stands for the place of `critic_credit`."""
    return {f"{place}.{key[7:]}" if key.startswith("credit.") else key: value for key, value in settings.items()}


def suggested(recipe: Any, *, discrete: bool) -> Mapping[str, Any]:
    """Settings of a recipe for classic problems, by whether actions are discrete."""
    if recipe.store is not None:
        return OFF_POLICY if not has_path(recipe, "objective.values.over") else {**OFF_POLICY, **VALUES}
    if (place := critic_credit(recipe)) is not None:
        chosen = at_critic(place, ACTOR_CRITIC if discrete else {**ACTOR_CRITIC, **CONTINUOUS})
        chosen = {**chosen, **SHORT_BATCHES} if has_path(recipe, "hooks.0.width") else chosen
    else:
        chosen = GROUPED
    # A loss of the complete batch needs one mini-batch.
    return {**chosen, "update.minibatches": 1} if recipe.couples is Level.BATCH else chosen


def from_settings(name: str, settings: Mapping[str, str]) -> GymTask:
    """The task with these settings, read as JSON where they can be."""
    environment = name.removeprefix("gym:")
    values = {key: read_value(text) for key, text in settings.items()}
    maker = UserEnvironment.at(environment) if ".py:" in environment else None
    return GymTask(environment if maker is None else maker.name, values, maker)


GYM = TaskForm(
    name="gym:ENVIRONMENT",
    description="a Gymnasium environment for control policies, e.g. gym:CartPole-v1",
    family="packages",
    make=from_settings,
)
