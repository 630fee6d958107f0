"""Stable-Baselines3: its PPO on the same controllers, in `vs_control.py`'s environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench import Stopwatch
from control_cases import WORKS, Judge, answer, begin
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

STEPS = 100_000
ZOO: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": lambda left: 0.001 * left,
    "clip_range": lambda left: 0.2 * left,
}
"""RL Baselines3 Zoo's settings of PPO for CartPole-v1, for 8 environments and 100,000 steps."""


class Until(BaseCallback):
    """Ends training once it is judged solved, asked after every update; judging is not timed."""

    def __init__(self, watch: Stopwatch, judge: Judge) -> None:
        super().__init__()
        self._watch, self._judge = watch, judge
        self._stop: Callable[[], None] = watch.start("step")
        self.reached = False

    def _on_rollout_start(self) -> None:
        self._stop()
        self.reached = self._judge.solved(lambda seen: self.model.predict(seen, deterministic=True)[0])
        self._stop = self._watch.start("step")

    def _on_step(self) -> bool:
        return not self.reached

    def _on_training_end(self) -> None:
        self._stop()


def cartpole() -> None:
    """A whole run to the goal for every step that is asked."""
    watch, judge = Stopwatch(), Judge()

    def run(number: int) -> dict[str, Any]:
        seed = number - 1 if number else 1000
        until = Until(watch, judge)
        worlds = make_vec_env("CartPole-v1", n_envs=8, seed=seed)
        model = PPO("MlpPolicy", worlds, seed=seed, device="cpu", **ZOO)
        model.learn(STEPS if number else 512, callback=until)
        return {"samples": model.num_timesteps, "reached": until.reached, "seed": seed}

    answer(run, watch)


def cheetah() -> None:
    """An update of the same size for every step that is asked."""
    work, watch = WORKS["cheetah"], Stopwatch()
    worlds = make_vec_env(work.world, n_envs=work.episodes, seed=0)
    model = PPO("MlpPolicy", worlds, n_steps=work.length, batch_size=work.rows, n_epochs=work.epochs, device="cpu")
    timed: dict[str, Any] = {"collect_rollouts": "collect", "train": "learn"}
    for method, name in timed.items():
        setattr(model, method, watch.timed(name, getattr(model, method)))

    def step(number: int) -> dict[str, Any]:
        before = model.num_timesteps
        with watch("step"):
            model.learn(work.steps, reset_num_timesteps=not number)
        return {"tokens": model.num_timesteps - (before if number else 0)}

    answer(step, watch)


if __name__ == "__main__":
    begin()
    {"cartpole": cartpole, "cheetah": cheetah}[sys.argv[1]]()
