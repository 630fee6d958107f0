"""A total shared out among scenarios, and scenarios drawn by value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.curriculum.scenario_worth import Even, Value, Weighted
from hocket.lab.toys.rates import coins, ledger_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.cures import Norms
from hocket.rollout.allocation import Allocated, EvenWorth, Narrowed, allocate
from hocket.train.ledger import Ledger
from tests.rollout_cases import NoHistory, Stage, assignments


@given(
    gains=st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=3, max_size=3), min_size=1, max_size=4),
    spare=st.integers(0, 12),
)
def test_greedy_is_the_best_of_all_and_spends_the_total(gains, spare):
    worth = np.array([[0.0, *np.cumsum(sorted(row, reverse=True))] for row in gains])
    spare = min(spare, 3 * len(gains))
    counts = allocate(worth, 2, 2 * len(gains) + spare)
    assert counts.sum() == 2 * len(gains) + spare
    ways = (way for way in itertools.product(range(4), repeat=len(gains)) if sum(way) == spare)
    best = max(sum(row[n] for row, n in zip(worth, way, strict=True)) for way in ways)
    assert sum(row[n - 2] for row, n in zip(worth, counts, strict=True)) == best


def test_a_total_out_of_bounds_is_refused_when_the_recipe_is_made():
    with pytest.raises(ConfigurationError, match=r"rollout\.total = 20 gives 20 samples to 16 scenarios.*32 to 2048"):
        GRPO.but(rollout=Allocated(total=20))
    with pytest.raises(ConfigurationError, match=r"rollout\.samples = 200"):
        GRPO.but(rollout=Allocated(samples=200))
    with pytest.raises(ValueError, match=r"does not lie in 4\.\.8"):
        allocate(np.zeros((2, 3)), 2, 3)


def test_counts_are_exact_and_one_scenario_alone_gets_the_usual_number():
    made = Stage(rule=lambda scenario, sample: 1.0)
    found = made.collect(Allocated(total=11, low=2, high=5), assignments("a", "b", "c"))
    assert [one.samples for one in made.asked[0]] == [4, 4, 3]
    assert found.metrics == {"rollout/fewest": 3, "rollout/most": 4}
    assert Allocated(samples=6).counts(["a"], NoHistory()) == [6]
    # What is known least is asked most, whatever its rate.
    ledger = ledger_of(0.5, 0.5, 0.5, samples=2)
    for number in range(50):
        ledger.record("lab/0", 2, float(number % 2))
    first, *others = Allocated(Narrowed(), samples=4).counts(["lab/0", "lab/1", "lab/2"], ledger)
    assert first == 2
    assert others == [5, 5]
    assert EvenWorth()(ledger.outcomes("q"), (), np.arange(1, 4)).tolist() == [-1.0, -0.5, -1 / 3]


class Solved(Value):
    """The more often solved, the more it is worth."""

    def __call__(self, outcomes, rewards):
        return float(outcomes.successes)


def test_draws_follow_values_and_what_is_worth_nothing_comes_last():
    world, _ = coins((0.5,) * 4)
    ledger = ledger_of(0.0, 0.25, 0.75, 0.0, samples=4)
    drawn = [Weighted(Solved(), 1)(world, 4 + n, 1, ledger, Key.of(0))[0].id for n in range(400)]
    assert set(drawn) == {"lab/1", "lab/2"}
    assert 0.2 < drawn.count("lab/1") / 400 < 0.3
    whole = Weighted(Solved(), 4)(world, 4, 4, ledger, Key.of(0))
    assert len({one.id for one in whole}) == 4
    assert {one.id for one in whole[:2]} == {"lab/1", "lab/2"}
    # A share without regard to value draws the others as well; all of it is as even as even values.
    some = [Weighted(Solved(), 1, even=0.5)(world, 4 + n, 1, ledger, Key.of(0))[0].id for n in range(400)]
    assert 0.15 < (some.count("lab/0") + some.count("lab/3")) / 400 < 0.35
    with pytest.raises(ConfigurationError, match=r"worth -1\.0"):
        Weighted(Negative(), 1)(world, 4, 1, ledger, Key.of(0))
    assert Even()(ledger.outcomes("lab/0"), ()) == 1.0


class Negative(Value):
    """Less than nothing."""

    def __call__(self, outcomes, rewards):
        return -1.0


def test_the_ledger_counts_successes_and_reads_what_did_not():
    ledger = ledger_of(0.25, 1.0, samples=8)
    ledger.record("lab/0", 2, None)
    assert ledger.outcomes("lab/0") == Outcomes(8, 2)
    assert ledger.outcomes("lab/0").rate == 0.25
    assert ledger.outcomes("new") == Outcomes()
    assert ledger.outcomes("new").rate is None
    again, older = Ledger(), Ledger()
    again.restore(ledger.state())
    older.restore({name: value for name, value in ledger.state().items() if name != "successes"})
    assert again.state().keys() == ledger.state().keys()
    assert [older.outcomes(f"lab/{n}") for n in range(2)] == [again.outcomes(f"lab/{n}") for n in range(2)]
    again.record("lab/0", 3, 1.0, {"norms": 2.0})
    again.record("lab/0", 3, 1.0, {"norms": 4.0})
    # Nothing is known of wrong ones, so they have the right ones' norms.
    assert Norms.of(again.outcomes("lab/0")) == (3.0, 10.0, 3.0, 10.0)
    older.restore(again.state())
    assert older.outcomes("lab/0") == again.outcomes("lab/0")
    assert Norms.of(older.outcomes("lab/1")) is None
    Ledger().restore({name: value for name, value in Ledger().state().items() if name != "successes"})
