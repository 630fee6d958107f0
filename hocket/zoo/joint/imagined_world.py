"""A learnt world that is played as any other: episodes begin at known states and go on as models believe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.policies.action_values import Critics
from hocket.policies.dynamics import Penalty, penalty, predicted


@dataclass(frozen=True)
class ImaginedWorld:
    """One agent in what an ensemble of models believes; every episode is played by one of them, with its noise.

    A step pays what the model says less `weight` times the ensemble's penalty. Episodes are cut after `length` steps.

    Attributes:
        models: `policy.module.dynamics`. starts: states in which episodes begin, `[N, O]`. actions: dimensions.
        kind: of the penalty, see `hocket.policies.dynamics.penalty`.
    """

    models: Critics = field(repr=False)
    starts: NDArray[np.float32] = field(repr=False)
    actions: int
    length: int = 10
    weight: float = 0.0
    kind: Penalty = "mixture"
    name: str = "imagined"

    def __post_init__(self) -> None:
        if not len(self.starts) or self.length < 1 or self.weight < 0:
            raise ConfigurationError(
                "an imagined world needs a state to start in, a length of at least 1, a weight >= 0"
            )

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(self.starts.shape[1], self.actions, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> JointEnvironment:
        return _Thoughts(self, width)


class _Thoughts(JointEnvironment):
    def __init__(self, world: ImaginedWorld, width: int) -> None:
        self.world, size = world, world.starts.shape[1]
        self.now, self.time = np.zeros((width, size), np.float32), np.zeros(width, np.int64)
        self.words, self.model = np.zeros((width, 1), np.uint64), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            key = Key.of(seed).derive("imagined")
            rng = key.numpy()
            self.now[slot] = self.world.starts[rng.integers(len(self.world.starts))]
            self.model[slot] = rng.integers(len(self.world.models.weights[0]))
            self.time[slot], self.words[slot, 0] = 0, key.derive("noise").word
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world, rows = self.world, np.arange(len(live))
        with torch.no_grad():
            believed = predicted(world.models, torch.from_numpy(self.now), torch.from_numpy(np.asarray(actions[0])))
            doubt = penalty(believed, world.kind).numpy() if world.weight else np.zeros(len(live))
        size = self.now.shape[1] + 1
        counters = (self.time[:, None] * size + np.arange(size)).astype(np.uint64)
        noise = torch.special.ndtri(torch.from_numpy(uniforms(self.words, counters))).float().numpy()
        drawn = believed.mean.numpy()[self.model, rows] + believed.deviation.numpy()[self.model, rows] * noise
        self.now = np.where(live[:, None], self.now + drawn[:, :-1], self.now)
        self.time = self.time + live
        paid = (drawn[:, -1] - world.weight * doubt)[:, None].astype(np.float64)
        cut = (self.time >= world.length)[:, None]
        return Moved(paid, np.zeros_like(cut), cut)

    def seen(self) -> Sequence[NDArray[np.float32]]:
        return (self.now,)
