"""Dynamic sampling: what is asked, kept and discarded."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_cases import NoHistory, Stage, assignments, identity

from hocket.core.batch import Level
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.rollout.dynamic import DynamicSampling, has_signal
from hocket.types import Scenario, Score, Trajectory


def curriculum(*names):
    """`more` that hands out scenarios in order, and a list of the numbers asked for."""
    left, numbers = list(names), []

    def more(count):
        numbers.append(count)
        given = left[:count]
        del left[:count]
        return assignments(*given)

    return more, numbers


def differing(*names):
    """Scenarios named here have alternating rewards, others are constant."""
    return lambda scenario, sample: float(sample % 2) if scenario in names else 1.0


def test_missing_groups_come_from_the_curriculum():
    more, numbers = curriculum("d", "e", "f", "g")
    stage = Stage(differing("b", "e", "g"))
    experience = stage.collect(DynamicSampling(samples=2, max_rounds=4), assignments("a", "b", "c"), more)
    assert identity(experience.trajectories) == [(s, i) for s in "beg" for i in (0, 1)]
    assert sorted(identity(experience.discarded)) == [(s, i) for s in "acdf" for i in (0, 1)]
    assert numbers == [2, 1, 1]
    assert experience.metrics == {"rollout/rounds": 4, "rollout/groups": 7, "rollout/groups_with_signal": 3}
    assert identity(stage.scored) == [(s, i) for s in "abcdefg" for i in (0, 1)], "each trajectory is scored once"


def test_it_stops_as_soon_as_there_is_enough():
    more, numbers = curriculum("c")
    experience = Stage(differing("a", "b")).collect(DynamicSampling(samples=4), assignments("a", "b"), more)
    assert numbers == []
    assert len(experience.trajectories) == 8
    assert experience.discarded == []


def test_without_a_curriculum_silent_scenarios_are_sampled_afresh():
    stage = Stage(lambda scenario, sample: float(scenario == "a" and sample % 2) or float(sample == 3))
    experience = stage.collect(DynamicSampling(samples=2, max_rounds=3), assignments("a", "b"))
    assert identity(experience.trajectories) == [("a", 0), ("a", 1), ("b", 2), ("b", 3)]
    assert identity(experience.discarded) == [("b", 0), ("b", 1)]
    assert [[(a.scenario.id, a.first, a.samples) for a in asked] for asked in stage.asked] == [
        [("a", 0, 2), ("b", 0, 2)],
        [("b", 2, 2)],
    ]


def test_no_signal_at_all_still_makes_a_step():
    more, numbers = curriculum("c", "d", "e", "f", "g", "h")
    stage = Stage(differing())
    experience = stage.collect(DynamicSampling(samples=2, max_rounds=3), assignments("a", "b"), more)
    assert identity(experience.trajectories) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert len(experience.discarded) == 8
    assert numbers == [2, 2]
    assert experience.metrics["rollout/groups_with_signal"] == 0


def test_a_step_goes_on_with_fewer_groups_when_rounds_are_used_up():
    stage = Stage(differing("b"))
    experience = stage.collect(DynamicSampling(samples=2, max_rounds=2), assignments("a", "b", "c"))
    assert identity(experience.trajectories) == [("b", 0), ("b", 1)]
    assert len(experience.discarded) == 8


def test_oversampling_asks_for_more_and_discards_the_surplus():
    more, numbers = curriculum("c", "d", "e")
    stage = Stage(differing("a", "c", "d"))
    experience = stage.collect(DynamicSampling(samples=2, oversample=1.5), assignments("a", "b"), more)
    assert numbers == [1]
    assert identity(experience.trajectories) == [("a", 0), ("a", 1), ("c", 0), ("c", 1)]
    assert identity(experience.discarded) == [("b", 0), ("b", 1)]
    more, numbers = curriculum("c", "d", "e")
    experience = Stage(differing("c", "d", "e")).collect(
        DynamicSampling(samples=2, oversample=2.5), assignments("a", "b"), more
    )
    assert numbers == [3]
    assert identity(experience.discarded) == [("e", 0), ("e", 1), ("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_a_curriculum_that_runs_dry_ends_the_asking():
    more, numbers = curriculum("c")
    experience = Stage(differing("a")).collect(DynamicSampling(samples=2, max_rounds=9), assignments("a", "b"), more)
    assert numbers == [1, 1]
    assert identity(experience.trajectories) == [("a", 0), ("a", 1)]


def test_a_scenario_that_comes_again_is_drawn_anew():
    more, _ = curriculum("a", "a")
    stage = Stage(differing())
    experience = stage.collect(DynamicSampling(samples=2, max_rounds=3), assignments("a"), more)
    drawn = identity(experience.trajectories + experience.discarded)
    assert sorted(drawn) == [("a", i) for i in range(6)]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from("xy"), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([1.0, 1.5, 3.0]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_nothing_is_lost_or_doubled(kinds, rounds, oversample, refill, seed):
    def rule(scenario, sample):
        return float(Key.of(seed).derive(scenario, sample).word % 3 == 0) if scenario[0] == "x" else 0.0

    more, _ = curriculum(*(f"{'xy'[i % 2]}more{i}" for i in range(50)))
    asked = assignments(*(f"{kind}{i}" for i, kind in enumerate(kinds)))
    stage = Stage(rule)
    rollout = DynamicSampling(samples=2, max_rounds=rounds, oversample=oversample)
    experience = stage.collect(rollout, asked, more if refill else None)
    everything = identity(experience.trajectories + experience.discarded)
    assert sorted(everything) == sorted(identity(stage.scored))
    assert len(set(everything)) == len(everything)
    assert 1 <= len(stage.asked) <= rounds
    assert 0 < len(experience.trajectories) <= 2 * len(asked)
    groups = [experience.trajectories[i : i + 2] for i in range(0, len(experience.trajectories), 2)]
    signals = [has_signal(group) for group in groups]
    assert all(signals) or (not any(signals) and len(groups) == len(asked))
    if len(groups) < len(asked):
        assert len(stage.asked) == rounds, "it gives up only when the rounds are used up"


def test_signal():
    def group(*scores, failed=()):
        return [
            Trajectory(Scenario("s"), [], i, scores, failure="lost" if i in failed else None)
            for i, scores in enumerate(scores)
        ]

    one, nil = {"v": Score(1.0)}, {"v": Score(0.0)}
    assert has_signal(group(one, nil))
    assert not has_signal(group(one, one))
    assert not has_signal(group(one, nil, failed={1})), "a failure is no signal"
    assert not has_signal(group(nil, {"v": Score(None)}, {})), "no opinion counts as 0, as in the combined reward"
    assert not has_signal(group({"v": Score(float("nan"))}, {"v": Score(float("nan"))}))
    assert has_signal(group({**one, "format": Score(0.0)}, {**one, "format": Score(1.0)}))
    assert not has_signal(group({**one, "format": Score(0.0)}, {**one, "format": Score(1.0)}), score="v")
    steps = [{"v": Score(values, Level.DECISION)} for values in ([0.0, 1.0], [1.0, None], [0.5])]
    assert not has_signal(group(*steps[:2]))
    assert has_signal(group(*steps))


def test_settings_and_broken_players():
    for arguments, message in (
        ({"samples": 1}, "samples"),
        ({"max_rounds": 0}, "rounds"),
        ({"oversample": 0.5}, "over"),
    ):
        with pytest.raises(ValueError, match=message):
            DynamicSampling(**arguments)

    async def play(asked):
        return []

    with pytest.raises(HocketError, match="returned 0"):
        asyncio.run(
            DynamicSampling().collect(
                assignments("a"), play=play, score=Stage(differing()).score, ledger=NoHistory(), key=Key.of(0)
            )
        )
