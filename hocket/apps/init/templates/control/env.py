"""The environment: a cart on a line that must come to rest at a goal."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Dock(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Observed are the distance to the goal and the speed; an action pushes left, not at all, or right.

    Args:
        length: the steps of an episode.
    """

    def __init__(self, length: int = 50) -> None:
        self.length = length
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.distance = self.speed = 0.0
        self.time = 0

    def _observation(self) -> NDArray[np.float32]:
        return np.clip(np.array([self.distance, 5 * self.speed], np.float32), -10.0, 10.0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins an episode at a random distance, at rest."""
        super().reset(seed=seed)
        self.distance, self.speed, self.time = float(self.np_random.uniform(-2, 2)), 0.0, 0
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves by one step; the reward is 1 at rest at the goal, and less the farther or faster the cart is."""
        self.speed += 0.05 * (int(action) - 1)
        self.distance += self.speed
        self.time += 1
        reward = max(0.0, 1.0 - abs(self.distance) - abs(self.speed))
        return self._observation(), reward, False, self.time >= self.length, {}
