"""Runs that the tests of this room share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import CONTROL, train

QUICK = ["--curriculum.prompts", "2", "--threads", "1", "--evaluation.n", "2", "--evaluation.between", "2"]


@pytest.fixture(scope="session")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny runs of each form: discrete actions, vectors, a memory, a team, and a policy for each agent."""
    folder = tmp_path_factory.mktemp("runs")
    normalised = ["--network.normalise", "true", "--recipe", "ppo"]
    train(folder, "cart", *normalised, steps=2, tiny=CONTROL)
    train(folder, "pend", "--task", "gym:Pendulum-v1?max_episode_steps=4", *normalised, steps=1, tiny=QUICK)
    lake = "gym:FrozenLake-v1?is_slippery=false&max_episode_steps=12"
    train(folder, "lake", "--task", lake, "--recipe", "ppo", steps=1, tiny=QUICK)
    memory = ["--network.body", "recurrent", "--update.minibatches", "1"]
    train(folder, "corridor", *normalised, *memory, "--task", "recall:corridor?length=4", steps=1, tiny=QUICK)
    train(folder, "team", "--task", "mpe:spread?agents=2&length=5", "--recipe", "ippo", steps=1, tiny=QUICK)
    apart = ["--task", "mpe:tag?length=5", "--recipe", "ippo", "--cast", "separate"]
    train(folder, "tag", *apart, steps=1, tiny=QUICK)
    return folder
