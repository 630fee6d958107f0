"""Draws by value: those of valuing and sorting all scenarios at every draw, and no more valued than need be."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.curriculum.pool import PoolCache, PoolMembers
from hocket.curriculum.scenario_worth import Even, Value, Weighted, lasting, least
from hocket.methods.data_and_rollout.cures import SpreadValue
from hocket.methods.data_and_rollout.mmr1_vas import OutcomeVariance, VariancePromotion
from hocket.methods.data_and_rollout.srpo import Open, Unsolved
from hocket.methods.group_relative.kimi_k1_5 import ByFailure, EasyToHard, FailureRate
from hocket.train.ledger import Ledger
from hocket.types import Scenario

valued: list[Outcomes] = []
"""What `Solved` was asked for."""


@dataclass(frozen=True)
class Solved(Value):
    """The more often solved, the more it is worth; nothing before."""

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        valued.append(outcomes)
        return float(outcomes.successes)


class Counting(Value):
    """A value with a memory of its own."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        self.asked += 1
        return 1.0 + self.asked % 3


@dataclass(frozen=True)
class Listed(Value):
    """A value whose settings may be changed in place."""

    settings: list[float] = field(default_factory=list)

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return sum(self.settings) + outcomes.successes


@dataclass(frozen=True)
class Around(Value):
    """A value around another."""

    inner: Value

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return self.inner(outcomes, rewards)


class Growing:
    """Scenarios of which every `alike` next ones have one id; more may be added."""

    name = "growing"

    def __init__(self, scenarios: int, alike: int = 1) -> None:
        self.scenarios, self._alike = scenarios, alike

    def size(self, split: str) -> int | None:
        return self.scenarios or None

    def scenario(self, split: str, number: int) -> Scenario:
        return Scenario(f"q{number // self._alike}", metadata={"number": number, "difficulty": number % 4})


def drawn_anew(stage: Weighted, task: Any, asked: int, count: int, ledger: Ledger, key: Key) -> list[int]:
    """The numbers of the scenarios by the definition: every one valued, all of them sorted."""
    members = PoolMembers(task, stage.pool, ledger, key)
    chosen = [members[place] for place in range(asked, min(asked + count, members.size))]
    names = [members[place].id for place in range(members.size)]
    with np.errstate(divide="ignore"):
        worth = np.log(np.array([stage.value(ledger.outcomes(one), ledger.history(one)) for one in names]))
    while len(chosen) < count:
        rng = key.derive("failures", asked + len(chosen)).numpy()
        order = np.argsort(-(worth + rng.gumbel(size=members.size)), kind="stable").tolist()
        if stage.even:
            other = np.argsort(-rng.gumbel(size=members.size), kind="stable").tolist()
            ways, found = [iter(order), iter(other)], dict[int, None]()
            for second in (rng.random(members.size) < stage.even).tolist():
                found[next(place for place in ways[second] if place not in found)] = None
            order = list(found)
        chosen += [members[place] for place in order[: count - len(chosen)]]
    return numbers(chosen)


def numbers(chosen: Sequence[Scenario]) -> list[int]:
    return [one.metadata["number"] for one in chosen]


def passed_anew(task: Any, pool: int, asked: int, count: int, ledger: Ledger, key: Key) -> list[int]:
    """What `Unsolved` asks, by its definition."""
    members, chosen = PoolMembers(task, pool, ledger, key), list[int]()
    last = [ledger.history(members[place].id)[-1:] for place in range(members.size)]
    open_ = [place for place, mean in enumerate(last) if not mean or mean[0] < 1]
    for position in range(asked, asked + count):
        turn, own = divmod(position, members.size)
        if turn:
            own = int(key.derive("again", turn).numpy().permutation(members.size)[own])
        if own not in open_ or own in chosen:
            left = [place for place in open_ if place not in chosen] or open_ or [own]
            own = left[int(key.derive("instead", position).numpy().integers(len(left)))]
        chosen.append(own)
    return numbers([members[place] for place in chosen])


VALUES = [
    Even(),
    Solved(),
    FailureRate(window=2),
    OutcomeVariance(),
    VariancePromotion(),
    SpreadValue(),
    Open(0.5),
    Listed([0.5]),
]

events = st.one_of(
    st.tuples(st.just("draw"), st.integers(0, 60), st.integers(1, 20)),
    st.tuples(st.just("told"), st.integers(0, 12), st.sampled_from([0.0, 0.3, 1.0, None])),
    st.tuples(st.sampled_from(["keep", "back", "grow", "key", "ledger", "copy"]), st.integers(1, 3), st.none()),
)


@settings(max_examples=150, deadline=None)
@given(
    value=st.sampled_from(VALUES),
    even=st.sampled_from([0.0, 0.5, 1.0]),
    pool=st.integers(1, 14),
    task=st.builds(Growing, st.integers(0, 16), st.integers(1, 2)),
    happens=st.lists(events, max_size=40),
)
def test_draws_are_those_of_valuing_and_sorting_all(
    value: Value, even: float, pool: int, task: Any, happens: list[Any]
) -> None:
    stage, ledger, key, kept = Weighted(value, 4, pool, even), Ledger(), Key.of(0), Ledger().state()
    passing = Unsolved(4, pool)
    for step, (what, number, other) in enumerate([*happens, ("draw", 20, 6)], 1):
        if what == "draw":
            expected = drawn_anew(stage, task, number, other, ledger, key)
            assert numbers(stage(task, number, other, ledger, key)) == expected
            expected = passed_anew(task, pool, number, other, ledger, key)
            assert numbers(passing(task, number, other, ledger, key)) == expected
        elif what == "told":
            ledger.record(f"q{number}", step, other, {"unlikeness": number / 12})
        elif what == "keep":
            kept = ledger.state()
        elif what == "back":
            ledger.restore(kept)
        elif what == "grow" and task.scenarios:
            task.scenarios += number
        elif what == "key":
            key = Key.of(number)
        elif what == "ledger":
            ledger, before = Ledger(), ledger.state()
            ledger.restore(before)
        elif what == "copy":
            stage = pickle.loads(pickle.dumps(stage)) if number == 1 else copy.deepcopy(stage)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 3.0, float("inf")]), min_size=1, max_size=30), st.data())
def test_the_least_are_the_first_of_a_stable_sort(listed: list[float], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(listed)))
    found = least(np.array(listed), count)
    assert found.tolist() == np.argsort(np.array(listed), kind="stable")[:count].tolist()


def asked_for(stage: Any, task: Any, ledger: Ledger) -> int:
    """How many scenarios a draw had valued."""
    valued.clear()
    stage(task, 100, 4, ledger, Key.of(0))
    return len(valued)


def test_only_those_are_valued_of_which_the_ledger_was_told() -> None:
    task, ledger, stage, other = Growing(20), Ledger(), Weighted(Solved()), Weighted(Solved())
    assert [asked_for(stage, task, ledger) for _ in range(2)] == [20, 0]
    for name in ("q3", "q5", "q3", "elsewhere"):
        ledger.record(name, 1, 1.0)
    assert list(ledger.changed_since(0)) == ["elsewhere", "q3", "q5"]
    assert [asked_for(stage, task, ledger) for _ in range(2)] == [2, 0]
    # What is alike of another stage, another ledger and another task is not shared.
    assert asked_for(other, task, ledger) == 20
    assert asked_for(stage, task, Ledger()) == 20
    assert asked_for(stage, task, ledger) == 20
    assert asked_for(stage, Growing(20), ledger) == 20
    assert asked_for(Weighted(Around(Solved())), task, ledger) == 20
    # What a ledger forgets when it is set back has changed as well.
    ledger.restore(Ledger().state())
    asked_for(stage, task, ledger)
    ledger.restore(Ledger().state())
    assert asked_for(stage, task, ledger) == 0
    assert len(list(ledger.changed_since(0))) == 3


@pytest.mark.parametrize("wrapped", [lambda value: value, Around])
def test_what_may_change_unseen_is_valued_at_every_draw(wrapped: Callable[[Value], Value]) -> None:
    task: Any = Growing(5)
    ledger, counting, listed = Ledger(), Counting(), Listed()
    assert all(map(lasting, VALUES[:-1]))
    assert not lasting(wrapped(counting))
    assert not lasting(wrapped(listed))
    stage = Weighted(wrapped(counting), 1)
    for _ in range(3):
        stage(task, 5, 1, ledger, Key.of(0))
    assert counting.asked == 15
    ledger.record("q2", 1, 1.0)
    stage = Weighted(wrapped(listed), 1)
    for addition in (0.0, 1e9):
        listed.settings.append(addition)
        expected = drawn_anew(stage, task, 5, 5, ledger, Key.of(0))
        assert numbers(stage(task, 5, 5, ledger, Key.of(0))) == expected


def test_by_failure_keeps_what_it_found_from_step_to_step() -> None:
    task, made = Growing(6), 0

    class Counted(Growing):
        def scenario(self, split: str, number: int) -> Scenario:
            nonlocal made
            made += 1
            return task.scenario(split, number)

    counted: Any = Counted(6)
    for stage in (ByFailure(), EasyToHard(stages=2, per_stage=2)):
        before, ledger = made, Ledger()
        stage(counted, 20, 2, ledger, Key.of(0))
        first = made - before
        stage(counted, 22, 2, ledger, Key.of(0))
        assert made - before == first + 2
    assert ByFailure(floor=0.1) == ByFailure(floor=0.1) != ByFailure()


def test_what_is_kept_of_a_pool_is_made_once() -> None:
    kept, task = PoolCache[int](), cast(Any, Growing(3))
    made: list[int] = []

    def make(members: PoolMembers) -> int:
        made.append(members.size)
        return members.size

    def size(most: int, key: int = 0) -> int:
        return kept.of(PoolMembers(task, most, Ledger(), Key.of(key)), make)

    assert [size(5), size(5), size(2), size(2, 1), size(2, 1)] == [3, 3, 2, 2, 2]
    task.scenarios = 9
    assert [size(2, 1), size(2, 1)] == [2, 2]
    assert made == [3, 2, 2, 2]
