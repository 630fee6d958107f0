"""Critics of the states between decision and chance (`NormalisedReturns` has claims of its own, in pdppo's)."""

import numpy as np
import pytest
import torch
from joint_cases import play as play_together

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.control.pdppo.method import PostDecisionCritic
from hocket.methods.control.pdppo.world import LotSizing
from hocket.policies.control import ControlPolicy
from hocket.tasks.joint import JointTask
from hocket.types import Assignment, Quantity, Scenario

VALUE = frozenset({Quantity.VALUE})


def foreseeing(world, seed=3):
    policy = ControlPolicy(JointTask(world).spaces(world.agents), key=Key.of(seed))
    PostDecisionCritic().install(policy)
    policy.require(VALUE)
    return policy


def test_what_comes_after_depends_on_the_post_decision_state_alone():
    """The stock after a step is what `after` tells less a demand between 0 and the largest; the rest is as told."""
    world = LotSizing(goods=3, length=15)
    course, noise = world.open(64), np.random.default_rng(0)
    course.reset(range(64), range(64))
    for _ in range(15):
        seen, action = course.seen()[0], noise.integers(0, 4, 64)
        told = world.after(seen, action)
        course.step([action], np.ones(64, bool))
        gone = np.round((told - course.seen()[0])[:, :3] * world.room)
        assert ((gone >= 0) & (gone <= world.demand)).all()
        assert np.array_equal(told[:, 3:-1], course.seen()[0][:, 3:-1])
    assert (course.seen()[0][:, -1] == 1).all()


def test_the_value_of_a_decision_is_the_smaller_critics_and_files_keep_both(tmp_path):
    world = LotSizing(length=6)
    policy = foreseeing(world)
    batch = pack(play_together(world, [Assignment(Scenario(id=str(n), seed=n)) for n in range(4)], policy))
    value = policy.evaluate(batch, VALUE).value
    seen = np.concatenate(batch.observation)
    post = policy.module.after(torch.from_numpy(world.after(seen, batch.action.numpy())))[:, 0]
    torch.testing.assert_close(value, torch.minimum(policy.module.critic(torch.from_numpy(seen))[:, 0], post))
    policy.save(tmp_path)
    read = foreseeing(world, seed=8)
    read.load(tmp_path)
    assert torch.equal(read.evaluate(batch, VALUE).value, value)
    assert len(list(policy.module.parameters())) == sum(map(len, policy.parts().values()))


def test_worlds_without_such_states_are_refused(capsys):
    assert main(["train", "--task", "gym:CartPole-v1", "--recipe", "pdppo"]) == 2
    assert "post-decision states" in capsys.readouterr().err
    for name in ("lots:sizes", "lots:sizing?goods=0"):
        with pytest.raises(ConfigurationError):
            tasks.find(name)
