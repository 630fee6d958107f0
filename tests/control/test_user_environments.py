"""Environments that users bring: files, classes, objects and functions, their spaces, wrappers and mistakes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import hocket
from hocket import tasks
from hocket.agents.environments.flat_spaces import FlatObservation, choice_sizes, chosen_action
from hocket.agents.environments.user_environments import LONGEST, wrapped
from hocket.core.errors import ConfigurationError
from hocket.policies.control_choices import Choices
from hocket.policies.control_heads import Categorical
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.train.trainer import resumed


class Walk(gym.Env[Any, Any]):
    """A walk along a line to a goal that is shown; without an end of its own."""

    def __init__(self, size: int = 5) -> None:
        self.size = size
        self.observation_space = spaces.Dict(
            {
                "goal": spaces.Discrete(size, start=1),
                "picture": spaces.Box(0, 255, (8, 8, 3), np.uint8),
                "speed": spaces.Box(-1, 1, (2,), np.float32),
            }
        )
        self.action_space = spaces.MultiDiscrete([3, 2])
        self.place = 0

    def _sight(self) -> dict[str, Any]:
        picture = np.zeros((8, 8, 3), np.uint8)
        picture[0, self.place] = 255
        return {"goal": self.goal, "picture": picture, "speed": np.array([0.5, -0.5], np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.goal = 0, int(self.np_random.integers(1, self.size + 1))
        return self._sight(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.place = int(np.clip(self.place + (int(action[0]) - 1) * (1 + int(action[1])), 0, self.size))
        there = self.place == self.goal
        return self._sight(), float(there), there, False, {}


FILE = Path(__file__)
QUICK: dict[str, Any] = {"recipe": "ppo", "steps": 1, "evaluation.n": 2, "curriculum.prompts": 2, "update.epochs": 1}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- forms


def test_a_class_a_function_an_object_and_a_file_are_the_same_task() -> None:
    def walk() -> Any:
        return Walk(4)

    given = [tasks.of(Walk), tasks.of(Walk(4)), tasks.of(walk), tasks.find(f"{FILE}:Walk?size=4")]
    assert all(isinstance(task, GymTask) for task in given)
    assert [task.observations for task in given] == [192 + 5 + 2, *[192 + 4 + 2] * 3]  # type: ignore[attr-defined]
    assert [task.name for task in given] == ["gym:Walk", "gym:Walk", "gym:walk", "gym:Walk"]
    first, *_, last = (task.make().reset(6) for task in given[1:])  # type: ignore[attr-defined]
    assert np.array_equal(first, last)


def test_a_given_object_is_not_played_itself() -> None:
    world = Walk()
    task: Any = tasks.of(world)
    one, two = task.make(), task.make()
    one.reset(0)
    one.step(np.array([2, 1]))
    assert two.world is not one.world
    assert world.place == 0
    world.lock = (n for n in range(3))  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="cannot be copied"):
        tasks.of(world)


def test_modules_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "walks.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Mine-v0', entry_point=CartPoleEnv, max_episode_steps=7)\n"
    )
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry not in ("", str(tmp_path))])
    task: Any = tasks.find("gym:walks:Mine-v0")
    world = task.make()
    world.reset(0)
    assert any(world.step(step % 2)[3] for step in range(7))
    gym.registry.pop("Mine-v0")


def test_a_run_of_a_file_resumes_and_one_of_an_object_says_how(tmp_path: Path) -> None:
    run = hocket.train(f"{FILE}:Walk?size=3&max_episode_steps=3", **QUICK)
    assert resumed(run.path, trust=True, steps=2).step()["step"] == 2
    walk = gym.wrappers.TimeLimit(Walk(3), 3)
    run = hocket.train(walk, **QUICK)
    with pytest.raises(ConfigurationError, match=r"hocket\.train\(TASK, resume="):
        resumed(run.path)
    assert resumed(run.path, task=tasks.of(walk), steps=2).step()["step"] == 2


# ---------------------------------------------------------------- spaces


def test_a_dict_is_one_vector_with_its_picture_first() -> None:
    task: Any = tasks.of(Walk)
    seen = task.make().reset(2)
    assert (task.shape, len(seen)) == ((8, 8, 3), 199)
    assert seen[:3].tolist() == [255.0] * 3
    assert seen[192:197].sum() == 1.0
    assert seen[197:].tolist() == [0.5, -0.5]
    assert task.ranges == ((192, 0.0, 255.0), (7, 0.0, 1.0))
    remark, limit = task.remarks
    assert "cut after 1000 steps unless the environment ends it; max_episode_steps=N" in limit
    assert "a Dict, which networks read as one vector of 199 numbers (picture: 8 x 8 x 3, goal: 5, speed: 2)" in remark


@pytest.mark.parametrize(
    ("space", "value", "vector"),
    [
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 9, (2,)))), (1, np.array([3.0, 4.0])), [0, 1, 3, 4]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1]),
        (spaces.MultiBinary(3), np.array([1, 0, 1]), [1, 0, 1]),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2, start=5)})}), {"a": {"b": 6}}, [0, 1]),
    ],
)
def test_observations_as_vectors(space: Any, value: Any, vector: list[float]) -> None:
    flat = FlatObservation(space, "task x")
    assert flat.size == len(vector)
    assert flat.read(value).tolist() == vector


@pytest.mark.parametrize(
    ("space", "chosen", "action"),
    [
        (spaces.MultiBinary(2), [1, 0], [1, 0]),
        (spaces.MultiDiscrete([[2, 3], [2, 2]]), [1, 2, 0, 1], [[1, 2], [0, 1]]),
        (spaces.Tuple((spaces.Discrete(2, start=3), spaces.MultiBinary(1))), [1, 1], (4, [1])),
        (spaces.Dict({"a": spaces.Discrete(4), "b": spaces.Discrete(2)}), [3, 0], {"a": 3, "b": 0}),
    ],
)
def test_actions_of_several_choices(space: Any, chosen: list[int], action: Any) -> None:
    assert len(choice_sizes(space)) == len(chosen)
    built = chosen_action(space, iter(chosen))
    assert space.contains(built)
    plain = tuple(map(np.ndarray.tolist, built[1:])) if isinstance(built, tuple) else built
    assert (
        (built[0], *plain) == action if isinstance(built, tuple) else np.array_equal(built, action) or built == action
    )


def test_actions_that_no_policy_makes_are_named() -> None:
    world = Walk()
    world.action_space = spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,))))  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match=r"its actions are Tuple\(Discrete\(2\), Box"):
        tasks.of(world)
    world = Walk()
    world.observation_space = spaces.Dict({"log": spaces.Text(5)})
    with pytest.raises(ConfigurationError, match="observations of log are a Text space"):
        tasks.of(world)


def test_a_product_of_choices_is_the_sum_of_its_parts() -> None:
    outputs = torch.linspace(-1, 1, 10).reshape(2, 5)
    head = Choices((3, 2)).head(outputs, torch.nn.Identity(), None, None)
    one, two = Categorical(outputs[:, :3]), Categorical(outputs[:, 3:])
    action = torch.tensor([[2, 0], [1, 1]])
    assert torch.allclose(head.logp(action), one.logp(action[:, 0]) + two.logp(action[:, 1]))
    assert torch.allclose(head.entropy(), one.entropy() + two.entropy())
    assert torch.allclose(head.kl(head), torch.zeros(2))
    assert head.mode().tolist() == [[2, 1], [2, 1]]
    draws = torch.tensor([[0.1, 0.9], [0.99, 0.2]])
    assert torch.equal(head.draw(draws), torch.stack([one.draw(draws[:, :1]), two.draw(draws[:, 1:])], 1))
    allowed = torch.tensor([[False, True, False, True, False]] * 2)
    assert Choices((3, 2)).head(outputs, torch.nn.Identity(), allowed, None).mode().tolist() == [[1, 0], [1, 0]]


def test_a_policy_of_several_choices_learns_and_loads(tmp_path: Path) -> None:
    run = hocket.train(lambda: gym.wrappers.TimeLimit(Walk(3), 8), **{**QUICK, "steps": 2})
    assert np.isfinite(run.metrics[-1]["return"] if "return" in run.metrics[-1] else run.evaluate(4).success)
    run.policy.save(tmp_path / "policy")
    assert '"choices": [' in (tmp_path / "policy" / "config.json").read_text()
    copy.deepcopy(run.policy).load(tmp_path / "policy")


# ---------------------------------------------------------------- wrappers and limits


def test_wrappers_by_name() -> None:
    task: Any = tasks.find("gym:CartPole-v1?wrappers=FrameStackObservation(stack_size=3),FlattenObservation")
    assert task.observations == 12
    assert task.make().reset(0).shape == (12,)


@pytest.mark.parametrize(
    ("wrappers", "words"),
    [
        ("FlatenObservation", "did you mean 'FlattenObservation'"),
        ("TimeLimit(len)", "must be numbers, texts or lists"),
        ("TimeLimit(1, 2, 3)", "wrapper TimeLimit.* fails: TypeError"),
        (")", "write NAME or"),
    ],
)
def test_wrappers_that_cannot_be_had(wrappers: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        wrapped(Walk(), wrappers, "task x")


def test_a_wrapper_of_a_file_and_the_limit_of_steps(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import gymnasium\n\nclass Twice(gymnasium.RewardWrapper):\n    def reward(self, reward):\n"
        "        return 2 * reward\n"
    )
    task: Any = tasks.find(f"{FILE}:Walk?size=1&wrappers=own.py:Twice&max_episode_steps=3")
    world = task.make()
    world.reset(0)
    assert [world.step(np.array([1, 0]))[3] for _ in range(3)] == [False, False, True]
    world.reset(0)
    assert world.step(np.array([2, 0]))[1:3] == (2.0, True)
    endless = tasks.of(Walk(1)).make()  # type: ignore[attr-defined]
    endless.reset(0)
    assert [endless.step(np.array([1, 0]))[3] for _ in range(LONGEST)].index(True) == LONGEST - 1


# ---------------------------------------------------------------- mistakes


class Older(gym.Env[Any, Any]):
    observation_space = spaces.Box(0, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32)


class NoInfo(Older):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32)


class OtherShape(Older):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # type: ignore[override]
        return np.zeros(3, np.float32), {}


class FourValues(Older):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Older, r"reset\(seed=0\) raises TypeError.*gymnasium\.Env has reset\(self, \*, seed=None"),
        (NoInfo, r"returns an object of type ndarray; return \(observation, info\)"),
        (OtherShape, r"shape \(3,\), and observation_space is Box"),
        (FourValues, r"step\(action\) .*observation, reward, terminated, truncated, info"),
        (dict, "makes no task"),
        (3, r"task int lacks name, .*it is of type int"),
        (lambda: 3, r"lacks name, .*it is of type int"),
        (lambda: 1 / 0, "division"),
    ],
)
def test_mistakes_are_named_before_a_run(value: Any, words: str) -> None:
    with pytest.raises((ConfigurationError, ZeroDivisionError), match=words):
        tasks.of(value)


def test_recipes_of_language_models_name_those_of_control() -> None:
    with pytest.raises(ConfigurationError, match=r"dpo learns from pairs in words.*use ppo"):
        hocket.train(Walk, recipe="dpo")


# ---------------------------------------------------------------- several agents


def test_pettingzoo_in_files_and_objects(tmp_path: Path) -> None:
    (tmp_path / "pair.py").write_text(PAIR)
    for name in ("pair.py:Pair", "pettingzoo:pair.py", "pettingzoo:pair.py:Pair?size=6", "pair.py:parallel_env"):
        task = tasks.find(name)
        assert isinstance(task, JointTask), name
        size = 6 if "size" in name else 4
        assert [(seat.observations, seat.actions) for seat in task.world.seats] == [(2 * size, 3)] * 2
    run = hocket.train("pair.py:Pair", **{**QUICK, "recipe": "ippo"})
    assert run.summary["after"]["n"] == 2
    assert isinstance(tasks.find("pettingzoo:pair.py:Pair?kind=text"), EnvironmentTask)
    turns: Any = tasks.find("pair.py:turns")
    assert turns.world.agents == ("a", "b")
    from hocket.core.user_files import load_object

    assert tasks.of(load_object("pair.py:Pair")()).name == "pettingzoo:Pair"
    assert tasks.of(load_object("pair.py:turns")()).size("train") is None


PAIR = """
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import parallel_to_aec


class Pair(ParallelEnv):
    metadata = {"name": "pair"}

    def __init__(self, size=4):
        self.size, self.possible_agents = size, ["a", "b"]

    def observation_space(self, agent):
        return spaces.MultiDiscrete([self.size] * 2)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def seen(self):
        return {"a": np.array(self.at), "b": np.array(self.at[::-1])}

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        self.at = np.random.default_rng(seed).integers(self.size, size=2).tolist()
        return self.seen(), {"a": {}, "b": {}}

    def step(self, actions):
        self.time += 1
        self.at = [int(np.clip(x + int(actions[n]) - 1, 0, self.size - 1)) for x, n in zip(self.at, "ab")]
        met, late = self.at[0] == self.at[1], self.time >= 5
        self.agents = [] if met or late else self.agents
        return (self.seen(), *({n: value for n in "ab"} for value in (float(met), met, late, {})))


class Boxed(Pair):
    def observation_space(self, agent):
        return spaces.Box(0, 9, (2,), np.int64)


def parallel_env(size: int = 4):
    return Pair(size)


def turns():
    return parallel_to_aec(Boxed())
"""
