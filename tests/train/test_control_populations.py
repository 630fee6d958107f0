"""Past selves and scripted partners in the seats of joint worlds, payoff tables, meta-solvers."""

import asyncio

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.hooks.meta_solvers import nash, uniform
from hocket.hooks.partners import Copying, FixedAction, ScriptedPartners
from hocket.hooks.past_selves import PastSelves
from hocket.methods.marl.ippo import IPPO
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step

CYCLE = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def run(task, steps, *hooks, **settings):
    world = tasks.find(task)
    given = [("recipe", IPPO.but(hooks=hooks)), ("network.hidden", [8]), ("curriculum.prompts", 4), *settings.items()]
    parts = build_parts(configure(given, world), world)
    return parts, [asyncio.run(train_step(parts, step)) for step in range(1, steps + 1)]


def policies(result):
    return [[turn.policy for turn in one.turns] for one in result.experience.trajectories]


def test_a_nash_mixture_cannot_be_exploited():
    mixture, value = nash(CYCLE)
    np.testing.assert_allclose(mixture, 1 / 3, atol=1e-9)
    assert value == pytest.approx(0.0, abs=1e-9)
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (2, 5), (6, 3)):
        table = rng.normal(size=shape)
        rows, value = nash(table)
        columns, other = nash(-table.T)
        assert (rows @ table).min() == pytest.approx(value, abs=1e-9)
        assert (table @ columns).max() == pytest.approx(-other, abs=1e-9)
        assert value == pytest.approx(-other, abs=1e-9)  # The minimax theorem.
    assert uniform(4).tolist() == [0.25] * 4
    for table in (np.zeros((0, 0)), np.array([[np.nan]])):
        with pytest.raises(ConfigurationError, match="let the population play first"):
            nash(table)


def test_a_team_that_knows_its_numbers_keeps_them_beside_a_past_self():
    hook = PastSelves(every=1, keep=2, share=1.0, pool="latest")
    parts, results = run("mpe:spread?length=2", 2, hook)
    for result in results:
        for trajectory in result.experience.trajectories:
            names = [turn.policy for turn in trajectory.turns]
            assert sorted(name.partition("@")[0] for name in names) == ["policy"] * 3
            assert sum("@" in name for name in names) == 1
            for number, turn in enumerate(trajectory.turns):
                assert turn.observation[0, -3:].tolist() == np.eye(3)[number].tolist()
    (pool,) = [memory["policy"] for memory in parts.hooks.memories.values() if memory]
    assert sum(past.games for past in pool.selves) > 0


def test_policies_of_their_own_meet_past_selves_of_each_other():
    _, results = run("dilemma:pennies", 6, PastSelves(every=2, share=1.0), cast="separate")
    guests = {name for result in results for row in policies(result) for name in row if "@" in name}
    assert {name.partition("@")[0] for name in guests} == {"row", "column"}
    assert all(sum("@" in name for name in row) == 1 for result in results for row in policies(result))


def test_a_payoff_table_is_what_its_members_earn_against_each_other():
    hook = PastSelves(every=1, keep=3, share=1.0, pool="latest", meta="nash", matches=40)
    parts, _ = run("dilemma:pennies", 4, hook)
    (pool,) = [memory["policy"] for memory in parts.hooks.memories.values() if memory]
    table = np.array(pool.payoffs)
    assert table.shape == (3, 3)
    np.testing.assert_allclose(table, -table.T)
    again = hook.restore(hook.state({"policy": pool}, parts), parts)["policy"]
    assert (again.payoffs, again.entered) == (pool.payoffs, pool.entered)
    assert [past.name for past in again.selves] == [past.name for past in pool.selves]


def test_scripted_partners_take_a_seat_and_the_others_learn():
    hook = ScriptedPartners((FixedAction(action=1), Copying(first=0)), share=1.0)
    _, results = run("dilemma:prisoners?rounds=4", 6, hook)
    seen = set()
    for result in results:
        for trajectory in result.experience.trajectories:
            (guest,) = [turn for turn in trajectory.turns if turn.policy != "policy"]
            (learner,) = [turn for turn in trajectory.turns if turn.policy == "policy"]
            seen.add(guest.policy)
            if guest.policy.startswith("FixedAction"):
                assert guest.action.tolist() == [1] * 4
            else:
                assert guest.action.tolist() == [0, *learner.action[:-1].tolist()]
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("task", "hook", "settings", "message"),
    [
        ("gym:CartPole-v1", PastSelves(), {}, "has neither"),
        ("mpe:spread?length=2", PastSelves(meta="nash"), {}, "games of two seats"),
        ("dilemma:pennies", PastSelves(meta="nash"), {"cast": "separate"}, "set cast to shared"),
        ("gym:CartPole-v1", ScriptedPartners((FixedAction(),)), {}, "no seats for several"),
    ],
)
def test_what_has_no_seats_is_refused_in_a_sentence(task, hook, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        run(task, 1, hook, **settings)


def test_an_empty_population_is_refused():
    with pytest.raises(ValueError, match="partners is empty"):
        ScriptedPartners(())
    with pytest.raises(ValueError, match="action must be one of 2"):
        FixedAction(action=2)
    with pytest.raises(ValueError, match="meta must be"):
        PastSelves(meta="best")
