"""FluidLab: slopes through a simulator of fluids, where they help and where they mislead (arXiv:2303.02346).

The authors couple several materials on a GPU and optimise trajectories by the slope of a loss through the simulator.
Small worlds stand in here, which keep what the paper shows.

`channel` is shallow water in one dimension between walls, in torch from end to end:

    h_t + q_x = 0,   q_t + (q^2/h + g h^2/2)_x = h a(t, x),

by finite volumes with Lax-Friedrichs fluxes. Two pumps push the water until its surface has a target shape. `optimised`
follows the slope of the loss through it; `hocket train --task channel --recipe ppo` learns a policy without slopes.

`dropped` lets a ball fall through round pegs that push it back like springs. Stiff ones are nearly a contact: how far a
ball lands then hangs on where it began, and the slope is right at every point and says little of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

CELLS = 24
"""Of the channel, whose length is 1 and whose water is 1 deep at rest; gravity is 1, so that waves travel at 1."""

SPEED = 1.5
"""The largest speed of waves that the fluxes allow for."""

MOMENTS = 3
"""Steps of the simulator in a step of the pumps."""

PUMPS = 2
STRENGTH = 0.5
"""The largest acceleration of a pump."""


def courant(cells: int) -> float:
    """A step of time: waves pass nine tenths of a cell in it."""
    return 0.9 / (cells * SPEED)


def advanced(height: Tensor, flow: Tensor, push: Tensor | float) -> tuple[Tensor, Tensor]:
    """Depth and discharge `[B, N]` after a step of time, under an acceleration `[B, N]`."""
    cells = height.shape[1]
    # Walls are mirrors: as deep beyond, and flowing the other way.
    depth = torch.cat([height[:, :1], height, height[:, -1:]], 1)
    through = torch.cat([-flow[:, :1], flow, -flow[:, -1:]], 1)
    pressure = through**2 / depth + depth**2 / 2
    ratio = courant(cells) * cells

    def flux(carried: Tensor, of: Tensor) -> Tensor:
        return (carried[:, 1:] + carried[:, :-1]) / 2 - SPEED / 2 * (of[:, 1:] - of[:, :-1])

    mass, momentum = flux(through, depth), flux(pressure, through)
    risen = height - ratio * (mass[:, 1:] - mass[:, :-1])
    pushed = flow - ratio * (momentum[:, 1:] - momentum[:, :-1]) + courant(cells) * height * push
    return risen, pushed


def pumped(height: Tensor, flow: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Depth and discharge after a step of the pumps, whose actions `[B, 2]` are within [-1, 1] by clipping."""
    places = (torch.arange(height.shape[1], dtype=height.dtype) + 0.5) / height.shape[1]
    reach = torch.stack([torch.exp(-(((places - centre) / 0.12) ** 2)) for centre in (0.25, 0.75)])
    push = STRENGTH * action.clamp(-1, 1) @ reach
    for _ in range(MOMENTS):
        height, flow = advanced(height, flow, push)
    return height, flow


def misfit(height: Tensor, target: Tensor) -> Tensor:
    """The mean square by which surfaces `[B, N]` miss their targets, in units of a wave of height 0.1, `[B]`."""
    return ((height - target) ** 2).mean(1) / 0.005


def played(actions: Tensor, target: Tensor) -> Tensor:
    """The misfit `[B]` after these actions `[B, T, 2]` on water at rest."""
    height, flow = torch.ones_like(target), torch.zeros_like(target)
    for moment in range(actions.shape[1]):
        height, flow = pumped(height, flow, actions[:, moment])
    return misfit(height, target)


def optimised(
    target: Tensor, length: int, rollouts: int, *, pairs: int = 0, lr: float = 0.1, width: float = 0.2, key: Key
) -> list[float]:
    """The misfit of actions before each rollout of their optimisation by Adam, which begins without any push.

    Args:
        target: a surface, `[N]`. length: steps of the pumps.
        pairs: rollouts of noise of deviation `width`, and of its opposite, by which a slope is estimated from misfits
            alone; with 0 it is taken through the simulator, at a rollout each.
    """
    actions = torch.zeros(length, PUMPS, dtype=target.dtype, requires_grad=True)
    optimiser, losses, number = torch.optim.Adam([actions], lr=lr), list[float](), 0
    while len(losses) < rollouts:
        if pairs:
            noise = torch.from_numpy(key.derive(number).numpy().normal(size=(pairs, length, PUMPS))).to(target)
            centre = actions.detach()[None]
            tried = torch.cat([centre, centre + width * noise, centre - width * noise])
            with torch.no_grad():
                lost = played(tried, target.expand(len(tried), -1))
            loss, rise = lost[:1], lost[1 : pairs + 1] - lost[pairs + 1 :]
            actions.grad = (rise[:, None, None] * noise).mean(0) / (2 * width)
        else:
            optimiser.zero_grad()
            loss = played(actions[None], target[None])
            torch.autograd.backward(loss.sum())
        optimiser.step()
        losses += [float(loss.detach().sum())] * max(1, 2 * pairs)
        number += 1
    return losses[:rollouts]


PEG = 0.3
"""The radius of a peg; rows of pegs are 1 apart, and so are the pegs of a row."""


def dropped(start: Tensor, stiffness: float, rows: int = 4, moments: int = 200) -> Tensor:
    """Where balls land `[B]` that begin at these places `[B]` and fall through rows of pegs, each row half a gap on.

    They fall at a speed of 1; a peg pushes sideways and up with `stiffness` times the depth of a ball in it, and what
    it pushes up is made good until the next row.
    """
    place, drift, step = start, torch.zeros_like(start), rows / moments
    for moment in range(moments):
        below = moment * step
        row = int(below)
        height = below - row - 0.5
        # The nearest peg of the row, and the way from it.
        aside = torch.remainder(place - 0.5 * (row % 2) + 0.5, 1.0) - 0.5
        distance = (aside**2 + height**2 + 1e-12).sqrt()
        depth = (PEG - distance).clamp(min=0)
        drift = drift + step * (stiffness * depth * aside / distance)
        place = place + step * drift
    return place


@dataclass(frozen=True)
class Channel:
    """`length` steps of the pumps in which the surface is to become one that is drawn for an episode.

    A step pays by how much the misfit falls; it is 1 on average at the start. What is seen: depth and discharge of the
    cells less those at rest, what is missing to the target, and the share of the steps that are over.
    """

    length: int = 12

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ConfigurationError(f"task channel needs at least 2 steps of the pumps, not {self.length}")

    @property
    def name(self) -> str:
        return "channel"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("pumps",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3 * CELLS + 1, PUMPS, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def target(self, seed: int) -> NDArray[np.float64]:
        """Two waves of the channel with drawn heights, `[N]`."""
        places = (np.arange(CELLS) + 0.5) / CELLS
        heights = Key.of(seed).derive("channel").numpy().normal(0, 0.1 / np.sqrt(2), 2)
        waves: NDArray[np.float64] = 1 + heights @ np.cos(np.pi * np.outer([1, 2], places))
        return waves

    def open(self, width: int) -> Water:
        return Water(self, width)


class Water(JointEnvironment):
    """Channels in as many copies: depth, discharge and target, `[B, N]`."""

    def __init__(self, world: Channel, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.height, self.goal = np.ones((width, CELLS)), np.ones((width, CELLS))
        self.flow = np.zeros((width, CELLS))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        self.height[places], self.flow[places], self.time[places] = 1.0, 0.0, 0
        self.goal[places] = [self.world.target(seed) for seed in seeds]
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        action = torch.from_numpy(np.asarray(actions[0], np.float64))
        before, goal = torch.from_numpy(self.height), torch.from_numpy(self.goal)
        after, flow = pumped(before, torch.from_numpy(self.flow), action)
        gain = (misfit(before, goal) - misfit(after, goal)).numpy()
        self.height = np.where(live[:, None], after.numpy(), self.height)
        self.flow = np.where(live[:, None], flow.numpy(), self.flow)
        self.time = self.time + live
        over = (self.time >= self.world.length)[:, None]
        return Moved(gain[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        missing, time = self.goal - self.height, self.time[:, None] / self.world.length
        return [np.concatenate([10 * (self.height - 1), 10 * self.flow, 10 * missing, time], 1).astype(np.float32)]


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 128,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 1.0,
    "credit.lam": 0.95,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _channel(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"length": int}, Channel, _SUGGESTED)


CHANNEL = TaskForm(
    name="channel",
    description="shallow water that pumps bring to a shape, e.g. channel?length=12",
    make=_channel,
)

FLUIDLAB = Analysis(
    name="fluidlab",
    title="FluidLab: a differentiable environment for benchmarking complex fluid manipulation",
    where="docs/applications.md",
    kind="application",
)
