"""Spaces of Gymnasium and PettingZoo as controllers need them: observations as one vector, actions as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.spaces import ranges_of
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import Ranges


@dataclass(frozen=True)
class ObservationPart:
    """A part of an observation that has numbers of its own: its keys from the outside in, and its space."""

    path: tuple[Any, ...]
    space: Any

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The options of every choice that is written as a one-hot vector; empty where numbers are read as they are."""
        if hasattr(self.space, "nvec"):
            return tuple(int(size) for size in np.ravel(self.space.nvec))
        return (int(self.space.n),) if is_choice(self.space) else ()

    @cached_property
    def size(self) -> int:
        """How many numbers it has."""
        return sum(self.sizes) or math.prod(self.space.shape)

    @property
    def grid(self) -> tuple[int, ...]:
        """Its sides, channels included, where it is a grid such as a picture."""
        shape = self.space.shape or ()
        return tuple(int(side) for side in shape) if hasattr(self.space, "low") and len(shape) in (2, 3) else ()

    def read(self, observation: Any) -> NDArray[np.float32]:
        """Its numbers in a whole observation, `[size]`; a copy, since some environments reuse one array."""
        for key in self.path:
            observation = observation[key]
        if not self.sizes:
            return np.array(observation, np.float32).reshape(-1)
        row = np.zeros(self.size, np.float32)
        chosen = np.ravel(observation).astype(np.int64) - np.ravel(getattr(self.space, "start", 0))
        row[chosen + np.cumsum((0, *self.sizes[:-1]))] = 1.0
        return row

    @property
    def title(self) -> str:
        """In words, such as `camera: 8 x 8 x 3`."""
        sides = " x ".join(map(str, self.grid)) if self.grid else str(self.size)
        return f"{'.'.join(map(str, self.path))}: {sides}"


@dataclass(frozen=True)
class FlatObservation:
    """An observation space as a vector of float32. Discrete parts are one-hot; the only grid among parts comes first.

    Raises:
        ConfigurationError: for a space without a fixed number of numbers.
    """

    space: Any
    where: str

    def __post_init__(self) -> None:
        _ = self.parts

    @cached_property
    def parts(self) -> tuple[ObservationPart, ...]:
        """The parts in the order of the vector."""
        parts = tuple(self._leaves(self.space, ()))
        grids = [part for part in parts if part.grid]
        return (*grids, *(part for part in parts if not part.grid)) if len(grids) == 1 else parts

    def _leaves(self, space: Any, path: tuple[Any, ...]) -> Iterator[ObservationPart]:
        inner = getattr(space, "spaces", None)
        if inner is not None and type(space).__name__ in ("Dict", "Tuple"):
            for key, part in inner.items() if hasattr(inner, "items") else enumerate(inner):
                yield from self._leaves(part, (*path, key))
        elif hasattr(space, "low") or choice_sizes(space):
            yield ObservationPart(path, space)
        else:
            within = f" of {'.'.join(map(str, path))}" * bool(path)
            raise ConfigurationError(
                f"{self.where}: its observations{within} are a {type(space).__name__} space; control networks read "
                "Box, Discrete, MultiDiscrete and MultiBinary, and Dict and Tuple of these, so wrap the environment"
            )

    @cached_property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sides of the grid at the beginning of the vector, channels included; empty if there is none."""
        grids = [part.grid for part in self.parts if part.grid]
        return grids[0] if len(grids) == 1 else ()

    @cached_property
    def ranges(self) -> Ranges:
        """Of the numbers that networks do not read as they are."""
        by_part = [ranges_of(part.space) or ((part.size, 0.0, 1.0),) for part in self.parts]
        runs = [run for part in by_part for run in part]
        merged: list[tuple[int, float, float]] = []
        for count, low, high in runs:
            if merged and merged[-1][1:] == (low, high):
                count += merged.pop()[0]
            merged.append((count, low, high))
        return tuple(merged) if any(run[1:] != (0.0, 1.0) for run in merged) else ()

    def read(self, observation: Any) -> NDArray[np.float32]:
        """An observation as a vector, `[size]`."""
        read = [part.read(observation) for part in self.parts]
        return read[0] if len(read) == 1 else np.concatenate(read)

    @property
    def remarks(self) -> tuple[str, ...]:
        """In sentences, what of it a user may not expect."""
        if len(self.parts) < 2:
            return ()
        titles = ", ".join(part.title for part in self.parts)
        return (
            f"{self.where}: observations are a {type(self.space).__name__}, which networks read as one vector of "
            f"{self.size} numbers ({titles})",
        )


# ---------------------------------------------------------------- actions


def choice_sizes(space: Any) -> tuple[int, ...]:
    """The options of every choice of an action space, side by side; empty where some part is no choice."""
    if is_choice(space):
        return (int(space.n),)
    if hasattr(space, "nvec"):
        return tuple(int(size) for size in np.ravel(space.nvec))
    if type(space).__name__ == "MultiBinary":
        return (2,) * int(math.prod(space.shape))
    if type(space).__name__ not in ("Dict", "Tuple"):
        return ()
    inner = [choice_sizes(part) for part in _inner(space)]
    return sum(inner, ()) if all(inner) else ()


def chosen_action(space: Any, chosen: Iterator[int]) -> Any:
    """The action of a space with these choices, each counted from 0."""
    if is_choice(space):
        return next(chosen) + int(getattr(space, "start", 0))
    if type(space).__name__ == "Dict":
        return {key: chosen_action(part, chosen) for key, part in space.spaces.items()}
    if type(space).__name__ == "Tuple":
        return tuple(chosen_action(part, chosen) for part in space.spaces)
    numbers = np.array([next(chosen) for _ in range(math.prod(space.shape))], space.dtype).reshape(space.shape)
    return numbers + getattr(space, "start", 0) if hasattr(space, "nvec") else numbers


def is_vector(space: Any) -> bool:
    """Whether an action space is a Box of real numbers, of any shape."""
    return hasattr(space, "low") and np.issubdtype(space.dtype, np.floating)


def is_choice(space: Any) -> bool:
    """Whether an action space is a single choice."""
    return hasattr(space, "n") and not hasattr(space, "nvec") and type(space).__name__ != "MultiBinary"


def _inner(space: Any) -> Any:
    return space.spaces.values() if hasattr(space.spaces, "values") else space.spaces
