"""What an environment hands over stays what it was: arrays that it fills again, masks, rewards, pictures."""

import asyncio
import json
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from control_cases import asked

from hocket.agents.environments.parallel_pettingzoo import ZooTeam
from hocket.agents.environments.spaces import ranges_of
from hocket.core.columns import ALLOWED
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.worlds import JointEnvironment, Moved, Seat, reward_of
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.rollout.joint import JointPlayer
from hocket.rollout.vector import VectorPlayer
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.train.kinds.control import CONTROL
from hocket.types import Assignment, Quantity, Scenario
from hocket.zoo.joint.solo import Solo

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete


@dataclass
class World(gym.Env):
    """Walks from (0, seed) by 1 a step, cut after 3 steps: one array for everything it shows, another for its pay."""

    pay: object = None
    observation_space: object = field(default_factory=lambda: Box(-np.inf, np.inf, (2,), np.float32))
    action_space: object = field(default_factory=lambda: Discrete(2))

    def __post_init__(self):
        self.buffer = np.zeros(self.observation_space.shape, self.observation_space.dtype)
        self.paid = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        self._show(0, seed)
        return self.buffer, {}

    def _show(self, at, seed):
        self.buffer.reshape(-1)[:2] = at, seed

    def step(self, action):
        if isinstance(action, np.ndarray):
            action *= 0  # It may do with its own copy what it likes.
        self.time += 1
        self.buffer.reshape(-1)[0] += 1
        self.paid[:] = self.time
        return self.buffer, self.paid if self.pay is None else self.pay, False, np.array([self.time >= 3]), {}


@pytest.fixture
def worlds(monkeypatch):
    """Has `gym:W` open whatever `World(**given)` is asked for."""

    def made(**given):
        monkeypatch.setattr("hocket.tasks.gym._made", lambda name, settings: World(**given))
        return GymTask("W")

    return made


def play(task, seeds, *, joint=False, width=1):
    policy = ControlPolicy(task, key=Key.of(0))
    if joint:
        player = JointPlayer(Solo(task), {"policy": policy}, {"agent": "policy"}, width=width)
    else:
        player = VectorPlayer(task, policy, width=width)
    wanted = [Assignment(Scenario(str(seed), "", seed=seed)) for seed in seeds]
    return asyncio.run(player.play(wanted, key=Key.of(1)))


@pytest.mark.parametrize("joint", [False, True], ids=["alone", "joint"])
def test_arrays_that_a_world_fills_again_are_not_shared(worlds, joint):
    played = play(worlds(), (2, 4, 6), joint=joint)
    assert [one.final_state.tolist() for one in played] == [[3, 2], [3, 4], [3, 6]]
    for seed, one in zip((2, 4, 6), played, strict=True):
        assert one.turns[0].observation.tolist() == [[0, seed], [1, seed], [2, seed]]
        assert one.scores["reward"].value.tolist() == [1, 2, 3]
        assert (one.truncated, one.terminated, one.failure) == (True, False, None)


def test_what_an_environment_hands_to_others_is_a_copy(worlds):
    world = worlds().make()
    first = world.reset(7)
    later, *_ = world.step(0)
    assert (first.tolist(), later.tolist()) == ([0, 7], [1, 7])


class Bare:
    """An environment of `VectorPlayer` that is no Gymnasium's: one array, which it also pays from."""

    name, observations, actions, discrete = "bare", 2, 2, True
    ranges = ()

    def make(self):
        return self

    def reset(self, seed):
        self.seen, self.paid = getattr(self, "seen", np.zeros(2, np.float32)), np.zeros(())
        self.seen[:] = 0, seed
        return self.seen

    def step(self, action):
        self.seen[0] += 1
        self.paid[...] = self.seen[0]
        return self.seen, self.paid, np.bool_(False), bool(self.seen[0] >= 2)

    def close(self):
        return


@pytest.mark.parametrize("joint", [False, True], ids=["alone", "joint"])
def test_nor_are_those_of_worlds_that_are_not_gymnasiums(joint):
    played = play(Bare(), (5, 8), joint=joint)
    assert [one.final_state.tolist() for one in played] == [[2, 5], [2, 8]]
    assert [one.scores["reward"].value.tolist() for one in played] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("joint", [False, True], ids=["alone", "joint"])
def test_a_world_that_writes_into_its_actions_changes_no_record(worlds, joint):
    task = worlds(action_space=Box(-1, 1, (2,), np.float32))
    task = Clinging(task)
    for one in play(task, (1,), joint=joint):
        assert (np.abs(one.turns[0].action) > 1e-6).all()


class Clinging:
    """A task whose environment zeroes the very action that it is given."""

    def __init__(self, task):
        self.observations, self.actions, self.discrete, self.name = task.observations, task.actions, False, task.name
        self._task = task

    def make(self):
        made = self._task.make()
        plain = made.step

        def step(action):
            found = plain(action)
            action[...] = 0
            return found

        made.step = step
        return made


PAID = [
    1.5, 2, True, np.float32(1.5), np.int64(3), np.bool_(True), np.array(1.5), np.array([1.5]),
    np.array([[2]], np.int8), [1.5], (2,), Decimal("1.5"), Fraction(3, 2), np.array([True]),
    torch.tensor(1.5), torch.tensor([2.0]),
]  # fmt: skip


@pytest.mark.parametrize("pay", PAID, ids=repr)
@pytest.mark.parametrize("joint", [False, True], ids=["alone", "joint"])
def test_one_number_is_a_reward_whatever_holds_it(worlds, pay, joint):
    (one,) = play(worlds(pay=pay), (1,), joint=joint)
    due = 1.0 if isinstance(pay, bool) else float(np.asarray(pay, float).sum())
    assert one.failure is None
    assert one.scores["reward"].value.tolist() == [due] * 3


@pytest.mark.parametrize(
    ("pay", "what"),
    [
        (np.array([1.0, 2.0]), "an array of 2 numbers"),
        ([1, 2, 3], "an array of 3 numbers"),
        (np.zeros(0), "an array of 0 numbers"),
        ("1.5", "'1.5'"),
        ({"a": 1.0}, "{'a': 1.0}"),
        (1j, "1j"),
    ],
)
@pytest.mark.parametrize("joint", [False, True], ids=["alone", "joint"])
def test_anything_else_ends_the_run_in_a_sentence(worlds, pay, what, joint):
    with pytest.raises(ConfigurationError) as raised:
        play(worlds(pay=pay), (1,), joint=joint)
    assert str(raised.value).startswith(f"task gym:W pays {what} as a reward, which must be one number: wrap")


def test_no_reward_at_all_is_none():
    with pytest.raises(ConfigurationError, match="pays None"):
        reward_of(None, "w")
    assert np.isnan(reward_of(np.array([np.nan]), "w"))


# ---------------------------------------------------------------- masks


class Door:
    """A parallel environment: the mask of `plan[time]` stands in the observation, in the info, or nowhere (None)."""

    possible_agents = ("only",)
    metadata: ClassVar = {}

    def __init__(self, plan, where):
        self.plan, self.where, self.mask = plan, where, np.ones(3, np.int8)

    def observation_space(self, agent):
        seen = Box(0, 1, (1,))
        return gym.spaces.Dict({"observation": seen, "action_mask": Box(0, 1, (3,), np.int8)}) if self.where else seen

    def action_space(self, agent):
        return Discrete(3)

    def _told(self):
        stated = self.plan[min(self.time, len(self.plan) - 1)]
        if stated is not None:
            self.mask[:] = stated  # One array for ever.
        mask = None if stated is None else self.mask
        if not self.where:
            return {"only": np.zeros(1)}, {"only": {} if mask is None else {"action_mask": mask}}
        told = {"observation": np.zeros(1)} if mask is None else {"observation": np.zeros(1), "action_mask": mask}
        return {"only": told}, {"only": {}}

    def reset(self, seed=None):
        self.time, self.agents = 0, ["only"]
        return self._told()

    def step(self, moves):
        self.time += 1
        over = {"only": np.array([self.time == len(self.plan)])}
        return *self._told()[:1], {"only": np.array([0.5])}, over, {"only": np.bool_(False)}, self._told()[1]

    def close(self):
        return


@pytest.mark.parametrize("where", [True, False], ids=["seen", "info"])
def test_a_mask_that_is_not_stated_anew_forbids_no_more(monkeypatch, where):
    plan = [None, [0, 1, 0], None, [1, 0, 1]]
    monkeypatch.setattr(ZooTeam, "new", lambda self: Door(plan, where))
    task = JointTask(ZooTeam("nowhere.door_v0"))
    policy = ControlPolicy.for_task(task.spaces(task.world.agents), key=Key.of(0))
    player = JointPlayer(task.world, {"policy": policy}, {"only": "policy"}, width=2)
    wanted = [Assignment(task.scenario("train", number), samples=8) for number in range(3)]
    played = asyncio.run(player.play(wanted, key=Key.of(0)))
    due = [[1, 1, 1], [0, 1, 0], [1, 1, 1], [1, 0, 1]]
    for one in played:
        assert ALLOWED.get(one.turns[0]).astype(int).tolist() == due
        assert one.scores["reward"].value.tolist() == [0.5] * 4
    acts = np.stack([one.turns[0].action for one in played])
    assert set(acts[:, 2].tolist()) == {0, 1, 2}
    assert 1 not in acts[:, 3]
    # What is learnt from has the log-probs that were sampled with.
    batch = pack(played)
    again = policy.evaluate(batch, {Quantity.ENTROPY})
    np.testing.assert_allclose(again.logp.detach(), batch.logp["behaviour"].values, atol=1e-5)


@dataclass(frozen=True)
class Flipping:
    """Shows one array of masks for ever, and changes it as it steps."""

    name: str = "flipping"
    agents: tuple = ("a",)
    seats: tuple = (Seat(1, 2),)
    joint: int = 0
    stuck: bool = False

    def open(self, width):
        return _Flipping(self, width)


class _Flipping(JointEnvironment):
    def __init__(self, world, width):
        self.world, self.mask, self.time = world, np.zeros((width, 2), bool), np.zeros(width, int)

    def reset(self, slots, seeds):
        self.time[slots] = 0
        self.mask[slots] = [not self.world.stuck, False]
        return {}

    def step(self, actions, live):
        self.time += live
        self.mask[:] = self.mask[:, ::-1].copy()
        actions[0][...] = 9
        live[...] = False
        over = self.time[:, None] >= 4
        return Moved(np.zeros((len(over), 1)), over, np.zeros_like(over))

    def seen(self):
        return [np.zeros((len(self.time), 1), np.float32)]

    def allowed(self):
        return [self.mask]


def joint(world, count):
    policy = ControlPolicy(JointTask(world).spaces(("a",)), key=Key.of(0))
    player = JointPlayer(world, {"policy": policy}, {"a": "policy"}, width=3)
    return asyncio.run(player.play([asked(seed) for seed in range(count)], key=Key.of(0)))


def test_a_world_may_write_into_its_masks_and_into_what_it_is_given():
    for one in joint(Flipping(), 5):
        assert one.turns[0].action.tolist() == [0, 1, 0, 1]
        assert ALLOWED.get(one.turns[0]).tolist() == [[True, False], [False, True]] * 2


def test_no_legal_move_is_an_error_though_an_idle_copy_has_none_either(monkeypatch):
    plain = _Flipping.reset

    def reset(self, slots, seeds):
        failed = plain(self, slots, seeds)
        return {**failed, 0: "shut"} if 0 in slots else failed

    monkeypatch.setattr(_Flipping, "reset", reset)
    with pytest.raises(HocketError, match="flipping leaves agent a no legal move"):
        joint(Flipping(stuck=True), 6)


# ---------------------------------------------------------------- pictures


def spaces_of_pictures():
    picture = Box(0, 255, (2, 2, 3), np.uint8)
    both = gym.spaces.Dict({"picture": picture, "speed": Box(-5, 5, (2,), np.float32)})
    pair = gym.spaces.Tuple([Box(-1, 1, (1,), np.float32), picture])
    flat, apart = gym.spaces.utils.flatten_space(both), gym.spaces.utils.flatten_space(pair)
    return [
        (picture, ((12, 0.0, 255.0),)),
        (Box(0, 255, (2, 2), np.float32), ((4, 0.0, 255.0),)),
        (Box(0, 255, (2,), np.int64), ((2, 0.0, 255.0),)),
        (Box(0, 255, (4, 2, 2), np.uint8), ((16, 0.0, 255.0),)),
        (Box(-255, 255, (2,), np.float64), ((2, -255.0, 255.0),)),
        (Box(0, 65535, (2,), np.uint16), ((2, 0.0, 65535.0),)),
        (Box(0, 10, (3,), np.uint8), ((3, 0.0, 10.0),)),
        (flat, ((12, 0.0, 255.0), (2, 0.0, 1.0))),
        (apart, ((1, 0.0, 1.0), (12, 0.0, 255.0))),
        (Box(np.array([0, -np.inf]), np.array([255, np.inf])), ((1, 0.0, 255.0), (1, 0.0, 1.0))),
        (Box(0, 1, (4,), np.uint8), ()),
        (Box(-np.inf, np.inf, (4,), np.float32), ()),
        (Box(-10, 10, (4,), np.float32), ()),
        (Box(0, 255, (0,), np.uint8), ()),
        (Discrete(300), ()),
    ]


@pytest.mark.parametrize(("space", "due"), spaces_of_pictures(), ids=lambda one: str(one)[:40])
def test_ranges_of_spaces(space, due):
    assert ranges_of(space) == due


def test_networks_read_pictures_by_their_bounds(worlds, tmp_path):
    task = worlds(observation_space=Box(0, 255, (2, 2), np.uint8))
    policy = ControlPolicy(task, key=Key.of(0), hidden=(3,))
    actor = policy.module.actor
    rows = np.array([[0, 255, 51, 102], [255, 0, 0, 17]], np.float32)
    with torch.no_grad():
        due = actor(torch.from_numpy(rows / 255))
        _, logps = policy.sample(rows, np.full((2, 1), 0.5), np.zeros(2, np.float32))
    np.testing.assert_allclose(logps, torch.log_softmax(due, 1).max(1).values, atol=1e-6)
    # What is recorded is what was seen; learning reads it as sampling did, and so does the critic of the last state.
    (one,) = play(task, (200,))
    assert one.turns[0].observation[:, 1].tolist() == [200] * 3
    policy.require(frozenset({Quantity.VALUE}))
    batch = pack([one])
    with torch.no_grad():
        found = policy.evaluate(batch, {Quantity.VALUE})
        values = policy.module.critic(torch.from_numpy(one.turns[0].observation / np.float32(255)))[:, 0]
        last = policy.module.critic(torch.from_numpy(one.final_state / np.float32(255))[None])[0, 0]
    np.testing.assert_allclose(found.value, values, atol=1e-6)
    np.testing.assert_allclose(policy.final_values(batch), [last], atol=1e-6)
    # It says so, and is loaded as it is.
    policy.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["scaled"] is True
    other = ControlPolicy(task, key=Key.of(1), hidden=(3,))
    other.load(tmp_path)
    assert np.array_equal(other.sample(rows, np.full((2, 1), 0.5), np.zeros(2, np.float32))[1], logps)


def test_a_run_says_that_it_scales(worlds):
    def said(task, **network):
        return CONTROL.remarks(SimpleNamespace(network=NetworkSettings(**network)), task, None)

    task = worlds(observation_space=Box(0, 255, (2, 2), np.uint8))
    (remark,) = said(task)
    assert remark.startswith("what task gym:W shows in 0 to 255 is read as 0 to 1")
    assert said(JointTask(Solo(task))) == (remark,)
    assert said(task, normalise=True) == said(worlds()) == ()


def test_a_policy_that_was_trained_on_plain_numbers_is_loaded_so(worlds, tmp_path):
    plain = Bare()
    older = ControlPolicy(plain, key=Key.of(0), hidden=(3,))
    older.require(frozenset({Quantity.VALUE}))
    older.save(tmp_path / "old")
    assert "scaled" not in json.loads((tmp_path / "old" / "config.json").read_text())
    task = worlds(observation_space=Box(0, 255, (2,), np.uint8))
    rows = np.array([[0, 255], [30, 7]], np.float32)
    draws, warm = np.full((2, 1), 0.4), np.ones(2, np.float32)
    due = older.sample(rows, draws, warm)[1]
    again = tmp_path / "old"
    for number in range(2):  # And what is saved of it is loaded so, too.
        loaded = ControlPolicy(task, key=Key.of(1), hidden=(3,))
        assert not np.array_equal(loaded.sample(rows, draws, warm)[1], due)
        reference = loaded.frozen_copy()  # As a run that goes on has of the policy before training.
        loaded.load(again)
        assert reference.as_read(torch.from_numpy(rows)).tolist() == rows.tolist()
        assert np.array_equal(loaded.sample(rows, draws, warm)[1], due)
        again = tmp_path / str(number)
        loaded.save(again)
        assert "scaled" not in json.loads((again / "config.json").read_text())


def test_normalised_numbers_are_not_scaled_besides(worlds):
    task = worlds(observation_space=Box(0, 255, (2,), np.uint8))
    policy = ControlPolicy(task, key=Key.of(0), network=NetworkSettings(normalise=True))
    assert "scaled" not in policy._config()
    assert policy.as_read(torch.tensor([[5.0, 6.0]])).tolist() == [[5.0, 6.0]]


def test_a_central_critic_reads_a_joint_state_of_pictures_so(worlds):
    world = Solo(worlds(observation_space=Box(0, 255, (2,), np.uint8)))
    spaces = JointTask(world).spaces(world.agents)
    policy = ControlPolicy(spaces, key=Key.of(0), hidden=(3,))
    policy.centralise()
    policy.require(frozenset({Quantity.VALUE}))
    player = JointPlayer(world, {"policy": policy}, {"agent": "policy"}, width=1)
    (one,) = asyncio.run(player.play([asked(9)], key=Key.of(0)))
    seen = torch.from_numpy(np.concatenate([one.turns[0].joint, one.turns[0].observation], 1) / np.float32(255))
    with torch.no_grad():
        due = policy.module.critic(seen)[:, 0]
        found = policy.evaluate(pack([one]), {Quantity.VALUE}).value
    np.testing.assert_allclose(found, due, atol=1e-6)
