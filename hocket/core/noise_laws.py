"""Noise laws: how a sampler's prediction becomes the normal distribution of the next state.

Every law is linear: the mean of the next state is `state * x + prediction * f(x)`, and its deviation is the same in all
dimensions. So a recorded step holds three numbers in place of a law, and whoever evaluates it needs no schedule. A step
of deviation 0 is no decision.

A schedule of flows is noise levels from 1 to 0, of a path x = (1 - s) x0 + s z whose prediction is the velocity z - x0.
A schedule of diffusion is the cumulative products of alpha, rising, the last that of clean data, of a path
x = sqrt(a) x0 + sqrt(1 - a) z whose prediction is the noise z.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Path = Literal["flow", "diffusion", "consistency"]

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
FLOOR = 1e-5
"""The least deviation of a step: below it a log-density is no number to learn from, and the step is taken without
noise."""


@dataclass(frozen=True)
class StepCoefficients:
    """One step: the factors of state and prediction in the mean of the next state, and its deviation."""

    state: float
    prediction: float
    deviation: float

    @property
    def decides(self) -> bool:
        return self.deviation > 0.0


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """The noise of sampling steps. `path` says whose schedules it goes with."""

    path: ClassVar[Path]

    @abstractmethod
    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        """The step from `schedule[place]` to `schedule[place + 1]`."""

    @property
    def silent(self) -> bool:
        """Whether it adds no noise anywhere, so that nothing is decided."""
        return False


@dataclass(frozen=True)
class FlowODE(NoiseLaw):
    """Euler's step along the velocity, without noise."""

    path: ClassVar[Path] = "flow"

    @property
    def silent(self) -> bool:
        return True

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        return StepCoefficients(1.0, float(schedule[place + 1] - schedule[place]), 0.0)


@dataclass(frozen=True)
class FlowSDE(NoiseLaw):
    """Flow-GRPO's stochastic sampler (arXiv:2505.05470, `sde_step_with_logprob`).

    The diffusion coefficient is `level * sqrt(s / (1 - s))`; where s is 1, the schedule's second level takes its place
    in the denominator. With it marginals approach those of the ODE as steps become small, at the first step slowly.
    """

    level: float = 0.7

    def __post_init__(self) -> None:
        _check(self.level, "level")

    path: ClassVar[Path] = "flow"

    @property
    def silent(self) -> bool:
        return self.level == 0.0

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        start, end = float(schedule[place]), float(schedule[place + 1])
        below = float(schedule[1]) if start == 1.0 else start
        # One step from noise to data: its only level in the denominator would be 0.
        below = min(below, 1.0 - 1e-3)
        return _drifted(start, end, self.level * math.sqrt(start / (1.0 - below)))


@dataclass(frozen=True)
class ConstantSDE(NoiseLaw):
    """DanceGRPO's stochastic sampler (arXiv:2505.07818, `flux_step`): the diffusion coefficient is `eta` throughout."""

    eta: float = 0.3

    def __post_init__(self) -> None:
        _check(self.eta, "eta")

    path: ClassVar[Path] = "flow"

    @property
    def silent(self) -> bool:
        return self.eta == 0.0

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        return _drifted(float(schedule[place]), float(schedule[place + 1]), self.eta)


@dataclass(frozen=True)
class CPS(NoiseLaw):
    """Coefficient-preserving sampling (flow_grpo, `sde_type = cps`; arXiv:2509.05952).

    The next state is `(1 - s') x0 + sqrt(s'^2 - d^2) z + d noise` with d = s' sin(level pi / 2), so that it has as much
    noise as the schedule says. The last step, to 0, has none. Its noise does not shrink with the steps: at one level,
    many steps lose spread of the data, where the marginals of the SDEs approach the ODE's.
    """

    level: float = 0.7

    def __post_init__(self) -> None:
        if not 0.0 <= self.level <= 1.0:
            raise ValueError(f"level must be in [0, 1], not {self.level}")

    path: ClassVar[Path] = "flow"

    @property
    def silent(self) -> bool:
        return self.level == 0.0

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        start, end = float(schedule[place]), float(schedule[place + 1])
        deviation = end * math.sin(self.level * math.pi / 2)
        left = math.sqrt(max(0.0, end**2 - deviation**2))
        # x0 = x - s v and z = x + (1 - s) v.
        return _floored(1.0 - end + left, left * (1.0 - start) - (1.0 - end) * start, deviation)


@dataclass(frozen=True)
class DDIM(NoiseLaw):
    """DDIM (arXiv:2010.02502, equation 12) as DDPO uses it; `eta` 1 has DDPM's noise, 0 none."""

    eta: float = 1.0

    def __post_init__(self) -> None:
        _check(self.eta, "eta")

    path: ClassVar[Path] = "diffusion"

    @property
    def silent(self) -> bool:
        return self.eta == 0.0

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        start, end = float(schedule[place]), float(schedule[place + 1])
        deviation = self.eta * math.sqrt((1 - end) / (1 - start) * (1 - start / end))
        if self.eta > 1.0 and deviation**2 > 1 - end:
            raise ValueError(f"eta = {self.eta}: step {place} would add more noise than is to be in it; lower it")
        clean = math.sqrt(end / start)
        left = math.sqrt(max(0.0, 1 - end - deviation**2))
        return _floored(clean, left - clean * math.sqrt(1 - start), deviation)


@dataclass(frozen=True)
class DDPM(NoiseLaw):
    """Ancestral sampling (arXiv:2006.11239) as DPPO uses it; the deviation is at least `floor` wherever there is noise.

    DPPO also cuts off the predicted action, which is not linear and is left out.
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        _check(self.floor, "floor")

    path: ClassVar[Path] = "diffusion"

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        start, end = float(schedule[place]), float(schedule[place + 1])
        alpha = start / end
        clean = math.sqrt(end) * (1 - alpha) / (1 - start)
        carried = math.sqrt(alpha) * (1 - end) / (1 - start)
        deviation = max(math.sqrt((1 - alpha) * (1 - end) / (1 - start)), self.floor)
        return _floored(carried + clean / math.sqrt(start), -clean * math.sqrt((1 - start) / start), deviation)


@dataclass(frozen=True)
class Consistency(NoiseLaw):
    """Noise between the steps of a consistency model (arXiv:2303.01469, algorithm 1): D(x, s) + sqrt(s'^2 - least^2) z.

    Its schedule is noise levels of a path x = x0 + s z, falling to `least`; the prediction is clean data.
    """

    least: float = 0.002

    def __post_init__(self) -> None:
        _check(self.least, "least")

    path: ClassVar[Path] = "consistency"

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        end = float(schedule[place + 1])
        return _floored(0.0, 1.0, math.sqrt(max(0.0, end**2 - self.least**2)))


@dataclass(frozen=True)
class DenoisedODE(NoiseLaw):
    """Euler's step of the probability flow of a path x = x0 + s z, whose prediction is clean data."""

    path: ClassVar[Path] = "consistency"

    @property
    def silent(self) -> bool:
        return True

    def step(self, schedule: NDArray[np.float64], place: int) -> StepCoefficients:
        carried = float(schedule[place + 1] / schedule[place])
        return StepCoefficients(carried, 1.0 - carried, 0.0)


@dataclass(frozen=True)
class Window:
    """The steps that decide: `count` from `first` on (all that follow if it is None); others go without noise.

    A window that would end after the last step is moved back.
    """

    first: int = 0
    count: int | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or (self.count is not None and self.count < 1):
            raise ValueError(f"first must be at least 0 and count at least 1, not {self.first} and {self.count}")

    def of(self, steps: int) -> range:
        """The steps of a sampler with `steps`."""
        count = steps if self.count is None else min(self.count, steps)
        first = min(self.first, steps - (1 if self.count is None else count))
        return range(first, min(steps, first + count))


class ScheduledSteps(int):
    """A number of steps with the noise levels `[steps + 1]` of a sampler's own schedule, from 1 to 0."""

    levels: NDArray[np.float64]

    @staticmethod
    def at(levels: NDArray[np.float64]) -> ScheduledSteps:
        """The steps between `levels`."""
        steps = ScheduledSteps(len(levels) - 1)
        steps.levels = levels
        return steps


def flow_schedule(steps: int, shift: float = 1.0) -> NDArray[np.float64]:
    """Noise levels from 1 to 0: those of `ScheduledSteps`, or evenly spaced before a `shift` towards noise (SD3's)."""
    if isinstance(steps, ScheduledSteps):
        return steps.levels
    even = np.linspace(1.0, 0.0, steps + 1)
    shifted: NDArray[np.float64] = shift * even / (1 + (shift - 1) * even)
    return shifted


def log_density(action: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """The log-density of `[B, D]` in nats, float64, `[B]`; deviations are `[B]`, alike in all dimensions."""
    gap = (action.double() - mean.double()) / deviation[:, None]
    return (-0.5 * gap.square()).sum(1) - action.shape[1] * (deviation.log() + HALF_LOG_TAU)


def without_noise(law: NoiseLaw) -> NoiseLaw:
    """The deterministic sampler of the same path."""
    return {"flow": FlowODE(), "diffusion": DDIM(0.0), "consistency": DenoisedODE()}[law.path]


def steps_of(law: NoiseLaw, schedule: NDArray[np.float64], window: Window = Window()) -> list[StepCoefficients]:
    """All steps of a schedule: the law's in the window, deterministic ones elsewhere."""
    inside, quiet, count = window.of(len(schedule) - 1), without_noise(law), len(schedule) - 1
    return [(law if place in inside else quiet).step(schedule, place) for place in range(count)]


def _drifted(start: float, end: float, diffusion: float) -> StepCoefficients:
    """Euler-Maruyama's step of the SDE with the ODE's marginals: drift v + g^2 / (2 s) (x + (1 - s) v)."""
    step, drift = end - start, diffusion**2 / (2 * start)
    state, prediction = 1 + drift * step, (1 + drift * (1 - start)) * step
    return _floored(state, prediction, diffusion * math.sqrt(-step))


def _floored(state: float, prediction: float, deviation: float) -> StepCoefficients:
    return StepCoefficients(state, prediction, deviation if deviation >= FLOOR else 0.0)


def _check(value: float, name: str) -> None:
    if not (value >= 0.0 and math.isfinite(value)):
        raise ValueError(f"{name} must be at least 0, not {value}")
