"""Pairs compared in a segment: where it begins, how long it is, and what it leaves out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Batch, Recorded
from hocket.core.components import from_plain, to_plain
from hocket.core.packing import pack
from hocket.methods.agents.sdpo import SegmentPairs
from hocket.objectives.preference import DPO
from hocket.recipes import find
from hocket.rewards.combine import WeightedSum
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

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
    return batch.but(logp={**batch.logp, "reference": Recorded(reference, everywhere)})


def by_hand(rows: list[Row], turns: int | None, role: str | None) -> list[tuple[int, int, set[int], set[int]]]:
    """Best, worst, and the places of their turns that count."""
    found = []
    for scenario in dict.fromkeys(row[2] for row in rows if row[3]):
        mine = [place for place, row in enumerate(rows) if row[2] == scenario and row[3]]
        best, worst = (pick(mine, key=lambda place: rows[place][1]) for pick in (max, min))
        left, right = rows[best][0], rows[worst][0]
        own = [[n for n in range(len(path)) if role is None or n % 2 == 0] for path in (left, right)]
        start = 0
        while start < min(map(len, own)) and left[: own[0][start] + 1] == right[: own[1][start] + 1]:
            start += 1
        rest = [places[start:] for places in own]
        least = min(map(len, rest))
        if rows[best][1] > rows[worst][1] and least:
            cut = [set(one if turns is None else one[: min(turns, least)]) for one in rest]
            found.append((best, worst, *cut))
    return found


@LAW
@given(PATHS, st.sampled_from([1, 2, None]), st.sampled_from([None, "agent"]))
def test_segments_begin_where_dialogues_differ_and_have_equal_turns(rows, turns, role):
    batch = batch_of(rows)
    seen = SegmentPairs(turns=turns, role=role)(batch)
    want = by_hand(rows, turns, role)
    assert sorted(seen.pairs.tolist()) == sorted([best, worst] for best, worst, _, _ in want)
    counted = {(row, place) for best, worst, a, b in want for row, cut in ((best, a), (worst, b)) for place in cut}
    plain = batch.occurrences.weight
    for row in range(len(rows)):
        mine = (seen.trajectory == row).nonzero().flatten()
        visited = list(dict.fromkeys(batch.turn[seen.decision[mine]].tolist()))
        for one in mine.tolist():
            place = visited.index(int(batch.turn[seen.decision[one]]))
            assert float(seen.weight[one]) == (float(plain[one]) if (row, place) in counted else 0.0)


@LAW
@given(PATHS, st.sampled_from([1, 3, None]))
def test_the_loss_is_the_formula(rows, turns):
    batch = batch_of(rows)
    credited = batch.but(occurrences=SegmentPairs(turns=turns)(batch))
    logp = batch.logp["behaviour"].values.double()
    gap = logp - batch.logp["reference"].values
    losses = []
    for best, worst, left, right in by_hand(rows, turns, None):
        sums = []
        for row, cut in ((best, left), (worst, right)):
            mine = (batch.occurrences.trajectory == row).nonzero().flatten()
            visited = list(dict.fromkeys(batch.turn[batch.occurrences.decision[mine]].tolist()))
            used = [
                one for one in mine.tolist() if visited.index(int(batch.turn[batch.occurrences.decision[one]])) in cut
            ]
            sums.append(
                sum(float(gap[batch.occurrences.decision[one]]) * float(batch.occurrences.weight[one]) for one in used)
            )
        losses.append(math.log1p(math.exp(-0.5 * (sums[0] - sums[1]))))
    found = float(DPO(beta=0.5)(Evaluation(logp=logp), credited).total())
    assert found == pytest.approx(sum(losses) / max(1, len(losses)), abs=1e-12)


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
        loss = DPO()(Evaluation(logp=logp), credited).total()
        (gradient,) = torch.autograd.grad(loss, logp)
        assert math.isfinite(float(loss.detach()))
        assert bool(torch.isfinite(gradient).all())


def test_it_is_a_value_and_refuses_nonsense():
    recipe = find("sdpo")
    assert from_plain(to_plain(recipe)) == recipe
    with pytest.raises(ValueError, match="turns must be at least 1"):
        SegmentPairs(turns=0)
