"""Parts of a policy's weights that go at their own pace."""

import asyncio

import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.base.ppo import PPO
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.update.parts import Pace, PartedStep

WORLD = "gym:CartPole-v1?max_episode_steps=15"


def trained(recipe, steps=2, before=lambda parts: None):
    """The weights by part before and after so many steps, and the run."""
    task = tasks.find(WORLD)
    given = [("recipe", recipe), ("curriculum.prompts", 2), ("update.lr", 1e-3), ("update.epochs", 2)]
    parts = build_parts(configure([*given, ("update.minibatches", 3)], task), task)
    before(parts)
    policy = parts.lead.policy
    found = [flat(policy)]
    for step in range(1, steps + 1):
        asyncio.run(train_step(parts, step))
        found.append(flat(policy))
    return found, parts


def flat(policy):
    return {name: torch.cat([w.detach().flatten() for w in part]) for name, part in policy.parts().items()}


def furthest(one, other):
    return float((one - other).abs().max())


def test_every_weight_is_in_one_part():
    found, parts = trained(PPO, steps=0)
    assert sum(map(len, found[0].values())) == sum(w.numel() for w in parts.lead.policy.module.parameters())
    assert list(found[0]) == ["actor", "critic"]


def test_without_paces_or_with_those_of_all_it_is_the_plain_step_bit_for_bit():
    plain = trained(PPO)[0][-1]
    for paces in ({}, {"critic": Pace()}, {"actor": Pace(lr=1e-3)}):
        found = trained(PPO.but(update=PartedStep(paces=paces)))[0][-1]
        assert all(torch.equal(found[name], plain[name]) for name in plain)


def test_a_part_moves_at_its_own_rate_and_only_every_so_many_gradients():
    (start, *_, end), _ = trained(PPO.but(update=PartedStep(paces={"critic": Pace(lr=1e-6)})))
    assert furthest(start["critic"], end["critic"]) < 2e-5 < furthest(start["actor"], end["actor"])
    rare = PPO.but(update=PartedStep(paces={"actor": Pace(every=7)}))
    (start, one, two, three), parts = trained(rare, steps=3)
    # Six gradients a step: the seventh falls into the second step, the fourteenth into the third.
    moved = [torch.equal(left["actor"], right["actor"]) for left, right in ((start, one), (one, two), (two, three))]
    assert moved == [True, False, False]
    assert not torch.equal(start["critic"], one["critic"])
    state = parts.lead.optimiser.state_dict()
    assert [group["given"] for group in state["param_groups"]] == [18, 18]


def test_a_parts_own_gradient_is_clipped():
    seen = []

    def norms(optimiser, *_):
        seen.append([torch.cat([w.grad.flatten() for w in group["params"]]).norm() for group in optimiser.param_groups])

    clipped = PPO.but(update=PartedStep(paces={"critic": Pace(clip_norm=1e-3)}))
    trained(clipped, before=lambda parts: parts.lead.optimiser.register_step_pre_hook(norms))
    assert seen
    assert all(float(critic) <= 1.001e-3 < float(actor) for actor, critic in seen)


def test_a_part_that_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match=r"paces.critik: policy 'policy' has only actor, critic"):
        trained(PPO.but(update=PartedStep(paces={"critik": Pace()})))
    for bad in ({"every": 0}, {"lr": 0.0}, {"clip_norm": -1.0}):
        with pytest.raises(ValueError, match="positive"):
            Pace(**bad)
