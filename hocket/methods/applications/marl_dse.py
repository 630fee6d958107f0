"""Design of a memory controller by one agent a parameter (Krishnan et al., arXiv:2211.16385).

A design is a value of each of six parameters of a DRAM controller. In one softmax over all 4,096 designs every design
must be tried; with an agent a parameter, each of which runs its own PPO on the same reward, a try says something about
six values. That is worth it where parameters matter by themselves, and misleads where they matter in pairs. Then the
pair can be one agent's (`block=2`).

The authors ask a simulator of DRAM for cycles. Here latency and power are formulas: what a row costs that is open,
closed or another's, a queue before the banks, and refreshes that are put off or pulled in. `interaction` plants a pair:
both refresh settings at their largest cost nothing extra, one of them alone the most. The world brings no learner, so
the row is no recipe: `hocket train --task dse --recipe ippo --cast separate`, and `--task "dse?block=6" --recipe ppo`
is the one softmax.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]

PARAMETERS: Mapping[str, tuple[float, ...]] = {
    "page": (1.0, 0.7, 0.3, 0.0),
    "scheduler": (0.0, 0.5, 0.9, 0.7),
    "buffer": (1.0, 2.0, 4.0, 8.0),
    "active": (2.0, 4.0, 8.0, 16.0),
    "postponed": (1.0, 2.0, 4.0, 8.0),
    "pulled": (1.0, 2.0, 4.0, 8.0),
}
"""The share of rows left open, the share of hits that reordering finds, requests that wait and that are served at once,
and refreshes put off and pulled in."""

VALUES = 4
"""Of each parameter."""

WORKLOADS: Mapping[str, tuple[float, float]] = {"stream": (0.9, 0.8), "random": (0.1, 0.5), "cloud": (0.5, 0.65)}
"""The share of requests to a row that is open, and the load of the banks."""

TARGETS: Mapping[str, float] = {"latency": 1.0, "power": 0.0, "both": 0.5}
"""The exponent of latency in the cost; that of power is the rest."""

DEFAULT = (0, 0, 0, 0, 0, 0)
"""The design whose cost counts as 1."""


@dataclass(frozen=True)
class DesignSpace:
    """One design an episode; every agent is paid how many times less it costs than `DEFAULT`.

    What is seen is a constant, for a workload is fixed. An agent is a parameter. The last `block` of them are one
    agent's, whose choice in base 4 has their values as digits.

    Attributes:
        workload, target: of `WORKLOADS` and `TARGETS`. interaction: by how much the planted pair multiplies the cost.
    """

    workload: str = "cloud"
    target: str = "latency"
    interaction: float = 0.0
    block: int = 1

    def __post_init__(self) -> None:
        for what, value, known in (("workload", self.workload, WORKLOADS), ("target", self.target, TARGETS)):
            if value not in known:
                raise ConfigurationError(f"task dse: there is no {what} {value!r}; choose from {', '.join(known)}")
        if not 0 <= self.interaction < float("inf"):
            raise ConfigurationError(f"task dse: interaction = {self.interaction}; it is at least 0")
        if not 1 <= self.block <= len(PARAMETERS):
            raise ConfigurationError(f"task dse: block = {self.block}; it is from 1 to {len(PARAMETERS)} parameters")

    @property
    def name(self) -> str:
        return "dse"

    @property
    def agents(self) -> tuple[str, ...]:
        alone, names = len(PARAMETERS) - self.block, tuple(PARAMETERS)
        return (*names[:alone], "-".join(names[alone:]))

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (*(Seat(1, VALUES),) * (len(PARAMETERS) - self.block), Seat(1, VALUES**self.block))

    @property
    def joint(self) -> int:
        return 0

    def figures(self, design: NDArray[np.int64]) -> tuple[Array, Array]:
        """Latency in nanoseconds and power in watts of designs `[.., 6]`."""
        opened, reorder, buffer, active, postponed, pulled = (
            np.asarray(values)[design[..., number]] for number, values in enumerate(PARAMETERS.values())
        )
        locality, load = WORKLOADS[self.workload]
        hits = opened * (locality + (1 - locality) * 0.3 * reorder)
        # A hit takes 15 ns, a closed row 30, another's open row 45.
        service = 15 * hits + (1 - hits) * (30 + 15 * opened)
        busy = load * (1 - 0.35 * (1 - 1 / active)) * (1 - 0.1 * reorder)
        queue = 30 * busy / (1 - busy) * (1 + 0.6 / buffer)
        refresh = 12 / (1 + 0.4 * np.log2(postponed)) + 6 / (1 + 0.3 * np.log2(pulled))
        power = 0.6 + 0.02 * buffer + 0.012 * active + 0.25 * opened * (1 - hits) + 0.08 * reorder
        power = power + 0.01 * postponed + 0.015 * pulled
        return service + queue + refresh, power

    def cost(self, design: NDArray[np.int64]) -> Array:
        """What designs `[.., 6]` cost, in units that `reward` divides by."""
        latency, power = self.figures(design)
        share = TARGETS[self.target]
        largest = design[..., 4:] == VALUES - 1
        mismatch = np.where(largest.all(-1), 0.0, np.where(largest.any(-1), 1.0, 0.5))
        planted: Array = latency**share * power ** (1 - share) * (1 + self.interaction * mismatch)
        return planted

    def reward(self, design: NDArray[np.int64]) -> Array:
        """How many times less than `DEFAULT` without a planted pair these designs `[.., 6]` cost."""
        plain = DesignSpace(self.workload, self.target)
        return np.asarray(plain.cost(np.array(DEFAULT)) / self.cost(design), np.float64)

    def oracle(self, seed: int) -> BestValue:
        """The best of all designs."""
        return BestValue(best_reward(self))

    def open(self, width: int) -> Designs:
        return Designs(self, width)


@functools.cache
def best_reward(world: DesignSpace) -> float:
    """By trying every design."""
    every = np.array(list(itertools.product(range(VALUES), repeat=len(PARAMETERS))))
    return float(world.reward(every).max())


class Designs(JointEnvironment):
    """Designs in as many copies."""

    def __init__(self, world: DesignSpace, width: int) -> None:
        self.world, self.width = world, width

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        *alone, last = (np.asarray(action, np.int64) for action in actions)
        digits = [last // VALUES**place % VALUES for place in reversed(range(self.world.block))]
        chosen = np.stack([*alone, *digits], -1)
        paid = np.repeat(self.world.reward(chosen)[:, None], len(self.world.agents), 1)
        over = np.ones(paid.shape, bool)
        return Moved(paid, over, ~over)

    def seen(self) -> list[NDArray[np.float32]]:
        return [np.ones((self.width, 1), np.float32) for _ in self.world.agents]


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 20,
    "update.lr": 3e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _design_space(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"workload": str, "target": str, "interaction": float, "block": int}
    return native_task(name, settings, hints, DesignSpace, _SUGGESTED)


DSE = TaskForm(
    name="dse",
    description="the design of a memory controller, an agent a parameter, e.g. dse?target=latency",
    make=_design_space,
)

MARL_DSE = Analysis(
    name="marl-dse",
    title="Multi-agent reinforcement learning for microprocessor design space exploration",
    where="docs/applications.md",
    kind="application",
)
