"""The Gymnasium adapter."""

import asyncio
import sys

import gymnasium
import numpy as np
import pytest
from control_cases import GREEDY
from gymnasium.wrappers import TimeLimit

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.policies.control import ControlPolicy
from hocket.rollout.vector import VectorPlayer
from hocket.tasks.gym import Gymnasium, GymTask
from hocket.types import Assignment, Quantity


def play(task, policy, assignments, seed=1):
    return asyncio.run(VectorPlayer(task, policy).play(assignments, key=Key.of(seed)))


def balancing() -> ControlPolicy:
    """A CartPole controller that balances: push towards where the pole falls and the cart drifts."""
    policy = ControlPolicy(GymTask("CartPole-v1"), key=Key.of(0), hidden=())
    policy.module.actor.weights[0].data = 100.0 * np_tensor([[0, 0, 0, 0], [0.1, 0.3, 1.0, 1.0]])
    return policy


def np_tensor(rows):
    import torch

    return torch.tensor(rows, dtype=torch.float32)


def test_scenarios_are_seeds_and_splits_are_disjoint():
    task = GymTask("CartPole-v1")
    train = {task.scenario("train", n).seed for n in range(1000)}
    held_out = {task.scenario("eval", n).seed for n in range(1000)}
    assert len(train) == len(held_out) == 1000
    assert not train & held_out
    assert task.scenario("train", 3) == task.scenario("train", 3)
    assert len({task.scenario(split, n).id for split in ("train", "eval") for n in range(50)}) == 100
    assert task.scenario("train", 2**40).seed < 2**32
    assert task.size("train") is None
    assert (task.name, task.kind, list(task.rewards)) == ("gym:CartPole-v1", "control", [])


def test_shapes_of_spaces():
    cart, pendulum, lake = GymTask("CartPole-v1"), GymTask("Pendulum-v1"), GymTask("FrozenLake-v1")
    assert (cart.observations, cart.actions, cart.discrete) == (4, 2, True)
    assert (pendulum.observations, pendulum.actions, pendulum.discrete) == (3, 1, False)
    assert (lake.observations, lake.actions, lake.discrete) == (16, 4, True)
    assert lake.make().reset(0).tolist() == [1.0] + [0.0] * 15


def test_episodes_are_gymnasiums_own():
    task = GymTask("CartPole-v1")
    policy = ControlPolicy(task, key=Key.of(4))
    trajectory = play(task, policy, [Assignment(task.scenario("train", 9))])[0]
    world = gymnasium.make("CartPole-v1")
    seen, _ = world.reset(seed=trajectory.scenario.seed)
    for step, action in enumerate(trajectory.turns[0].action):
        np.testing.assert_array_equal(trajectory.turns[0].observation[step], seen)
        seen, reward, terminated, _, _ = world.step(int(action))
        assert reward == trajectory.scores["reward"].value[step]
    assert terminated
    assert trajectory.terminated
    np.testing.assert_array_equal(trajectory.final_state, seen)
    assert task.success(trajectory) == trajectory.length


def test_a_balanced_pole_is_truncated_at_500_and_a_fallen_one_terminates():
    task = GymTask("CartPole-v1")
    policy = balancing()
    policy.require(frozenset({Quantity.VALUE}))
    good = play(task, policy, [Assignment(task.scenario("eval", 0), decoding=GREEDY)])[0]
    assert (good.length, good.truncated, good.terminated) == (500, True, False)
    assert task.success(good) == 500
    assert task.describe(good) == {"truncated": 1.0}
    policy.module.actor.weights[0].data.neg_()
    bad = play(task, policy, [Assignment(task.scenario("eval", 0), decoding=GREEDY)])[0]
    assert bad.length < 50
    assert (bad.truncated, bad.terminated) == (False, True)
    values = policy.final_values(pack([good, bad]))
    assert values[0] != 0
    assert values[1] == 0


def test_a_shorter_limit_of_time_truncates():
    task = GymTask("CartPole-v1", {"max_episode_steps": 20})
    assert isinstance(task.make().world, TimeLimit)
    trajectory = play(task, balancing(), [Assignment(task.scenario("eval", 1), decoding=GREEDY)])[0]
    assert (trajectory.length, trajectory.truncated, trajectory.terminated) == (20, True, False)


class Recorder:
    """A world that remembers the action it was given."""

    def step(self, action):
        self.given = action
        return np.zeros(2), 0.0, False, False, {}


def test_continuous_actions_are_scaled_and_clipped_to_the_range():
    low, high = np.array([-2, 0, -np.inf], np.float32), np.array([2, 10, np.inf], np.float32)
    recorder = Recorder()
    box = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    world = Gymnasium(recorder, box, gymnasium.spaces.Box(low, high, dtype=np.float32))
    for action, expected in [([0, 0, 0], [0, 5, 0]), ([1, -1, 7], [2, 0, 7]), ([-3, 3, -9], [-2, 10, -9])]:
        world.step(np.array(action, np.float32))
        np.testing.assert_allclose(recorder.given, expected)


def test_discrete_actions_start_where_the_space_does():
    recorder = Recorder()
    box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    Gymnasium(recorder, box, gymnasium.spaces.Discrete(3, start=5)).step(2)
    assert recorder.given == 7


def test_an_environment_that_lacks_a_library_says_which():
    def made(**_: object) -> None:
        raise ModuleNotFoundError("No module named 'imageio'")

    gymnasium.register("Lacking-v0", entry_point=made)
    try:
        with pytest.raises(ConfigurationError, match=r"Lacking-v0 needs what is not installed here .*'imageio'"):
            GymTask("Lacking-v0")
    finally:
        del gymnasium.registry["Lacking-v0"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Cartpole-v1", "CartPole-v1"), ("CartPole-v9", "CartPole-v1"), ("Xyzzy", "NAME"), ("nomodule:Foo-v0", "NAME")],
)
def test_unknown_environments_name_the_nearest(name, hint):
    with pytest.raises(ConfigurationError, match=rf"gym:{name}.*{hint}"):
        GymTask(name)


def test_unsuitable_spaces_and_settings_are_refused():
    with pytest.raises(ConfigurationError, match="gravitas"):
        GymTask("CartPole-v1", {"gravitas": 1})


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ConfigurationError, match=r"hocket\[control\]"):
        GymTask("CartPole-v1")


def test_importing_the_task_does_not_import_gymnasium():
    import subprocess

    code = "import sys, hocket.tasks.gym; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_suggestions_follow_what_the_recipe_has():
    from hocket.core.components import has_path
    from hocket.recipes import find

    task, box = GymTask("CartPole-v1"), GymTask("Pendulum-v1")
    ppo, grpo = find("ppo"), find("grpo")
    assert task.suggest(ppo)["rollout.samples"] == 1
    assert task.suggest(grpo)["rollout.samples"] >= 8
    assert box.suggest(ppo)["update.lr"] < task.suggest(ppo)["update.lr"]
    slots = ("curriculum", "rollout", "credit", "objective", "update")
    for key in (key for key in task.suggest(ppo) if key.split(".")[0] in slots):
        assert has_path(ppo, key), key
