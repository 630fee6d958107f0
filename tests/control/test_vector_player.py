"""The vectorised player: what it records, what an episode depends on, and what goes wrong."""

import numpy as np
import pytest
from control_cases import GREEDY, Line, asked, controller, play

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.rollout.vector import VectorPlayer
from hocket.types import Decoding


def same(left, right) -> bool:
    pairs = [(left.turns[0], right.turns[0], name) for name in ("observation", "action", "logp", "version")]
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for a, b, name in pairs) and np.array_equal(
        left.scores["reward"].value, right.scores["reward"].value
    )


@pytest.mark.parametrize("world", [Line(), Line(actions=3, discrete=False)], ids=["discrete", "continuous"])
def test_an_episode_depends_on_its_own_key_only(world):
    many = play(world, [asked(seed, 5) for seed in range(40)])
    few = play(world, [asked(31), asked(7, 2, first=3), asked(0, 1)])
    assert len(many) == 200
    assert same(few[0], many[31 * 5])
    assert same(few[1], many[7 * 5 + 3])
    assert same(few[2], many[7 * 5 + 4])
    assert same(few[3], many[0])
    other = play(world, [asked(31)], key=Key.of(12))
    assert not same(other[0], few[0])


def test_order_and_samples():
    world = Line()
    played = play(world, [asked(5, 2), asked(2, 3, first=4)])
    assert [t.scenario.seed for t in played] == [5, 5, 2, 2, 2]
    assert [t.sample for t in played] == [0, 1, 4, 5, 6]
    firsts = [t.turns[0].observation[0, 0] for t in played]
    assert len(set(firsts[:2])) == 1
    assert len(set(firsts[2:])) == 1
    assert firsts[0] != firsts[2]
    assert len({tuple(t.turns[0].action.tolist()) for t in played[2:]}) > 1


def test_what_is_recorded():
    world = Line(limit=6)
    policy = controller(world)
    policy.version = 4
    trajectory = play(world, [asked(1)], policy)[0]
    turn = trajectory.turns[0]
    assert len(trajectory.turns) == 1
    assert turn.observation.shape == (6, 3)
    assert turn.observation.dtype == turn.logp.dtype == np.float32
    assert turn.action.dtype == np.int64
    assert turn.version.tolist() == [4] * 6
    assert turn.policy == policy.name
    score = trajectory.scores["reward"]
    assert score.level is Level.DECISION
    # Observation t is what was seen before decision t; the rest follows from the dynamics of the walk.
    moved = turn.observation[0, 0] + np.cumsum(np.where(turn.action > 0, 0.5, -0.5))
    np.testing.assert_allclose(turn.observation[1:, 0], moved[:-1], rtol=1e-5)
    np.testing.assert_allclose(score.value, -np.abs(moved), rtol=1e-5)
    np.testing.assert_allclose(trajectory.final_state[0], moved[-1], rtol=1e-5)


def test_termination_and_truncation_are_kept_apart():
    ended = [t for t in play(Line(limit=30), [asked(s, 4) for s in range(20)]) if t.terminated]
    cut = play(Line(limit=3), [asked(s) for s in range(5)])
    assert len(ended) > 5
    for trajectory in ended:
        assert not trajectory.truncated
        assert abs(trajectory.final_state[0]) >= 4
        assert trajectory.turns[0].finish == "terminated"
    for trajectory in cut:
        assert (trajectory.terminated, trajectory.truncated, trajectory.length) == (False, True, 3)
        assert trajectory.turns[0].finish == "truncated"


def test_a_budget_truncates():
    played = play(Line(), [asked(1, budget=2), asked(2)])
    assert played[0].length == 2
    assert (played[0].truncated, played[0].terminated) == (True, False)
    assert played[1].length > 2


@pytest.mark.parametrize("world", [Line(), Line(actions=2, discrete=False)], ids=["discrete", "continuous"])
def test_greedy_takes_the_mode(world):
    policy = controller(world)
    played = play(world, [asked(3, 2, decoding=GREEDY)], policy)
    assert same(played[0], played[1])
    again = play(world, [asked(3, decoding=GREEDY)], policy, key=Key.of(99))
    assert same(played[0], again[0])
    cold = play(world, [asked(3, decoding=Decoding(temperature=1e-6))], policy)[0]
    np.testing.assert_allclose(
        np.asarray(cold.turns[0].action, float), np.asarray(played[0].turns[0].action, float), atol=0.02
    )


def test_a_world_that_raises_costs_only_its_own_episode():
    assignments = [asked(seed, 2) for seed in range(8)]
    good = play(Line(), assignments)
    broken = Line(raises={3: 2, 5: 0})
    played = play(broken, assignments)
    for place, trajectory in enumerate(played):
        seed = trajectory.scenario.seed
        if seed in (3, 5):
            assert "RuntimeError" in trajectory.failure
            assert trajectory.length == {3: 1, 5: 0}[seed]
            assert len(trajectory.scores["reward"].value) == trajectory.length
            assert not trajectory.terminated
        else:
            assert trajectory.failure is None
            assert same(trajectory, good[place])
    assert broken.closed == 4


def test_numbers_that_are_not_finite_are_a_failure():
    played = play(Line(poison={2: 3}), [asked(1), asked(2), asked(3)])
    assert [t.failure is None for t in played] == [True, False, True]
    assert "not finite" in played[1].failure
    last = play(Line(limit=3, poison={2: 3}), [asked(2)])[0]
    assert "not finite" in last.failure


def test_a_diverged_policy_is_an_error_with_a_mend():
    world = Line()
    policy = controller(world)
    policy.module.actor.biases[0].data.fill_(float("nan"))
    with pytest.raises(HocketError, match=r"update\.lr"):
        play(world, [asked(1)], policy)


def test_refusals():
    world = Line()
    with pytest.raises(ConfigurationError, match="top_p"):
        play(world, [asked(1, decoding=Decoding(top_p=0.9))])
    with pytest.raises(ConfigurationError, match="width"):
        VectorPlayer(world, controller(world), width=0)
    assert play(world, []) == []


def test_environments_are_reused_and_closed():
    import asyncio

    world = Line()
    player = VectorPlayer(world, controller(world), width=4)
    for _ in range(3):
        asyncio.run(player.play([asked(seed) for seed in range(9)], key=Key.of(1)))
    assert world.opened == 4
    player.close()
    assert world.closed == 4
