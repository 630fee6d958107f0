"""Running normalisation: the same numbers in sampler and learner, exact in any split, kept in checkpoints."""

import asyncio

import numpy as np
import pytest
import torch
from control_cases import Line, asked, controller, play
from joint_cases import Relay
from joint_cases import controller as joint_controller
from joint_cases import play as play_together

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.core.batch import Level, LevelScores
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.methods.base.mappo import MAPPO
from hocket.policies.control import ControlPolicy
from hocket.policies.control_networks import Normaliser
from hocket.policies.settings import NetworkSettings
from hocket.rewards.scaling import ScaledReturns
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.types import Quantity

ON = NetworkSettings(normalise=True)


def test_the_running_numbers_are_those_of_all_rows_at_once_in_any_split():
    noise = Key.of(0).numpy()
    rows = torch.from_numpy((noise.normal(size=(900, 3)) * [1e3, 1.0, 0.0] + [1e6, -2.0, 5.0]).astype(np.float32))
    split, whole = Normaliser(3), Normaliser(3)
    assert torch.equal(split(rows), rows.clamp(-10, 10))
    for part in rows.split([1, 250, 0, 649]):
        split.observe(part)
    whole.observe(rows)
    exact = rows.double()
    torch.testing.assert_close(split.mean, exact.mean(0), rtol=1e-12, atol=1e-9)
    torch.testing.assert_close((split.squares / split.count).sqrt(), exact.std(0, correction=0), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(split(rows), whole(rows), rtol=1e-5, atol=1e-6)
    expected = ((exact - exact.mean(0)) / exact.std(0, correction=0)).clamp(-10, 10)[:, :2]
    torch.testing.assert_close(split(rows)[:, :2].double(), expected, rtol=1e-3, atol=2e-3)
    assert not split(rows)[:, 2].any()


def test_learner_and_sampler_read_the_same_numbers_and_copies_and_files_keep_them(tmp_path):
    world = Line()
    policy = controller(world, network=ON)
    policy.require(frozenset({Quantity.VALUE}))
    first = pack(play(world, [asked(seed) for seed in range(9)], policy))
    frozen = policy.frozen_copy()
    before = policy.evaluate(first, set()).logp
    policy.observe(first)
    assert float((policy.evaluate(first, set()).logp - before).detach().abs().max()) > 0.01
    assert torch.equal(frozen.evaluate(first, set()).logp, before.detach())
    again = pack(play(world, [asked(seed) for seed in range(9)], policy))
    now = policy.evaluate(again, {Quantity.VALUE})
    torch.testing.assert_close(now.logp, again.logp["behaviour"].values, atol=1e-5, rtol=1e-5)
    rows = torch.from_numpy(np.concatenate(again.observation))
    torch.testing.assert_close(now.value, policy.module.critic(policy.module.seen(rows))[:, 0])
    policy.save(tmp_path)
    read = ControlPolicy(world, key=Key.of(77), network=ON)
    read.load(tmp_path)
    assert torch.equal(read.evaluate(again, {Quantity.VALUE}).value, now.value)
    assert read.module.seen.count == first.decisions


def test_a_central_critic_reads_the_joint_state_normalised_too():
    policy = joint_controller(Relay(), network=ON)
    policy.centralise()
    policy.require(frozenset({Quantity.VALUE}))
    batch = pack(play_together(Relay(), [asked(seed) for seed in range(5)], policy))
    policy.observe(batch)
    joint = torch.from_numpy(np.concatenate(batch.joint)).double()
    torch.testing.assert_close(policy.module.whole.mean, joint.mean(0))
    seen = torch.from_numpy(np.concatenate(batch.observation))
    read = torch.cat([policy.module.whole(joint.float()), policy.module.seen(seen)], 1)
    value = policy.evaluate(batch, {Quantity.VALUE}).value
    torch.testing.assert_close(value, policy.module.critic(read)[:, 0])


@pytest.mark.parametrize("recipe", ["ppo", MAPPO])
def test_a_step_samples_and_learns_with_the_numbers_that_the_step_before_left(recipe):
    task = tasks.find("gym:CartPole-v1?max_episode_steps=30" if recipe == "ppo" else "mpe:spread?agents=2&length=6")
    given = [("recipe", recipe), ("curriculum.prompts", 4), ("network.normalise", True)]
    parts = build_parts(configure(given, task), task)
    policy, counts = parts.lead.policy, []
    for step in (1, 2):
        counts.append(float(policy.module.seen.count))
        result = asyncio.run(train_step(parts, step))
        assert abs(result.metrics["kl/behaviour"]) < 1e-6
    assert counts[0] == 0 < counts[1] < float(policy.module.seen.count)


def test_returns_are_scaled_by_the_deviation_of_all_rewards_to_go_so_far():
    scale, state, seen = ScaledReturns(gamma=0.5), ScaledReturns(gamma=0.5).init(), []
    for seed in range(3):
        batch = pack(play_together(Relay(), [asked(seed)]))
        rewards = batch.scores["reward"].values * (1 + seed)
        batch = batch.but(scores={REWARD[Level.DECISION]: LevelScores(Level.DECISION, rewards)})
        start = 0
        for turn in range(batch.turns):
            length = int((batch.turn == turn).sum())
            own = rewards[start : start + length].tolist()
            seen += [sum(r * 0.5**k for k, r in enumerate(own[place:])) for place in range(length)]
            start += length
        scaled, state = scale(batch, state)
        found = scaled.scores[REWARD[Level.DECISION]].values
        torch.testing.assert_close(found, rewards / float(np.std(seen)))


def test_network_settings_for_language_models_are_refused(capsys):
    assert main(["train", "--task", "sums", "--network.normalise", "true"]) == 2
    assert "network.* is about the networks of control policies" in capsys.readouterr().err


def test_a_central_critic_asked_for_again_keeps_what_it_normalises_by():
    policy = joint_controller(Relay(), network=ON)
    policy.centralise()
    policy.require(frozenset({Quantity.VALUE}))
    batch = pack(play_together(Relay(), [asked(seed) for seed in range(5)], policy))
    policy.observe(batch)
    policy.centralise()  # As the learner of a second phase does.
    assert float(policy.module.whole.count) == batch.decisions
