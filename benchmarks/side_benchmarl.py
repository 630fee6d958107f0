"""BenchMARL: its IPPO on mpe2's spread, in `vs_control.py`'s environment, its own loop of collection and learning."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from typing import Any

import torch
from bench import Stopwatch
from control_cases import WORKS, Work, answer, begin


def world(length: int, seed: int) -> Any:
    """mpe2's spread as torchrl wraps it; by name torchrl still looks for it in pettingzoo, from where it has moved."""
    from mpe2 import simple_spread_v3
    from torchrl.envs import PettingZooWrapper

    made = simple_spread_v3.parallel_env(max_cycles=length, continuous_actions=False)
    return PettingZooWrapper(made, categorical_actions=True, return_state=False, seed=seed, device="cpu")


def opener(length: int, seed: int, **_: Any) -> Any:
    """What the experiment opens its worlds with."""
    return partial(world, length, seed)


def experiment(work: Work, folder: str) -> Any:
    """An experiment with one shared network of two layers of 64, as ours, and nothing logged or evaluated."""
    from benchmarl.algorithms import IppoConfig
    from benchmarl.environments import PettingZooTask
    from benchmarl.experiment import Experiment, ExperimentConfig
    from benchmarl.models.mlp import MlpConfig

    task = PettingZooTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_cycles"] = work.length
    task.get_env_fun = partial(opener, work.length)
    config = ExperimentConfig.get_from_yaml()
    config.prefer_continuous_actions = False
    config.on_policy_n_envs_per_worker = work.episodes
    config.on_policy_collected_frames_per_batch = work.steps
    config.on_policy_minibatch_size = work.rows
    config.on_policy_n_minibatch_iters = work.epochs
    config.max_n_frames, config.max_n_iters = None, 10**6
    config.evaluation, config.render, config.loggers, config.create_json = False, False, [], False
    config.save_folder = folder
    model = MlpConfig(num_cells=[64, 64], layer_class=torch.nn.Linear, activation_class=torch.nn.Tanh)
    algorithm = IppoConfig.get_from_yaml()
    return Experiment(task, algorithm, model, critic_model_config=model, seed=0, config=config)


def spread() -> None:
    """An update of the same size for every step that is asked: what its loop does, between its two ends."""
    work, watch = WORKS["spread"], Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        run = experiment(work, folder)
        batches = iter(run.collector)
        (group,) = run.train_group_map

        def step(number: int) -> dict[str, Any]:
            with watch("step"):
                with watch("collect"):
                    batch = next(batches)
                with watch("learn"):
                    found = run.algorithm.process_batch(group, batch.detach().exclude(*run._get_excluded_keys(group)))
                    run.replay_buffers[group].extend(found.reshape(-1))
                    for _ in range(work.epochs * work.minibatches):
                        run._optimizer_loop(group)
                    run.collector.update_policy_weights_()
            return {"tokens": batch.numel()}

        answer(step, watch)


if __name__ == "__main__":
    begin()
    {"spread": spread, "native": spread}[sys.argv[1]]()
