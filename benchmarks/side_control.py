"""Ours: steps of the library's own loop on controllers, put together as `hocket train` does."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from bench import Stopwatch
from control_cases import EPISODES, WORKS, Judge, answer, begin

from hocket import tasks
from hocket.policies.control import ControlPolicy
from hocket.recipes import find
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, learn, train_step

LIMIT = 60
"""Steps after which a run on CartPole is given up."""


def assembled(task: str, recipe: str, seed: int, settings: dict[str, Any]) -> RunContext:
    """A run's parts, nothing trained yet."""
    world = tasks.find(task)
    config = configure([("recipe", find(recipe)), ("task", task), ("seed", seed), *settings.items()], world)
    return build_parts(config, world)


def cartpole(settings: dict[str, Any], first: int = 0) -> None:
    """A whole run to the goal for every step that is asked; judging is not timed."""
    watch, judge = Stopwatch(), Judge()

    def run(number: int) -> dict[str, Any]:
        seed = first + number - 1 if number else first + 1000
        with watch("step"):
            parts = assembled("gym:CartPole-v1", "ppo", seed, settings)
        policy, samples = parts.lead.policy, 0
        assert isinstance(policy, ControlPolicy)
        for step in range(1, LIMIT + 1 if number else 3):
            with watch("step"):
                result = asyncio.run(train_step(parts, step))
            samples += sum(one.length for one in result.trajectories)
            if judge.solved(lambda seen: greedy(policy, seen)):
                return {"samples": samples, "reached": True, "seed": seed}
        return {"samples": samples, "reached": False, "seed": seed}

    answer(run, watch)


def greedy(policy: ControlPolicy, seen: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, Any]:
    """The likeliest actions."""
    return policy.sample(seen, np.full((EPISODES, 1), 0.5), np.zeros(EPISODES, np.float32))[0]


def update(case: str, task: str, recipe: str, settings: dict[str, Any]) -> None:
    """An update of the same size for every step that is asked."""
    work, watch = WORKS[case], Stopwatch()
    sized = {
        "curriculum.prompts": work.episodes,
        "rollout.samples": 1,
        "update.epochs": work.epochs,
        "update.minibatches": work.minibatches,
        "update.lr": 3e-4,
        "steps": 1000,
        "threads": 1,
    }
    parts = assembled(task, recipe, 0, sized | settings)

    def step(number: int) -> dict[str, Any]:
        key = parts.key.derive("step", number)
        with watch("step"):
            with watch("collect"):
                experience, problems = asyncio.run(collect(parts, key, number + 1))
            with watch("learn"):
                metrics = learn(parts, experience.trajectories, key, number + 1)[1]
        if problems:
            raise RuntimeError(problems[0])
        steps = sum(len(one.turns[0]) for one in experience.trajectories)
        assert metrics["update/gradients"] == work.epochs * work.minibatches
        assert math.isfinite(metrics["loss"])
        return {"tokens": steps}

    answer(step, watch)


CASES: dict[str, Callable[[dict[str, Any]], None]] = {
    "cartpole": cartpole,
    "cheetah": lambda settings: update("cheetah", "gym:HalfCheetah-v5", "ppo", settings),
    "spread": lambda settings: update("spread", "pettingzoo:mpe2.simple_spread_v3", "ippo", settings),
    "native": lambda settings: update("spread", "mpe:spread", "ippo", settings),
}

if __name__ == "__main__":
    begin()
    CASES[sys.argv[1]](json.loads(sys.argv[2]))
