"""Worlds of torch tensors: what stays on the device, and the same episodes as those of numpy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms, uniforms_on
from hocket.core.packing import pack
from hocket.policies.control import ControlPolicy
from hocket.policies.control_central import JointState
from hocket.policies.settings import NetworkSettings
from hocket.rollout.torch_vector import TorchRecord, TorchVectorPlayer, rolled
from hocket.tasks.torch_worlds import TensorEnvironment, TorchCartPole, TorchTask
from hocket.train.kinds.network import place
from hocket.types import Assignment, Decoding, Quantity, Scenario

gymnasium = pytest.importorskip("gymnasium")
LEAVING = ("numpy", "cpu", "item", "tolist", "__array__", "__bool__", "__float__", "__int__", "__index__", "to")
"""Methods by which numbers of a tensor come to the processor, or move."""


@contextmanager
def watched() -> Iterator[list[str]]:
    """Notes every call of `LEAVING`, and every tensor made of an array."""
    calls: list[str] = []

    def noted(name: str, plain: Any) -> Any:
        def call(*arguments: Any, **settings: Any) -> Any:
            calls.append(name)
            return plain(*arguments, **settings)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in LEAVING:
            patch.setattr(Tensor, name, noted(name, getattr(Tensor, name)))
        for name in ("from_numpy", "as_tensor", "tensor"):
            patch.setattr(torch, name, noted(name, getattr(torch, name)))
        yield calls


def played(copies: int, steps: int) -> tuple[TorchRecord, list[str]]:
    world = TorchCartPole(copies)
    policy = ControlPolicy.for_task(world, key=Key.of(0))  # type: ignore[arg-type]
    seeds, words = torch.arange(copies), torch.arange(copies) * 7919
    with torch.inference_mode(), watched() as calls:
        record = rolled(world, policy, seeds, words, steps)
    return record, calls


def test_nothing_leaves_the_device_while_a_world_is_played() -> None:
    record, calls = played(64, 40)
    assert calls == []
    assert record.seen.shape == (40, 64, 4)
    assert 10 < record.length.float().mean() < 40
    with watched() as calls:  # The watch sees what it is for.
        _ = record.length.sum().item(), record.length.cpu().numpy(), torch.from_numpy(np.zeros(1))
    assert calls == ["item", "cpu", "numpy", "from_numpy"]


@pytest.mark.slow
def test_a_million_steps_of_4096_copies_stay_there() -> None:
    record, calls = played(4096, 245)
    assert calls == []
    assert record.reward.numel() > 10**6
    assert record.reward.sum() == record.reward.numel()


def test_draws_are_those_of_numpy_to_the_last_bit() -> None:
    words = Key.of(3).numpy().integers(0, 2**64, 300, np.uint64)
    counters = np.arange(300, dtype=np.uint64) * np.uint64(977)
    signed = torch.from_numpy(words.view(np.int64)), torch.from_numpy(counters.view(np.int64))
    assert uniforms_on(*signed).numpy().tobytes() == uniforms(words, counters).tobytes()


def test_the_pole_falls_as_in_gymnasium() -> None:
    """From the same state and by the same pushes, until it falls."""
    world, other = TorchCartPole(3), gymnasium.make("CartPole-v1").unwrapped
    first = world.reset(torch.tensor([1, 2, 3]))
    assert first.abs().max() < 0.05
    pushes = Key.of(1).numpy().integers(0, 2, (80, 3))
    for copy in range(3):
        world.reset(torch.tensor([1, 2, 3]))
        other.reset(seed=0)
        other.state = tuple(first[copy].double().tolist())
        for push in pushes:
            seen, reward, fell, late, last = world.step(torch.from_numpy(push))
            due, paid, ended, _, _ = other.step(int(push[copy]))
            assert torch.allclose(last[copy], torch.from_numpy(due), atol=1e-4)
            assert (bool(fell[copy]), float(reward[copy]), bool(late[copy])) == (ended, paid, False)
            if ended:
                assert seen[copy].abs().max() < 0.05
                break
        else:
            pytest.fail("the pole never fell")


def assignments(count: int, **decoding: Any) -> list[Assignment]:
    return [
        Assignment(scenario=Scenario(str(n), seed=n), samples=2, decoding=Decoding(**decoding)) for n in range(count)
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
def test_episodes_do_not_depend_on_what_is_played_beside_them(temperature: float) -> None:
    task = TorchTask("cartpole", {"copies": 8})
    policy = ControlPolicy.for_task(task, key=Key.of(0))  # type: ignore[arg-type]
    asked = assignments(6, temperature=temperature)
    play = lambda some: asyncio.run(TorchVectorPlayer(task, policy).play(some, key=Key.of(5)))  # noqa: E731
    every = play(asked)
    alone = [trajectory for one in asked for trajectory in play([one])]
    assert len(every) == 12
    for one, other in zip(every, alone, strict=True):
        (turn,), (due,) = one.turns, other.turns
        assert turn.action.tolist() == due.action.tolist()
        assert turn.logp.tobytes() == due.logp.tobytes()
        assert turn.observation.tobytes() == due.observation.tobytes()
        assert len(turn.action) == one.scores["reward"].value.sum()
        assert one.terminated
        if temperature:
            head = policy.module.actor(torch.from_numpy(turn.observation)) / temperature
            logp = head.log_softmax(1).gather(1, torch.from_numpy(turn.action)[:, None])[:, 0]
            assert np.abs(logp.detach().numpy() - turn.logp).max() < 1e-5


def test_a_budget_cuts_an_episode_and_keeps_what_was_seen_last() -> None:
    task = TorchTask("cartpole", {"copies": 4})
    policy = ControlPolicy.for_task(task, key=Key.of(0))  # type: ignore[arg-type]
    (short,) = [Assignment(scenario=Scenario("0", seed=3), samples=1, budget=5, decoding=Decoding())]
    (cut,) = asyncio.run(TorchVectorPlayer(task, policy).play([short], key=Key.of(5)))
    assert (len(cut.turns[0].action), cut.terminated, cut.truncated) == (5, False, True)
    (whole,) = asyncio.run(
        TorchVectorPlayer(task, policy).play([Assignment(scenario=short.scenario, samples=1)], key=Key.of(5))
    )
    assert cut.final_state.tobytes() == whole.turns[0].observation[5].tobytes()


class Others:
    """A vector environment of another library, which ends every third step."""

    num_envs, device, max_episode_length = 2, "cpu", 3
    single_observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    single_action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, hand: Any = lambda value: value) -> None:
        self.hand = hand

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return {"policy": self.hand(torch.zeros(2, 1))}, {}

    def step(self, action: Tensor) -> tuple[Any, ...]:
        assert action.shape == (2, 2)
        self.time = (self.time + 1) % 3
        over = torch.full((2,), self.time == 0)
        seen = torch.full((2, 1), self.time / 10)
        return {"policy": self.hand(seen)}, self.hand(torch.ones(2)), over & False, over, {}

    def close(self) -> None: ...


def test_tensors_of_others_are_taken_where_they_lie() -> None:
    for hand in (lambda value: value, Taken):
        world = TensorEnvironment(Others(hand), "others")
        assert (world.copies, world.limit, world.observations, world.actions, world.discrete) == (2, 3, 1, 2, False)
        policy = ControlPolicy.for_task(world, key=Key.of(0))  # type: ignore[arg-type]
        record = rolled(world, policy, torch.zeros(2, dtype=torch.int64), torch.arange(2), 3)
        assert record.length.tolist() == [3, 3]
        assert record.over.all()
        assert not record.terminated.any()
        assert record.last[:, 0].tolist() == pytest.approx([0.2, 0.2])  # Before the last step: no `final_obs`.


class Taken:
    """An array that offers its memory and nothing else."""

    def __init__(self, held: Tensor) -> None:
        self._held = held

    def __dlpack__(self, **settings: Any) -> Any:
        return self._held.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self._held.__dlpack_device__()


def test_what_is_no_tensor_or_no_world_is_refused() -> None:
    world = TensorEnvironment(Others(lambda value: value.numpy()), "others")
    with pytest.raises(ConfigurationError, match="ndarray where torch tensors"):
        world.reset(torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ConfigurationError, match="has no num_envs"):
        TensorEnvironment(object(), "others")
    with pytest.raises(ConfigurationError, match="there is no such world; there is cartpole"):
        tasks.find("torch:pole")
    with pytest.raises(ConfigurationError, match=r"torch:cartpole cannot be made.*weight"):
        tasks.find("torch:cartpole?weight=3")
    task = TorchTask("cartpole")
    memory = ControlPolicy.for_task(task, key=Key.of(0), network=NetworkSettings(body="recurrent"))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="without memory"):
        TorchVectorPlayer(task, memory)
    with pytest.raises(ConfigurationError, match="its memory computes on the processor"):
        memory.move(torch.device("cuda"))
    settings = SimpleNamespace(device="meta")
    with pytest.raises(ConfigurationError, match=r"a SimpleNamespace, has no method move\(device\)"):
        place(settings, [SimpleNamespace(name="policy")])  # type: ignore[arg-type]
    place(SimpleNamespace(device="auto"), [SimpleNamespace(name="policy")])  # type: ignore[arg-type]


def test_a_world_elsewhere_than_its_policy_is_refused() -> None:
    task = TorchTask("cartpole", device="meta", settings={"copies": 2})
    policy = ControlPolicy.for_task(TorchTask("cartpole"), key=Key.of(0))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="copies on meta, and policy 'policy' is on cpu; use --device meta"):
        asyncio.run(TorchVectorPlayer(task, policy).play(assignments(1), key=Key.of(0)))


def test_a_world_that_raises_fails_its_attempts_and_is_opened_anew() -> None:
    task = TorchTask("cartpole", {"copies": 4})
    policy = ControlPolicy.for_task(task, key=Key.of(0))  # type: ignore[arg-type]
    player = TorchVectorPlayer(task, policy)
    player._world_now().step = lambda action: 1 / 0  # type: ignore[method-assign]
    found = asyncio.run(player.play(assignments(4), key=Key.of(0)))
    assert [one.failure for one in found] == ["environment: ZeroDivisionError: division by zero"] * 4 + [None] * 4


def test_networks_on_a_device_read_and_give_tensors_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `meta` stands for an accelerator: it refuses tensors of the processor, and shapes are all it has."""
    task = TorchTask("cartpole", {"copies": 8})
    here = ControlPolicy.for_task(task, key=Key.of(0), network=NetworkSettings(normalise=True))  # type: ignore[arg-type]
    found = asyncio.run(TorchVectorPlayer(task, here).play(assignments(3, temperature=0.7), key=Key.of(0)))
    batch, needs = pack(found), frozenset({Quantity.LOGP, Quantity.ENTROPY, Quantity.VALUE})
    here.require(needs)
    away = here.frozen_copy()
    away.require(needs)
    away.move(torch.device("meta"))
    moved = torch.Tensor.cpu
    monkeypatch.setattr(Tensor, "cpu", lambda held: torch.ones(held.shape) if held.is_meta else moved(held))
    for chosen in (None, torch.arange(7)):
        evaluated = away.evaluate(batch, needs, chosen)
        assert {one.device.type for one in (evaluated.logp, evaluated.entropy, evaluated.value)} == {"cpu"}
        assert evaluated.logp.shape == (batch.decisions,)
    assert away.final_values(batch).shape == (len(found),)
    action, logp = away.sample(
        np.zeros((5, 4), np.float32), np.full((5, 1), 0.5), np.array([0, 1, 1, 1, 0.5], np.float32)
    )
    assert (action.shape, logp.shape) == ((5,), (5,))
    with pytest.raises(ConfigurationError, match="JointState computes on the processor"):
        away.attach(JointState())
