"""Policies that sum up what they saw, by a loss of its own."""

import numpy as np
import pytest
import torch
from control_cases import Line, asked, play

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.control.contrabar import ForetellingLoss
from hocket.methods.marl.clam_agent_modelling import SameEpisode
from hocket.methods.marl.mapo_lso import LatentLoss
from hocket.policies.beliefs import acting_beliefs
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.types import Quantity
from hocket.zoo.joint.bandits import BanditWorld, bayes_optimal

(FORM,) = ForetellingLoss(hidden=(7, 5), size=4, ahead=2).policy_parts
(POOLED,) = SameEpisode(wide=6, heads=2, size=5).policy_parts
(LATENT,) = LatentLoss(hidden=(7, 5), ahead=2).policy_parts
ALL = frozenset({Quantity.LOGP, Quantity.VALUE, Quantity.BELIEF})
LINES = [Line(limit=9), Line(actions=3, discrete=False, limit=7)]


def believing(world, body="perceptron", form=FORM) -> ControlPolicy:
    """One whose belief matters: weights far from their small beginnings."""
    policy = ControlPolicy(world, key=Key.of(3), network=NetworkSettings(body=body, hidden=(8, 6)))
    form.install(policy)
    policy.require(ALL)
    for weight in policy.module.actor.parameters():
        weight.data.mul_(4)
    return policy


@pytest.mark.parametrize("form", [FORM, POOLED, LATENT], ids=["carried", "pooled", "latent"])
@pytest.mark.parametrize("body", ["perceptron", "recurrent"])
@pytest.mark.parametrize("world", LINES, ids=["discrete", "continuous"])
def test_log_probs_are_those_of_what_was_believed_when_it_was_sampled(world, body, form):
    policy = believing(world, body, form)
    batch = pack(play(world, [asked(seed, 2) for seed in range(9)], policy, width=4))
    recorded = batch.logp["behaviour"].values
    torch.testing.assert_close(policy.evaluate(batch, ALL).logp, recorded, atol=1e-5, rtol=1e-5)
    for weight in policy.module.beliefs.learnt.parameters():
        weight.data.add_(0.5)
    torch.testing.assert_close(policy.evaluate(batch, ALL).logp, recorded, atol=1e-5, rtol=1e-5)
    policy.observe(batch)
    assert float((policy.evaluate(batch, ALL).logp - recorded).detach().abs().max()) > 0.01


@pytest.mark.parametrize("form", [FORM, POOLED, LATENT], ids=["carried", "pooled", "latent"])
def test_beliefs_along_turns_are_those_step_by_step(form):
    policy = believing(LINES[0], form=form)
    batch = pack(play(LINES[0], [asked(seed) for seed in range(5)], policy))
    found, acting = acting_beliefs(policy, batch), policy.module.beliefs.acting
    for turn in range(batch.turns):
        carried = torch.zeros(1, acting.carries)
        for row, seen in zip(found[batch.turn == turn], torch.from_numpy(batch.observation[turn]), strict=True):
            belief, carried = acting.step(seen[None], carried)
            torch.testing.assert_close(row, belief[0], atol=1e-6, rtol=1e-5)


def test_what_a_belief_tells_of_a_decision_does_not_depend_on_which_others_are_asked_for():
    policy = believing(LINES[0], form=POOLED)
    batch = pack(play(LINES[0], [asked(seed) for seed in range(5)], policy))
    whole = policy.evaluate(batch, ALL).belief.detach()
    chosen = torch.nonzero(batch.turn >= 2).flatten()
    part = policy.evaluate(batch, ALL, chosen).belief.detach()
    torch.testing.assert_close(part[chosen], whole[chosen], atol=1e-6, rtol=1e-5)
    other = policy.evaluate(batch.but(step=1), ALL).belief.detach()
    assert float((other - whole).abs().max()) > 0.01  # Every step draws its views anew.


def test_values_of_what_was_seen_last_read_the_belief_of_then():
    policy = believing(LINES[0])
    batch = pack(play(LINES[0], [asked(seed) for seed in range(5)], policy))
    values, module = policy.final_values(batch), policy.module
    checked = 0
    for row in range(batch.trajectories):
        if batch.truncated[row] and batch.final_state[row] is not None:
            rows = torch.from_numpy(np.concatenate([batch.observation[row], batch.final_state[row][None]]))
            belief = module.beliefs.acting(rows[None])[0, -1]
            torch.testing.assert_close(values[row], module.critic(torch.cat([rows[-1], belief]))[0].detach())
            checked += 1
    assert checked


def test_a_saved_policy_believes_what_it_believed(tmp_path):
    policy = believing(LINES[0])
    batch = pack(play(LINES[0], [asked(seed) for seed in range(3)], policy))
    policy.save(tmp_path)
    other = ControlPolicy(LINES[0], key=Key.of(8), network=policy.network)
    FORM.install(other)
    other.load(tmp_path)
    assert torch.equal(acting_beliefs(other, batch), acting_beliefs(policy, batch))
    plain = ControlPolicy(LINES[0], key=Key.of(8), network=policy.network)
    with pytest.raises(ConfigurationError):
        plain.load(tmp_path)


def test_a_belief_comes_before_a_critic_and_there_is_one():
    policy = ControlPolicy(LINES[0], key=Key.of(3))
    policy.require(ALL)
    with pytest.raises(ConfigurationError, match="a critic without a belief"):
        FORM.install(policy)
    with pytest.raises(ConfigurationError, match="another belief"):
        ForetellingLoss(hidden=(3,)).policy_parts[0].install(believing(LINES[0]))


def test_an_episode_of_a_bandit_is_its_seed_whatever_is_played_beside_it():
    world = BanditWorld(arms=3, length=5, noise=2)
    wide, alone = world.open(4), world.open(1)
    wide.reset(range(4), [7, 8, 9, 10])
    alone.reset([0], [9])
    live = np.ones(4, bool)
    for time in range(5):
        assert np.array_equal(wide.seen()[0][2], alone.seen()[0][0])
        moved, only = wide.step([np.array([0, 1, time % 3, 2])], live), alone.step([np.array([time % 3])], live[:1])
        assert moved.rewards[2] == only.rewards[0]
        assert bool(only.terminated[0, 0]) == (time == 4)


def test_arms_pay_as_often_as_they_say():
    world, copies = BanditWorld(length=40), 2000
    course = world.open(copies)
    course.reset(range(copies), list(range(copies)))
    paid = np.mean([course.step([np.zeros(copies, int)], np.ones(copies, bool)).rewards[:, 0] for _ in range(40)], 0)
    assert abs(float(np.corrcoef(paid, course.state()[:, 0])[0, 1])) > 0.95
    assert abs(paid.mean() - 0.5) < 0.02


def test_what_is_best_in_three_pulls_is_what_all_ways_of_playing_say():
    # By hand: worth of a pull is its chance; after (won, lost) of an arm it is (won + 1) / (won + lost + 2).
    def best(counts, left):
        if not left:
            return 0.0
        found = []
        for arm, (won, lost) in enumerate(counts):
            chance = (won + 1) / (won + lost + 2)
            after = [[list(one) for one in counts] for _ in range(2)]
            after[0][arm][0] += 1
            after[1][arm][1] += 1
            found.append(chance * (1 + best(after[0], left - 1)) + (1 - chance) * best(after[1], left - 1))
        return max(found)

    assert abs(bayes_optimal(BanditWorld(arms=3, length=3)) - best([[0, 0]] * 3, 3)) < 1e-12


def test_bad_worlds_are_refused():
    with pytest.raises(ConfigurationError, match="at least 2 arms"):
        tasks.find("recall:bandit?arms=1")
    with pytest.raises(ConfigurationError, match="there is no task"):
        tasks.find("recall:bandits")
