"""TempoRL: the shape of a laser pulse in time, by changes of its spectral phase.

A spectrum S(w) with the phase `g2 w^2/2 + g3 w^3/6 + g4 w^4/24` is the pulse

    E(t) = IFFT[ sqrt(S(w)) exp(i phase(w)) ].

Whatever the phase its energy is the same (Parseval), and without any it is shortest: a Gaussian spectrum then has a
product of duration and bandwidth, both at half of the maximum, of 2 ln 2 / pi = 0.441. An episode begins with a
dispersion that nobody knows; an action changes the phase that is set against it, and pays what the peak of the
intensity gains, in units of that of the shortest pulse. A policy that was trained over random dispersions corrects a
new one in a few measurements, where a search begins anew each time.

The authors shape measured spectra, with off-policy learners; here spectra are Gaussian, and PPO learns. The world
brings no learner, so it is no recipe: `hocket train --task laser --recipe ppo`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]

POINTS = 128
"""Frequencies of the spectrum, and moments of the pulse."""

SPACING = 0.2
"""Between frequencies, in units of the spectrum's standard deviation."""

FREQUENCIES = (np.arange(POINTS) - POINTS // 2) * SPACING
AMPLITUDES = np.exp(-(FREQUENCIES**2) / 4)
"""The square root of a Gaussian spectrum of deviation 1."""

SHOWN = 24
"""Moments around the middle of the pulse that are seen."""

FACTORS = np.stack([FREQUENCIES**2 / 2, FREQUENCIES**3 / 6, FREQUENCIES**4 / 24])
RANGES = np.array([3.0, 1.0, 0.5])
"""The largest dispersion of second, third and fourth order."""

SHARPEST = 0.4
"""What an action changes at most, in units of `RANGES`."""


def pulse(phase: Array) -> Array:
    """The intensity `[.., POINTS]` over time of spectra with these dispersions, `[.., 3]`; the shortest peaks at 1."""
    field = AMPLITUDES * np.exp(1j * (phase @ FACTORS))
    moments = np.fft.fftshift(np.fft.ifft(np.fft.ifftshift(field, axes=-1), axis=-1), axes=-1)
    return np.asarray(np.abs(moments) ** 2 / (AMPLITUDES.sum() / POINTS) ** 2, np.float64)


@dataclass(frozen=True)
class Laser:
    """`length` changes of the phase set against an unknown dispersion, which is drawn evenly within `RANGES`.

    What is seen: the pulse around its middle now and before the last change, the last change, the phase that is set,
    and the peak. A pulse looks the same whether second order is above or below, so a change must show which.
    """

    length: int = 8

    def __post_init__(self) -> None:
        if self.length < 4:
            raise ConfigurationError(
                f"task {self.name} needs at least 4 changes, for the largest dispersion takes 3; not {self.length}"
            )

    @property
    def name(self) -> str:
        return "laser"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("shaper",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(2 * SHOWN + 7, 3, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def dispersion(self, seed: int) -> Array:
        """What the phase must be set against, `[3]`."""
        drawn: Array = Key.of(seed).derive("laser").numpy().uniform(-1, 1, 3) * RANGES
        return drawn

    def oracle(self, seed: int) -> BestValue:
        """The shortest pulse peaks at 1; what it begins with is summed up by hand, over a fine grid of time."""
        grid = np.linspace(-np.pi / SPACING, np.pi / SPACING, 4 * POINTS, endpoint=False)
        angles = np.outer(grid, FREQUENCIES) + self.dispersion(seed) @ FACTORS
        sums = np.hypot((AMPLITUDES * np.cos(angles)).sum(1), (AMPLITUDES * np.sin(angles)).sum(1))
        # Every fourth moment is one that the world sees.
        return BestValue(1 - float((sums[::4] / AMPLITUDES.sum()).max()) ** 2)

    def open(self, width: int) -> Pulses:
        return Pulses(self, width)


class Pulses(JointEnvironment):
    """Pulses in as many copies.

    Attributes:
        phase: what is left of the dispersion, `[B, 3]`. set: what is set against it. shape: the intensity, `[B, T]`.
    """

    def __init__(self, world: Laser, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.phase, self.set, self.change = (np.zeros((width, 3)) for _ in range(3))
        self.shape, self.earlier = np.zeros((width, POINTS)), np.zeros((width, POINTS))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        self.phase[places] = [self.world.dispersion(seed) for seed in seeds]
        self.set[places] = self.change[places] = self.time[places] = 0
        self.shape[places] = self.earlier[places] = pulse(self.phase[places])
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        change = SHARPEST * np.clip(np.asarray(actions[0], np.float64), -1, 1) * live[:, None]
        self.phase, self.set, self.change = self.phase + change * RANGES, self.set + change, change / SHARPEST
        self.earlier, self.shape = self.shape, pulse(self.phase)
        self.time = self.time + live
        over = (self.time >= self.world.length)[:, None]
        gain = self.shape.max(-1) - self.earlier.max(-1)
        return Moved(gain[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        middle = slice(POINTS // 2 - SHOWN // 2, POINTS // 2 + SHOWN // 2)
        parts = [self.shape[:, middle], self.earlier[:, middle], self.change, self.set, self.shape.max(-1)[:, None]]
        return [np.concatenate(parts, 1).astype(np.float32)]


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 256,
    "rollout.samples": 1,
    "steps": 90,
    "credit.gamma": 0.9,
    "credit.lam": 0.9,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _laser(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"length": int}, Laser, _SUGGESTED)


LASER = TaskForm(
    name="laser",
    description="the phase of a laser pulse against an unknown dispersion, e.g. laser?length=8",
    make=_laser,
)

TEMPORL = Analysis(
    name="temporl",
    title="TempoRL: laser pulse temporal shape optimization with Deep Reinforcement Learning",
    where="docs/applications.md",
    kind="application",
)
