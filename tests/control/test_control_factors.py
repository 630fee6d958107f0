"""Actions in parts, as policies and players hold them."""

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.apps.play.operators import joint_task
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.sc2le.chain import Chained, Factors, Parts
from hocket.methods.marl.sc2le.world import MiniGame
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.tasks.joint import JointTask


def policy(**settings):
    world = MiniGame(size=3)
    return ControlPolicy.for_task(
        JointTask(world).spaces(world.agents), key=Key.of(0), network=NetworkSettings(**settings)
    )


def test_a_saved_chain_is_read_by_a_chain_alone(tmp_path):
    first, second, apart = policy(), policy(), policy()
    Chained().install(first)
    with torch.no_grad():
        for weight in first.module.parameters():
            weight += 0.1
    first.save(tmp_path)
    with pytest.raises(ConfigurationError, match="another network"):
        apart.load(tmp_path)
    Chained().install(second)
    second.load(tmp_path)
    pairs = zip(first.module.state_dict().values(), second.module.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_the_mode_and_low_temperatures_agree():
    head = Parts(torch.tensor([[0.0, 1.0, 3.0, 1.0, 2.0]]), Factors((3, 2), ((False,), (True,), (True,))))
    assert head.mode().tolist() == [[2, 1]]
    cold = head.tempered(torch.tensor([0.01]))
    assert cold.draw(torch.tensor([[0.3, 0.7]])).tolist() == [[2, 1]]
    assert head.logp(torch.tensor([[0, 1]])).item() == -torch.inf  # The first function takes no argument.


def test_a_chain_needs_parts_and_a_body_without_memory():
    task = tasks.find("recall:corridor")
    plain = ControlPolicy.for_task(task.spaces(task.world.agents), key=Key.of(0))
    with pytest.raises(ConfigurationError, match="parts"):
        Chained().install(plain)
    remembers = policy(body="recurrent")
    with pytest.raises(ConfigurationError, match="recurrent"):
        Chained().install(remembers)


def test_a_recurrent_body_draws_parts_apart():
    own = policy(body="recurrent", hidden=(8,))
    seen, carried = np.zeros((2, own.observations), np.float32), np.zeros((2, own.carries), np.float32)
    action, logp = own.sample(seen, np.full((2, own.draws), 0.5), np.ones(2, np.float32), carried=carried)
    assert action.shape == (2, 3)
    assert np.isfinite(logp).all()


def test_operators_choose_from_lists():
    with pytest.raises(ConfigurationError, match="function with arguments"):
        joint_task("rts:beacon")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rts:battle", "rts:shards"),
        ("rts:beacon?goals=2", "is rts:shards"),
        ("rts:beacon?size=1", "at least"),
        ("rts:shards?size=2", "no room"),
    ],
)
def test_what_does_not_fit_is_refused(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)
