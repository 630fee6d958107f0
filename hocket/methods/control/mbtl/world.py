"""A family of Gymnasium environments: CartPole with a pole of any length,
`gym:hocket.methods.control.mbtl.world:Pole-v1`.

Everything but the length is CartPole's. `length=0.5` is CartPole itself; as there, it is half the pole's.
"""

from __future__ import annotations

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from hocket.core.errors import ConfigurationError

LONGEST = 200
"""Decisions after which an episode is cut short, also the best return."""


class Pole(CartPoleEnv):  # type: ignore[misc]
    """CartPole with a pole of half the length `length`, in metres.

    Raises:
        ConfigurationError: for a length that is not positive.
    """

    def __init__(self, length: float = 0.5, render_mode: str | None = None) -> None:
        if not (isinstance(length, int | float) and length > 0):
            raise ConfigurationError(f"length = {length}: half the length of a pole is a positive number of metres")
        super().__init__(render_mode=render_mode)
        self.length = float(length)
        self.polemass_length = self.masspole * self.length


gymnasium.register("Pole-v1", "hocket.methods.control.mbtl.world:Pole", max_episode_steps=LONGEST)
