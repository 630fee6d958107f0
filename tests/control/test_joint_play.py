"""Joint play: one turn per agent, ends of their own, credit that never crosses from one agent to the next."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from joint_cases import Relay, asked, controller, play

from hocket import tasks
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.joint import apart
from hocket.core.packing import pack
from hocket.credit.gae import GAE
from hocket.credit.reinforce import ReturnToGo
from hocket.recipes import find
from hocket.tasks.joint import JointTask
from hocket.train.annotate import annotate
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.types import Quantity
from hocket.zoo.joint.solo import Solo


def test_every_agent_has_a_turn_a_time_and_an_end_of_its_own():
    one = play(Relay(), [asked(7)])[0]
    assert [turn.agent for turn in one.turns] == ["runner_0", "runner_1", "runner_2"]
    assert [turn.time.tolist() for turn in one.turns] == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert [(turn.end.terminated, turn.end.truncated) for turn in one.turns] == [(1, 0), (0, 1), (1, 0)]
    for number, turn in enumerate(one.turns):
        told = np.eye(3)[number]
        assert turn.observation.tolist() == [[number, t, 7, *told] for t in turn.time]
        assert turn.end.state.tolist() == [number, len(turn), 7, *told]
        assert turn.joint.tolist() == [[t, 7] for t in turn.time]
        assert turn.end.joint.tolist() == [len(turn), 7]
    expected = [1 + 10 * i + 100 * t for i, length in enumerate((2, 4, 5)) for t in range(length)]
    assert one.scores["reward"].value.tolist() == expected
    assert (one.terminated, one.truncated) == (False, True)
    assert JointTask(Relay()).success(one) == pytest.approx(sum(expected) / 3)


def test_agents_that_move_in_turn_are_paid_for_what_follows_their_move():
    one = play(Relay(lasts=(7, 7, 7), turns=True), [asked(1)])[0]
    assert [turn.time.tolist() for turn in one.turns] == [[0, 3, 6], [1, 4], [2, 5]]
    of = {i: [1 + 10 * i + 100 * t for t in range(7)] for i in range(3)}
    expected = [sum(of[0][:3]), sum(of[0][3:6]), of[0][6], sum(of[1][1:4]), sum(of[1][4:])]
    expected += [sum(of[2][2:5]), sum(of[2][5:])]  # What came before its first move is no move's.
    assert one.scores["reward"].value.tolist() == expected


@pytest.mark.parametrize("credit", [GAE(gamma=0.9, lam=0.8, whiten=False), ReturnToGo(gamma=0.9)])
def test_credit_runs_along_each_agent_and_bootstraps_its_own_end(credit):
    world, discount = Relay(), 0.9
    policy = controller(world)
    policy.require(frozenset({Quantity.VALUE}))
    batch = pack(play(world, [asked(3), asked(5, 2)], policy))
    batch = annotate(batch, GAE().reads, policy, None)
    recipe = find("ppo") if isinstance(credit, GAE) else find("reinforce")
    credited, _ = recipe.but(credit=credit).compute_credit(batch, {}, {})
    assert torch.equal(credited.occurrences.trajectory, batch.occurrences.trajectory)
    reward = batch.scores["reward"].values.numpy()
    value = batch.value.double().numpy()
    start = 0
    for turn, seen in enumerate(batch.observation):
        length, trace = len(seen), 0.0
        end = batch.parts.final_state[turn]
        following = 0.0
        if not batch.parts.terminated[turn]:
            following = float(policy.module.critic(torch.from_numpy(end[None])).detach())
        assert bool(batch.parts.truncated[turn]) == (turn % 3 == 1)
        for t in reversed(range(start, start + length)):
            if isinstance(credit, GAE):
                trace = reward[t] + discount * following - value[t] + discount * 0.8 * trace
                following = value[t]
            else:
                trace = reward[t] + discount * trace
            assert float(credited.occurrences.advantage[t]) == pytest.approx(trace, rel=1e-5)
        start += length
    # A wrong end would show: the truncated agent's value counts, that of those who terminated does not.
    assert (batch.parts.final_value != 0).tolist() == [False, True, False] * 3


def test_parts_stay_parts_in_mini_batches():
    batch = pack(play(Relay(), [asked(3), asked(5, 2)]))
    chosen = batch.select(torch.tensor([0, 2]))
    whole, some = apart(batch), apart(chosen)
    assert (whole.trajectories, some.trajectories) == (9, 6)
    assert some.lengths().tolist() == [2, 4, 5] * 2
    assert some.scores["reward"].values.tolist() == whole.scores["reward"].values[[*range(11), *range(22, 33)]].tolist()
    assert whole.scenario.tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5]  # Samples of a scenario compare agent by agent.
    kept = batch.restricted(batch.turn[batch.occurrences.decision] != 1)
    assert apart(kept).lengths().tolist() == [2, 0, 5, 2, 4, 5, 2, 4, 5]


@pytest.mark.parametrize("width", [1, 3])
def test_an_episode_depends_on_its_own_key_only(width):
    few = play(Relay(), [asked(4)], width=width)[0]
    many = play(Relay(), [asked(seed, 3) for seed in range(6)], width=width)[12]
    for ours, theirs in zip(few.turns, many.turns, strict=True):
        assert np.array_equal(ours.action, theirs.action)
        assert np.array_equal(ours.logp, theirs.logp)
    assert any(len(set(turn.action.tolist())) > 1 for turn in few.turns)


def test_a_copy_that_breaks_costs_its_own_episode_alone():
    good = play(Relay(), [asked(seed) for seed in range(6)])
    played = play(Relay(breaks=(2,), poison=(4,)), [asked(seed) for seed in (0, 1, 2, 404, 3, 4, 5)])
    assert [one.failure is None for one in played] == [True, True, False, False, True, False, True]
    assert "floor" in played[2].failure
    assert played[2].length == 3  # One step of three agents; the one that broke has no outcome.
    assert "not finite" in played[5].failure
    for one in (0, 1, 6):
        theirs = good[played[one].scenario.seed]
        assert all(np.array_equal(a.action, b.action) for a, b in zip(played[one].turns, theirs.turns, strict=True))


def test_masks_are_recorded_and_applied_again():
    world = Relay(legal=2)
    policy = controller(world)
    batch = pack(play(world, [asked(3, 4)], policy))
    assert int(batch.action.max()) == 1
    now = policy.evaluate(batch, {Quantity.LOGP, Quantity.ENTROPY})
    torch.testing.assert_close(now.logp, batch.logp["behaviour"].values, atol=1e-6, rtol=0)
    assert float(now.entropy.detach().max()) <= np.log(2) + 1e-6
    with pytest.raises(HocketError, match="no legal move"):
        play(Relay(legal=0), [asked(3)])


def test_a_budget_truncates_every_agent():
    one = play(Relay(), [asked(3, budget=3)])[0]
    assert [len(turn) for turn in one.turns] == [2, 3, 3]
    assert [turn.end.terminated for turn in one.turns] == [True, False, False]


@pytest.mark.parametrize("environment", ["CartPole-v1?max_episode_steps=40", "Pendulum-v1?max_episode_steps=20"])
@pytest.mark.parametrize("recipe", ["ppo", "grpo"])
def test_a_team_of_one_is_a_gym_run_bit_for_bit(environment, recipe):
    found = []
    alone = tasks.find(f"gym:{environment}")
    for task in (alone, JointTask(Solo(alone))):
        config = configure([("recipe", find(recipe)), ("steps", 2), ("curriculum.prompts", 3)], alone)
        parts = build_parts(config, task)
        metrics = [asyncio.run(train_step(parts, step)).metrics for step in (1, 2)]
        weights = [one.detach().clone() for one in parts.lead.policy.module.parameters()]
        found.append((weights, [{k: v for k, v in one.items() if k.partition("/")[0] not in TIMES} for one in metrics]))
    (ours, told), (theirs, said) = found
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert told == said


TIMES = {"time", "throughput"}


def test_unequal_agents_share_no_policy_and_casts_need_a_team():
    class Unequal(Relay):
        @property
        def seats(self):
            from hocket.core.worlds import Seat

            return (Seat(3, 4), Seat(5, 4), Seat(3, 4))

    with pytest.raises(ConfigurationError, match=r"runner_0 and runner_1 cannot share.*cast separate"):
        JointTask(Unequal()).spaces(Unequal().agents)
    cart = tasks.find("gym:CartPole-v1")
    with pytest.raises(ConfigurationError, match="one agent"):
        build_parts(configure([("recipe", find("ppo").but(cast=find("cory").cast))], cart), cart)


def test_in_turn_within_a_step_everyone_knows_the_moves_before_its_own():
    task = tasks.find("dilemma:prisoners?sequenced=true&rounds=3&ids=false")
    policy = controller(task.world)
    one = play(task.world, [asked(3)], policy)[0]
    row, column = one.turns
    assert [turn.time.tolist() for turn in one.turns] == [[0, 2, 4], [1, 3, 5]]
    assert (row.observation[:, 5:9] == 0).all()
    assert column.observation[:, 5:9].tolist() == [[*np.eye(2)[move], 0, 0] for move in row.action]
    table = [[3, 0], [5, 1]]
    moves = list(zip(row.action.tolist(), column.action.tolist(), strict=True))
    expected = [table[a][b] for a, b in moves] + [table[b][a] for a, b in moves]
    assert one.scores["reward"].value.tolist() == expected
    assert one.terminated


def test_pairs_are_of_whole_episodes():
    played = play(Relay(), [asked(3, 2), asked(5, 2)])
    for number, one in enumerate(played):
        one.scores["reward"] = replace(one.scores["reward"], value=one.scores["reward"].value + number)
    credited, _ = find("online-dpo").compute_credit(pack(played), {}, {})
    assert credited.occurrences.pairs.tolist() == [[1, 0], [3, 2]]
