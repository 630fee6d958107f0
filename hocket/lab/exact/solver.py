"""What a solver is: a rule that makes one state of arrays from the one before, with an answer whose value is exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from hocket.core.discovery import Registry, constant
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import World

State = Mapping[str, NDArray[Any]]
"""All that a solver remembers, by name; a checkpoint holds these arrays."""

SOLVERS = Registry("solver", ("hocket.lab.exact", "hocket.methods"), constant("SolverMethod"))
"""Every solver of the library and of installed packages by name."""


class Solver(ABC):
    """One step after the other in a world. A frozen dataclass: its fields are its settings.

    Attributes:
        world: what it can solve; `checked` refuses others.
    """

    world: ClassVar[type] = TabularMDP

    @abstractmethod
    def init(self, world: Any, key: Key) -> State:
        """What it remembers before the first step."""

    @abstractmethod
    def step(self, world: Any, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        """The next state, and figures of the step. All draws come from `key`."""

    @abstractmethod
    def answer(self, world: Any, state: State) -> Array:
        """What the last step chose, of which `world.value` tells the value; its last axis holds shares."""

    def checked(self, world: World) -> None:
        """Refuses a world that it is not for.

        Raises:
            ConfigurationError: naming what it solves.
        """
        if not isinstance(world, type(self).world):
            raise ConfigurationError(
                f"{type(self).__name__} solves a {type(self).world.__name__}; {world.name} is a {type(world).__name__}"
            )


class EpisodicSolver(Solver):
    """Of tabular worlds with a horizon."""

    def checked(self, world: World) -> None:
        super().checked(world)
        if cast(TabularMDP, world).horizon is None:
            raise ConfigurationError(
                f"{type(self).__name__} learns from episodes, and those of {world.name} are endless; take a world with "
                "a horizon, such as lock:10"
            )


@dataclass(frozen=True)
class SolverMethod:
    """A solver by name.

    Attributes:
        name: as `hocket solve --method` takes it; a paper's is its catalogue id. title, source: of the paper.
        world, steps: the defaults of `hocket solve`. note: what is weaker than in the paper; such a row
            is partial.
    """

    name: str
    description: str
    solver: Solver
    world: str
    steps: int
    source: str = ""
    note: str = ""


def changed(before: NDArray[Any], after: NDArray[Any]) -> float:
    """The mean total variation between the rows of two answers; 1 where their shapes differ."""
    if before.shape != after.shape:
        return 1.0
    return float(0.5 * np.abs(after - before).sum(-1).mean())
