"""Learnt worlds: trained beside a policy, and played as any other."""

import json

import numpy as np
import pytest
import torch
from tiny_runs import call, rows, train

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.objectives.action_values import DynamicsLoss
from hocket.policies.action_values import Critics
from hocket.policies.control import ControlPolicy
from hocket.policies.dynamics import DynamicsEnsemble, penalty, predicted
from hocket.zoo.joint.imagined_world import ImaginedWorld

LOSS = (
    "[{type: hocket.objectives.action_values.DynamicsLoss, models: {type: hocket.policies.dynamics.DynamicsEnsemble}}]"
)


class Spaces:
    observations, actions, discrete = 3, 2, False


def models():
    return Critics(3, (5, 8, 8), activation="relu", key=Key.of(0))


def test_a_step_pays_what_a_model_says_less_the_penalty():
    starts = np.array([[0.1, 0.2, 0.3]], np.float32)
    plain, doubtful = (ImaginedWorld(models(), starts, 2, length=2, weight=weight).open(2) for weight in (0.0, 2.0))
    action = np.full((2, 2), 0.5, np.float32)
    for course in (plain, doubtful):
        course.reset([0, 1], [4, 5])
        assert np.array_equal(course.seen()[0], np.repeat(starts, 2, 0))
    believed = predicted(models(), torch.from_numpy(course.seen()[0]), torch.from_numpy(action))
    doubt = penalty(believed, "mixture").detach().numpy()
    one, other = (course.step([action], np.ones(2, bool)) for course in (plain, doubtful))
    np.testing.assert_allclose(one.rewards[:, 0] - other.rewards[:, 0], 2 * doubt, rtol=1e-5)
    np.testing.assert_array_equal(plain.seen()[0], doubtful.seen()[0])
    assert not one.truncated.any()
    held = plain.snapshot(0)
    assert plain.step([action], np.array([True, False])).truncated[:, 0].tolist() == [True, False]
    after = plain.seen()[0][0].copy()
    plain.restore(1, held)
    plain.step([action], np.array([False, True]))
    np.testing.assert_array_equal(plain.seen()[0][1], after)


def test_an_imagined_world_without_starts_is_refused():
    with pytest.raises(ConfigurationError, match="a state to start in"):
        ImaginedWorld(models(), np.zeros((0, 3), np.float32), 2)
    with pytest.raises(ValueError, match="a penalty is one of aleatoric"):
        penalty(predicted(models(), torch.zeros(1, 3), torch.zeros(1, 2)), "none")


def test_choices_have_no_models_of_vectors():
    spaces = Spaces()
    spaces.discrete = True
    with pytest.raises(ConfigurationError, match="read vectors of actions"):
        DynamicsEnsemble().install(ControlPolicy(spaces, key=Key.of(0)))
    with pytest.raises(ValueError, match="coefficient must be positive"):
        DynamicsLoss(DynamicsEnsemble(), coefficient=0)


def test_a_run_trains_models_beside_its_policy(tmp_path):
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(41, 3)).astype(np.float32)
    ends = {"terminations": np.zeros(40, bool), "truncations": np.arange(40) % 20 == 19}
    columns = {"observations": seen[:-1], "next_observations": seen[1:], "rewards": np.ones(40), **ends}
    np.savez(tmp_path / "d.npz", actions=rng.uniform(-1, 1, (40, 1)).astype(np.float32), **columns)
    flags = ["--task", "gym:Pendulum-v1?max_episode_steps=5", "--recipe", "bc", "--store.data", str(tmp_path / "d.npz")]
    flags += ["--regularisers", LOSS, "--store.rows", "8"]
    flags += ["--store.gradients_per_step", "15", "--evaluation.n", "1", "--threads", "1"]
    flags += ["--network.hidden", "[8, 8]", "--update.lr", "0.02"]
    train(tmp_path, "run", *flags, steps=2)
    folder = tmp_path / "run"
    losses = [row["dynamics/loss"] for row in rows(folder) if "dynamics/loss" in row]
    assert losses[-1] < losses[0]
    assert json.loads(next(folder.rglob("policy/config.json")).read_text())["dynamics"] == 5
    assert call("eval", folder, "--n", 1).code == 0
