"""Dialogues taken up again at a turn, who names it, and the pairs that are compared in a segment."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_cases import NoHistory, Stage

from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.talk import TalkBench, last_message
from hocket.methods.agents.sdpo import ResampledTurn, SegmentPairs
from hocket.objectives.preference import Pairwise
from hocket.recipes import find
from hocket.rewards.combine import WeightedSum
from hocket.rollout.named_turns import NamedBy, ProbedTurns, Transcript, own_turns, resumed, values, worth
from hocket.train.loop import Playing
from hocket.types import Assignment, Evaluation, Experience, Scenario, Score, Trajectory, Turn

WORDS = ("red", "blue")
SCENARIOS = [Scenario(f"s{number}", f"s{number}") for number in range(12)]


class Three(Workflow):
    """Three words; the second decides, the third earns a little."""

    roles = ("policy",)

    async def play(self, scenario, team):
        said = [str(await team.policy(text)) for text in (str(scenario.prompt), "next", "last")]
        return Outcome(rewards={"right": (said[1] == "red") + 0.1 * (said[2] == "red")})


def bench() -> TalkBench:
    return TalkBench(Three(), SCENARIOS, WORDS, find("online-dpo"), view=last_message)


async def scored(trajectories: list[Trajectory]) -> None:
    return None


def collected(rollout: ResampledTurn) -> Experience:
    found = bench()
    asked = [Assignment(one, decoding=found.parts.decoding) for one in SCENARIOS]
    play = Playing(found.player, Key.of(2))
    return asyncio.run(rollout.collect(asked, play=play, score=scored, ledger=NoHistory(), key=Key.of(3)))


def second(dialogue, turns):
    return 1


def test_a_better_one_shares_what_was_said_before_the_turn():
    found = collected(ResampledTurn(continuations=4, judge=NamedBy(second), good=0.5))
    pairs = list(zip(found.trajectories[::2], found.trajectories[1::2], strict=True))
    assert len(pairs) >= 3
    for bad, good in pairs:
        assert bad.scenario is good.scenario
        assert worth(bad) < 0.5 < worth(good)
        assert bad.turns[0] is good.turns[0]
        assert bad.turns[1] is not good.turns[1]
    assert found.metrics["rollout/mended"] == len(pairs)
    own = [*found.trajectories, *found.discarded]
    assert len(own) == len(SCENARIOS) + 4 * found.metrics["rollout/bad"]
    assert len({id(one) for one in own}) == len(own)
    good = sum(one.sample == 0 and worth(one) >= 0.5 for one in found.discarded)
    assert good == len(SCENARIOS) - found.metrics["rollout/bad"]


def test_what_is_said_alike_again_at_the_turn_is_one_object():
    found = collected(ResampledTurn(continuations=6, judge=NamedBy(lambda dialogue, turns: 0)))
    alike = 0
    for bad, good in zip(found.trajectories[::2], found.trajectories[1::2], strict=True):
        assert worth(good) > worth(bad)
        same = bad.turns[0].text == good.turns[0].text
        assert (bad.turns[0] is good.turns[0]) == same
        alike += same
    assert alike


def test_nothing_named_nothing_resampled():
    found = collected(ResampledTurn(judge=NamedBy(lambda dialogue, turns: None)))
    assert not found.trajectories
    assert len(found.discarded) == len(SCENARIOS)
    assert found.metrics["rollout/reward"] == pytest.approx(np.mean([worth(one) for one in found.discarded]))


def test_a_player_without_workflows_begins_anew_and_failures_are_left_out():
    stage = Stage(lambda scenario, sample: None if sample == 2 or scenario == "s1" else float(sample))
    found = stage.collect(ResampledTurn(continuations=3), [Assignment(one) for one in SCENARIOS[:2]])
    assert [(one.scenario.id, one.sample) for one in found.trajectories] == [("s0", 0), ("s0", 3)]
    assert sum(one.failure is not None for one in found.discarded) == 2


def test_probes_go_on_from_every_history_and_the_largest_fall_is_named():
    found = bench()
    asking = Assignment(SCENARIOS[0], decoding=found.parts.decoding)
    play = Playing(found.player, Key.of(5))
    right = 0
    for number in range(10):
        (one,) = asyncio.run(play([resumed(asking, Trajectory(SCENARIOS[0], []), 0, first=number, samples=1)]))
        judge = ProbedTurns(rollouts=30)
        own = own_turns(one, None)
        (named,) = asyncio.run(judge([Transcript(asking, one, own)], play=play, score=scored, key=Key.of(0)))
        right += named[:1] == [1] if one.turns[1].text == "blue" else named[:1] != [1]
    assert right >= 9


def test_named_by_size():
    value = [0.5, 0.6, 0.1, 0.4]
    assert ProbedTurns(most=3).named(value) == [1]
    assert ProbedTurns(by="change", most=3).named(value) == [1, 2, 0]
    assert ProbedTurns(by="change", most=3, least=0.2).named(value) == [1, 2]
    assert ProbedTurns().named([0.1, 0.2]) == []


def test_failed_probes_say_nothing():
    def worth_of(value: float, failure: str | None = None) -> Trajectory:
        return Trajectory(SCENARIOS[0], [], scores={"r": Score(value)}, failure=failure)

    found = values(worth_of(0.2), [[worth_of(0.5), worth_of(0.7)], [worth_of(1.0, "lost")]])
    assert found == pytest.approx([0.6, 0.2, 0.2])
    assert all(map(math.isfinite, found))


def test_one_turn_needs_no_probing():
    async def never(assignments):
        raise AssertionError("nothing was to be played")

    turn = Turn("a", "p", np.zeros(1, np.int64), np.zeros(2, np.int64))
    one = Trajectory(SCENARIOS[0], [turn])
    finished = [Transcript(Assignment(SCENARIOS[0]), one, own_turns(one, "nobody"))]
    assert asyncio.run(ProbedTurns()(finished, play=never, score=scored, key=Key.of(0))) == [[0]]


def test_own_turns_are_a_roles_or_everybodys_but_never_imposed_ones():
    free, imposed = np.zeros(1, np.bool_), np.ones(1, np.bool_)
    turns = [
        Turn(role, "p", np.zeros(1, np.int64), np.zeros(1, np.int64), role=role, forced=forced)
        for role, forced in (("a", free), ("b", imposed), ("c", free), ("a", imposed))
    ]
    one = Trajectory(SCENARIOS[0], turns)
    assert own_turns(one, "a") == (0,)
    assert own_turns(one, "b") == own_turns(one, None) == (0, 2)


async def later(dialogue, turns):
    return [2, 0, 2, 9, -1]


def test_a_judge_may_be_async_and_say_too_much():
    turn = Turn("a", "p", np.zeros(1, np.int64), np.zeros(1, np.int64))
    one = Trajectory(SCENARIOS[0], [turn] * 3)
    finished = [Transcript(Assignment(SCENARIOS[0]), one, (0, 1, 2))]
    assert asyncio.run(NamedBy(later)(finished, play=None, score=scored, key=Key.of(0))) == [[2, 0]]


def test_they_are_values_and_refuse_nonsense(tmp_path):
    (tmp_path / "mine.py").write_text("def which(dialogue, turns):\n    return 0\n\nfive = 5\n")
    rollout = ResampledTurn(judge=NamedBy(f"{tmp_path}/mine.py:which"), good=0.5)
    assert from_plain(to_plain(rollout)) == rollout
    for make, reason in (
        (lambda: ResampledTurn(continuations=0), "continuations"),
        (lambda: ProbedTurns(rollouts=0), "rollouts"),
        (lambda: ProbedTurns(by="rise"), "fall or change"),
        (lambda: ProbedTurns(least=-1), "least"),
    ):
        with pytest.raises(ValueError, match=reason):
            make()
    with pytest.raises(ConfigurationError, match="name a function"):
        NamedBy(f"{tmp_path}/mine.py:five")


LAW = settings(max_examples=30, deadline=None, derandomize=True)


PATHS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple),
        st.integers(0, 4).map(lambda n: n / 4),
        st.sampled_from("ab"),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
"""What is said, the reward, the scenario, whether it counts."""


Row = tuple[tuple[int, ...], float, str, bool]


def batch_of(rows: list[Row]) -> Batch:
    """Dialogues in which every second turn is the partner's; equal beginnings are one object, message n has n + 1
    decisions, the first of the longest ones imposed."""
    known: dict[tuple[object, ...], Turn] = {}
    found = []
    for path, reward, scenario, counts in rows:
        turns = []
        for length in range(1, len(path) + 1):
            name = (scenario, path[:length], counts)
            if name not in known:
                size, role = path[length - 1] + 1, "agent" if length % 2 else "partner"
                logp = np.linspace(-1, -0.1 * length, size).astype(np.float32)
                forced = np.arange(size) < (size == 3)
                known[name] = Turn(
                    role, "p", np.zeros(1, np.int64), np.zeros(size, np.int64), logp=logp, role=role, forced=forced
                )
            turns.append(known[name])
        source = "own" if counts else "baseline"
        found.append(Trajectory(Scenario(scenario), turns, scores={"r": Score(reward)}, source=source))
    batch = WeightedSum()(pack(found), {})
    reference = torch.linspace(-2, -0.1, batch.decisions, dtype=torch.float64)
    everywhere = torch.ones(batch.decisions, dtype=torch.bool)
    return batch.but(logp={**batch.logp, "reference": RecordedNumbers(reference, everywhere)})


@LAW
@given(PATHS, st.randoms(use_true_random=False))
def test_the_order_of_the_batch_does_not_matter(rows, shuffle):
    """Up to which of equals is taken, so rewards are made to differ."""
    rows = [
        (path, reward + 0.01 * place, scenario, counts) for place, (path, reward, scenario, counts) in enumerate(rows)
    ]
    other = list(range(len(rows)))
    shuffle.shuffle(other)
    values = []
    for order in (range(len(rows)), other):
        batch = batch_of([rows[place] for place in order])
        seen = SegmentPairs()(batch)
        values.append(sorted((order[a], order[b]) for a, b in seen.pairs.tolist()))
    assert values[0] == values[1]


def test_gaps_of_any_size_give_finite_numbers():
    batch = batch_of([((0, 1, 2, 1), 1.0, "a", True), ((0, 2, 1, 0), 0.0, "a", True)])
    credited = batch.but(occurrences=SegmentPairs()(batch))
    for size in (50.0, 500.0, -500.0):
        logp = (batch.logp["reference"].values + size).requires_grad_()
        loss = Pairwise()(Evaluation(logp=logp), credited).total()
        (gradient,) = torch.autograd.grad(loss, logp)
        assert math.isfinite(float(loss.detach()))
        assert bool(torch.isfinite(gradient).all())


def test_it_is_a_value_and_refuses_nonsense():
    recipe = find("sdpo")
    assert from_plain(to_plain(recipe)) == recipe
    with pytest.raises(ValueError, match="turns must be at least 1"):
        SegmentPairs(turns=0)
