"""Worlds whose copies are torch tensors on a device, as tasks: `torch:cartpole`, or an environment of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from hocket.agents.environments.flat_spaces import is_vector
from hocket.core.errors import ConfigurationError
from hocket.core.keys import uniforms_on
from hocket.core.options import read_value
from hocket.core.tensor_worlds import TorchVectorEnv
from hocket.core.user_files import load_object
from hocket.stages import Reward, Split
from hocket.tasks import gym
from hocket.tasks.form import TaskForm
from hocket.types import Scenario, Trajectory

COPIES = 64
LIMIT = 1000
"""Steps after which an episode is cut, unless the environment has a limit of its own."""


class TorchCartPole:
    """CartPole (Barto, Sutton & Anderson 1983), in the numbers of Gymnasium's `CartPole-v1`, N copies at once.

    Attributes:
        copies, device, limit: see `TorchVectorEnv`.
    """

    observations, actions, discrete, limit = 4, 2, True, 500

    def __init__(self, copies: int = COPIES, device: torch.device | str = "cpu") -> None:
        self.copies, self.device = copies, torch.device(device)
        self._corner = torch.arange(4, device=self.device)

    def reset(self, seeds: Tensor) -> Tensor:
        self._seeds = seeds
        self._episode = torch.zeros(self.copies, dtype=torch.int64, device=self.device)
        self._time = torch.zeros_like(self._episode)
        self._state = self._first()
        return self._state

    def _first(self) -> Tensor:
        """A state for the beginning of every copy's present episode."""
        draws = uniforms_on(self._seeds[:, None], self._episode[:, None] * 4 + self._corner)
        return (0.1 * draws - 0.05).float()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        x, speed, angle, spin = self._state.unbind(1)
        cosine, sine = angle.cos(), angle.sin()
        push = (20.0 * action - 10.0 + 0.05 * spin.square() * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine.square() / 1.1))
        drive = push - 0.05 * turn * cosine / 1.1
        state = torch.stack((x + 0.02 * speed, speed + 0.02 * drive, angle + 0.02 * spin, spin + 0.02 * turn), 1)
        self._time = self._time + 1
        fell = (state[:, 0].abs() > 2.4) | (state[:, 2].abs() > 12 * 2 * torch.pi / 360)
        late = self._time >= self.limit
        over = fell | late
        self._episode, self._time = self._episode + over, self._time * ~over
        self._state = torch.where(over[:, None], self._first(), state)
        return self._state, torch.ones_like(x), fell, late, state

    def close(self) -> None:
        """Nothing is open."""


class TensorEnvironment:
    """A vector environment of others as a `TorchVectorEnv`: Gymnasium's interface with tensors, as Isaac Lab has it.

    Arrays of other libraries (Brax's) are taken over where they lie, through dlpack. Where what was seen last is not in
    the infos, as `final_obs`, that before the last step is taken for it.

    Args:
        world: with `num_envs`, `reset(seed=)` and `step`, and `single_observation_space` and `single_action_space`.
    """

    def __init__(self, world: Any, name: str) -> None:
        self.world, self._name = world, name
        members = ("num_envs", "single_observation_space", "single_action_space")
        absent = [name for name in members if not hasattr(world, name)]
        if absent:
            raise ConfigurationError(
                f"task {name}: {type(world).__name__} has no {absent[0]}; a vector environment has num_envs, "
                "single_observation_space, single_action_space, reset and step"
            )
        self.copies = int(world.num_envs)
        limit = getattr(world, "max_episode_length", None)
        self.limit = LIMIT if limit is None else int(limit)
        space, acts = world.single_observation_space, world.single_action_space
        space = space["policy"] if hasattr(space, "spaces") and "policy" in space.spaces else space
        if getattr(space, "shape", None) is None or len(space.shape) != 1:
            raise ConfigurationError(f"task {name}: it shows {space}; small networks read vectors")
        self.observations = int(space.shape[0])
        self.discrete = not is_vector(acts)
        if self.discrete and not hasattr(acts, "n"):
            raise ConfigurationError(f"task {name}: its actions are {acts}; use Discrete, or Box of real numbers")
        self.actions = int(acts.n) if self.discrete else int(np.prod(acts.shape))
        self.device = torch.device(getattr(world, "device", "cpu"))

    def reset(self, seeds: Tensor) -> Tensor:
        self._seen = self._vectors(self.world.reset(seed=int(seeds[0]) % 2**31)[0])
        return self._seen

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        observation, reward, terminated, truncated, infos = self.world.step(action)
        after, ended, cut = self._vectors(observation), self._tensor(terminated).bool(), self._tensor(truncated).bool()
        last = self._vectors(infos["final_obs"]) if "final_obs" in infos else self._seen
        final = torch.where((ended | cut)[:, None], last, after)
        self._seen = after
        return after, self._tensor(reward).float(), ended, cut, final

    def close(self) -> None:
        self.world.close()

    def _vectors(self, observation: Any) -> Tensor:
        return self._tensor(observation["policy"] if isinstance(observation, Mapping) else observation).float()

    def _tensor(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
            raise ConfigurationError(
                f"task {self._name}: it gives {type(value).__name__} where torch tensors or dlpack are needed; a world "
                "in numpy is --task gym:ENVIRONMENT or FILE.py:NAME"
            )
        tensor: Tensor = torch.utils.dlpack.from_dlpack(value)
        return tensor


WORLDS: Mapping[str, type[TorchCartPole]] = {"cartpole": TorchCartPole}


@dataclass(frozen=True)
class TorchTask:
    """Episodes of a world whose copies are tensors; scenarios are as in `hocket.tasks.gym.GymTask`.

    Attributes:
        world: a name of `WORLDS`, or that of a function or class of a user's own. settings: its arguments.
        maker: makes the environment, if it is a user's own. device: where the copies are.

    Raises:
        ConfigurationError: for an unknown world, or one that small networks cannot play.
    """

    world: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    maker: Callable[..., Any] | None = None
    device: str = "cpu"

    kind: ClassVar[Literal["control"]] = "control"
    leads: ClassVar[str] = "greedy"
    rewards: ClassVar[Sequence[Reward]] = ()

    def __post_init__(self) -> None:
        _ = self._spaces

    @property
    def name(self) -> str:
        return f"torch:{self.world}"

    @cached_property
    def _spaces(self) -> tuple[int, int, bool]:
        made: Any = self.vector()
        try:
            return made.observations, made.actions, made.discrete
        finally:
            made.close()

    @property
    def observations(self) -> int:
        return self._spaces[0]

    @property
    def actions(self) -> int:
        """Options of the choice if `discrete`, else numbers of the action vector."""
        return self._spaces[1]

    @property
    def discrete(self) -> bool:
        return self._spaces[2]

    def vector(self) -> TorchVectorEnv:
        """Opens the copies."""
        arguments = dict(self.settings)
        try:
            if self.maker is None:
                return WORLDS[self.world](device=self.device, **arguments)
            made = self.maker(**arguments)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(f"task {self.name} cannot be made: {type(error).__name__}: {error}") from error
        world: TorchVectorEnv = made if hasattr(made, "copies") else TensorEnvironment(made, self.name)
        return world

    def on(self, device: torch.device) -> Self:
        """The same with its copies on a device; a user's own environment says itself where they are."""
        return self if self.maker is not None else replace(self, device=str(device))

    # ------------------------------------------------------------ scenarios

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")
        return Scenario(id=f"{self.world}/{seed}", seed=seed, metadata={"environment": self.name})

    def success(self, trajectory: Trajectory) -> float:
        """The undiscounted return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`truncated`: whether a limit of time ended the episode."""
        return {"truncated": float(trajectory.truncated)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """As for the same problems of Gymnasium."""
        return gym.suggested(recipe, discrete=self.discrete)


def from_settings(name: str, settings: Mapping[str, str]) -> TorchTask:
    """The task with these settings, read as JSON where they can be."""
    world, values = name.removeprefix("torch:"), {key: read_value(text) for key, text in settings.items()}
    if ".py:" in world:
        return TorchTask(world.rpartition(":")[2], values, load_object(world, "task"))
    if world not in WORLDS:
        raise ConfigurationError(
            f"task torch:{world}: there is no such world; there is {', '.join(WORLDS)}, and your own is "
            "torch:FILE.py:NAME"
        )
    return TorchTask(world, values)


TORCH = TaskForm(
    name="torch:WORLD",
    description="worlds whose copies are torch tensors on a device, e.g. torch:cartpole?copies=64, torch:FILE.py:NAME",
    family="packages",
    make=from_settings,
)
