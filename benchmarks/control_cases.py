"""What both sides of a comparison of controllers are given, and how a worker of one answers; see `vs_control.py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import BUILD, Stopwatch
from numpy.typing import NDArray
from sides import Line

PYTHON = Path(os.environ.get("HOCKET_CONTROL_PYTHON") or BUILD / "control" / "bin" / "python")
"""Of the environment that both sides run in, so that both have the same torch, numpy, gymnasium and worlds."""
PEERS = ("stable-baselines3", "gymnasium[mujoco]", "mpe2", "benchmarl")
TORCH = "torch==2.13.0"

GOAL, EPISODES, LONGEST = 475.0, 50, 500
"""CartPole is solved at this mean return of so many episodes, each of at most 500 steps."""


@dataclass(frozen=True)
class Work:
    """One update of PPO, the same on both sides.

    Attributes:
        world: the environment's name. episodes: whole ones, of `length` joint steps each.
        rows: joint steps in a mini-batch. epochs: passes over the batch.
    """

    world: str
    episodes: int
    length: int
    rows: int
    epochs: int

    @property
    def steps(self) -> int:
        return self.episodes * self.length

    @property
    def minibatches(self) -> int:
        return self.steps // self.rows


WORKS = {
    "cheetah": Work("HalfCheetah-v5", episodes=8, length=1000, rows=64, epochs=10),
    "spread": Work("simple_spread_v3", episodes=64, length=25, rows=400, epochs=10),
}
"""Stable-Baselines3's default mini-batch and epochs; BenchMARL's default mini-batch."""


def begin() -> None:
    """One thread, in a folder where what worlds write is out of the way (MuJoCo keeps a log)."""
    import torch

    torch.set_num_threads(1)
    BUILD.mkdir(exist_ok=True)
    os.chdir(BUILD)


def answer(step: Callable[[int], dict[str, Any]], watch: Stopwatch, **about: Any) -> None:
    """Answers as a worker. `step` says what it did, `watch` how long it took; the first, numbered 0, warms up."""
    line, number = Line(), 0
    line.tell(threads=1, **about)
    while line.wait():
        found = step(number)
        line.tell(**watch.take(), **found)
        number += 1
    line.tell()


class Judge:
    """Whether a controller solves CartPole, greedily, on episodes that neither side trains on.

    It gives up as soon as too many steps are lost for the goal to be reached, so that a beginner costs little.
    """

    def __init__(self) -> None:
        import gymnasium

        self._worlds = [gymnasium.make("CartPole-v1", disable_env_checker=True).unwrapped for _ in range(EPISODES)]

    def solved(self, act: Callable[[NDArray[np.float32]], Sequence[int] | NDArray[Any]]) -> bool:
        """Whether the mean return is at least `GOAL`; `act` gives an action for each row `[E, 4]`."""
        worlds = self._worlds
        seen = np.stack([world.reset(seed=10**6 + number)[0] for number, world in enumerate(worlds)])
        alive, left = list(range(EPISODES)), (LONGEST - GOAL) * EPISODES
        for step in range(1, LONGEST):
            actions, kept = act(seen), []
            for place in alive:
                seen[place], _, ended, _, _ = worlds[place].step(int(actions[place]))
                if ended:
                    left -= LONGEST - step
                else:
                    kept.append(place)
            alive = kept
            if left < 0:
                return False
            if not alive:
                break
        return True
