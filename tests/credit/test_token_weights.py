"""Credit refined by entropy, conflict, selection, rank, temperature and place."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, experiences, make, make_turn, mean
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import BestAgainstWorst
from hocket.credit.reinforce import RunningMean
from hocket.methods.group_relative.adacot import MaskDecision
from hocket.methods.group_relative.aepo import RewardWhereTempered
from hocket.methods.group_relative.cppo import Pruned, largest_in_groups
from hocket.methods.group_relative.d3s import DownSampled, largest_variance
from hocket.methods.group_relative.edge_grpo import EntropyScaled
from hocket.methods.group_relative.fc_entropy_grpo import EntropyLifted
from hocket.methods.group_relative.gtpo_trajectory import ConflictTokens, contested, opening_run
from hocket.methods.group_relative.rank_grpo import RankRelative
from hocket.methods.group_relative.tw_grpo import DIVERGENCE, PlaceWeighted

PLAIN = GroupRelative()
REFINED = [
    EntropyScaled(),
    EntropyLifted(),
    ConflictTokens(),
    Pruned(rate=0.5),
    Pruned(rate=0.5, over="batch"),
    Pruned(rate=0.5, normaliser="all"),
    DownSampled(),
    RewardWhereTempered(),
    PlaceWeighted(),
    RankRelative(),
    RankRelative(gain="hit", length=2),
]


def annotated(trajectories, seed=0):
    """A batch with entropies and divergences that belong to decisions, whatever the order of trajectories."""
    batch = batch_of(trajectories)
    turns = {id(turn): turn for trajectory in trajectories for turn in trajectory.turns}
    for number, turn in enumerate(turns.values()):
        turn.extras.setdefault("noise", Key.of(seed).derive(number).numpy().exponential(size=len(turn)))
    noise = torch.tensor([float(x) for t in turns.values() for x in t.extras["noise"]], dtype=torch.float64)
    assert len(noise) == batch.decisions
    return batch.but(entropy=noise, annotations={DIVERGENCE.name: noise.square()}, progress=0.0)


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from(REFINED))
def test_what_does_not_count_gets_no_credit_and_all_is_finite(trajectories, credit):
    batch = annotated(trajectories)
    seen = credit(batch)
    assert bool(torch.isfinite(seen.advantage).all())
    assert bool(torch.isfinite(seen.weight).all())
    assert bool((seen.weight[batch.occurrences.weight == 0] == 0).all())
    assert len(seen) == len(batch.occurrences)


@LAW
@given(experiences(), st.sampled_from(REFINED), st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(trajectories, credit, shuffle):
    batch = annotated(trajectories)
    places = list(range(len(trajectories)))
    shuffle.shuffle(places)
    moved = annotated([trajectories[place] for place in places])
    moved = moved.but(order=torch.tensor(places))  # Their place in assignment order stays theirs.
    before, after = credit(batch), credit(moved)
    for column in ("advantage", "weight"):
        old, new = by_trajectory(batch, getattr(before, column)), by_trajectory(moved, getattr(after, column))
        for number, place in enumerate(places):
            assert new[number] == pytest.approx(old[place], rel=1e-9, abs=1e-9)


@LAW
@given(experiences())
def test_neutral_settings_leave_credit_as_it_is(trajectories):
    batch = annotated(trajectories)
    plain = PLAIN(batch)
    neutral = [
        EntropyScaled(low=1.0, high=1.0),
        EntropyLifted(gain=0.0),
        EntropyLifted(share=0.0),
        EntropyLifted(segment=7),
        Pruned(rate=0.0),
        DownSampled(samples=1.0, decisions=1.0),
        RewardWhereTempered(),
        PlaceWeighted(largest=1.0),
    ]
    for credit in neutral:
        seen = credit(batch)
        assert torch.equal(seen.advantage.double(), plain.advantage)
        assert torch.equal(seen.weight.double(), plain.weight.double())


@LAW
@given(experiences())
def test_entropy_scaling_by_hand(trajectories):
    batch = annotated(trajectories)
    plain = by_trajectory(batch, PLAIN(batch).advantage)
    entropies = by_trajectory(batch, batch.entropy[batch.occurrences.decision])
    weights = by_trajectory(batch, batch.occurrences.weight)
    means = [
        mean([h for h, w in zip(row, used, strict=True) if w]) if any(used) else None
        for row, used in zip(entropies, weights, strict=True)
    ]
    known = [one for one in means if one is not None]
    found = by_trajectory(batch, EntropyScaled(low=1e-9, high=1e9)(batch).advantage)
    for row, before, own in zip(found, plain, means, strict=True):
        assert row == pytest.approx([a * mean(known) / own if own else 0.0 for a in before], rel=1e-9, abs=1e-12)


@LAW
@given(experiences(), st.floats(0, 5), st.floats(0, 0.99))
def test_the_entropy_lift_keeps_signs(trajectories, gain, share):
    batch = annotated(trajectories)
    plain, lifted = PLAIN(batch).advantage, EntropyLifted(gain=gain, share=share)(batch).advantage
    assert torch.equal(torch.sign(plain), torch.sign(lifted))
    assert bool((lifted >= plain).all())


def test_an_entropy_of_zero_has_a_bounded_factor():
    batch = batch_of([make("a", 1.0), make("a", 0.0)])
    batch = batch.but(entropy=torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert EntropyScaled()(batch).advantage[0] == pytest.approx(10 * PLAIN(batch).advantage[0].item())
    assert torch.equal(EntropyScaled()(batch.but(entropy=torch.zeros(4))).advantage, PLAIN(batch).advantage)


def test_missing_columns_are_named():
    batch = batch_of([make("a", 1.0), make("a", 0.0)])
    with pytest.raises(ConfigurationError, match="EntropyScaled reads the entropy"):
        EntropyScaled()(batch)
    with pytest.raises(ConfigurationError, match="PlaceWeighted reads the divergence"):
        PlaceWeighted()(batch)


@pytest.mark.parametrize("inner", [BestAgainstWorst(), RunningMean()])
def test_pairs_and_memories_are_not_refined(inner):
    with pytest.raises(ValueError, match=type(inner).__name__):
        Pruned(of=inner)


def test_what_refined_credit_reads_and_compares_is_said():
    assert EntropyScaled().reads == {Column.ENTROPY}
    assert PlaceWeighted().reads == {DIVERGENCE}
    assert Pruned().reads == frozenset()
    assert Pruned().least_samples == 2


# ---------------------------------------------------------------- conflict


@st.composite
def groups_of_tokens(draw):
    rows = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=2, max_size=5))
    return rows, [draw(st.sampled_from([-1, 0, 1])) for _ in rows]


@LAW
@given(groups_of_tokens())
def test_contested_runs_by_hand(case):
    rows, signs = case
    trajectory = torch.tensor([n for n, row in enumerate(rows) for _ in row])
    place = torch.tensor([p for row in rows for p in range(len(row))])
    token = torch.tensor([t for row in rows for t in row])
    sign = torch.tensor([signs[n] for n in trajectory.tolist()])
    marked = contested(torch.zeros_like(trajectory), place, token, sign)
    expected = [
        signs[n] != 0
        and any(signs[m] * signs[n] < 0 and len(other) > p and other[p] == t for m, other in enumerate(rows))
        for n, row in enumerate(rows)
        for p, t in enumerate(row)
    ]
    assert marked.tolist() == expected
    runs = opening_run(marked, trajectory, len(rows)).tolist()
    at = 0
    for row in rows:
        own = expected[at : at + len(row)]
        assert runs[at : at + len(row)] == [all(own[: p + 1]) for p in range(len(row))]
        at += len(row)


def with_tokens(group, reward, tokens, **more):
    trajectory = make(group, reward, length=len(tokens), **more)
    trajectory.turns[0].action[:] = tokens
    return trajectory


def test_a_conflict_at_both_ends_is_squared():
    batch = batch_of([with_tokens("a", 1.0, [5, 6]), with_tokens("a", 0.0, [5, 6])])
    batch = batch.but(entropy=torch.zeros(batch.decisions))
    plain = PLAIN(batch).advantage
    found = ConflictTokens()(batch).advantage
    assert found.tolist() == pytest.approx([4 * plain[0].item() / 2] * 2 + [0.0, 0.0])


def test_other_groups_are_no_conflict_and_constant_groups_keep_the_cost():
    batch = batch_of([with_tokens("a", 1.0, [5, 6]), with_tokens("b", 0.0, [5, 6])])
    batch = batch.but(entropy=torch.full((batch.decisions,), 0.5))
    assert ConflictTokens()(batch).advantage.tolist() == pytest.approx([-0.05] * 4)
    assert not ConflictTokens(cost=0.0)(batch).advantage.any()


# ---------------------------------------------------------------- selection


@LAW
@given(st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.1, 2.0]), min_size=1, max_size=9), st.data())
def test_the_split_scan_finds_the_largest_variance(values, data):
    number = data.draw(st.integers(1, len(values)))
    tensor = torch.tensor(values, dtype=torch.float64)
    chosen = largest_variance(tensor, number)
    assert len(set(chosen.tolist())) == number
    best = max(float(tensor[list(one)].var(correction=0)) for one in itertools.combinations(range(len(values)), number))
    assert float(tensor[chosen].var(correction=0)) == pytest.approx(best, abs=1e-12)


@LAW
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.25, 0.5, 1.0]),
)
def test_the_largest_of_each_group_by_hand(members, share):
    group = torch.tensor([g for g, _ in members])
    size = torch.tensor([s for _, s in members], dtype=torch.float64)
    chosen = largest_in_groups(size, group, 3, share, torch.arange(len(members))).tolist()
    for own in range(3):
        here = [n for n, (g, _) in enumerate(members) if g == own]
        ranked = sorted(here, key=lambda n: (-members[n][1], n))
        wanted = set(ranked[: max(1, math.floor(share * len(here) + 1e-9))]) if here else set()
        assert {n for n in here if chosen[n]} == wanted


def test_down_sampling_relaxes_over_the_run():
    batch = annotated([make("a", float(n % 3), length=3) for n in range(8)])
    kept = [int((DownSampled()(batch.but(progress=p)).weight != 0).sum()) for p in (0.0, 0.4, 0.75, 1.0)]
    assert kept[0] == 6
    assert kept[0] < kept[1] < kept[2] == kept[3] == 24


# ---------------------------------------------------------------- ranks


def listed(reward, segments, hits, *, truncated=False):
    trajectory = make("a", reward, truncated=truncated, turns=[make_turn(len(segments))])
    trajectory.turns[0].segment = torch.tensor(segments).numpy()
    trajectory.info["hits"] = hits
    return trajectory


@LAW
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=2, max_size=5))
def test_item_advantages_by_hand(hits):
    batch = batch_of([listed(0.0, list(range(len(row))), row) for row in hits])
    longest = max(map(len, hits))
    gains = [[sum(h / math.log2(j + 2) for j, h in enumerate(row) if j >= k) for k in range(longest)] for row in hits]
    found = by_trajectory(batch, RankRelative()(batch).advantage)
    for own, row in zip(found, gains, strict=True):
        for rank, advantage in enumerate(own):
            column = [other[rank] for other in gains]
            centre = mean(column)
            deviation = (sum((x - centre) ** 2 for x in column) / (len(column) - 1)) ** 0.5
            equal = max(column) == min(column)
            assert advantage == pytest.approx(0.0 if equal else (row[rank] - centre) / (deviation + 1e-4), abs=1e-9)


def test_without_hits_the_return_stands_at_every_rank():
    batch = batch_of([make("a", 1.0, length=3), make("a", 0.0), make("b", 0.0)])
    assert torch.equal(RankRelative(epsilon=1e-6)(batch).advantage, PLAIN(batch).advantage)


def test_a_list_cut_short_earns_no_end():
    batch = batch_of([listed(0.0, [0, 1, 1], [1.0, 0.0], truncated=True), listed(0.0, [0, 1, 1], [1.0, 0.0])])
    found = by_trajectory(batch, RankRelative(length=2)(batch).advantage)
    assert (found[0][-1], found[1][-1]) == (0.0, 0.1)


# ---------------------------------------------------------------- tempered, masked


def test_tempered_samples_get_their_reward_and_leave_the_group_alone():
    trajectories = [make("a", 1.0), make("a", 0.0), make("a", 1.0), make("a", 0.0)]
    for trajectory in trajectories[2:]:
        trajectory.info["tempered"] = True
    batch = batch_of(trajectories)
    seen = RewardWhereTempered()(batch)
    alone = PLAIN(batch_of(trajectories[:2])).advantage.tolist()
    assert seen.advantage.tolist() == [*alone, 1.0, 1.0, 0.0, 0.0]
    assert torch.equal(seen.weight, batch.occurrences.weight)


@pytest.mark.parametrize(
    ("tag", "pieces", "masked"),
    [
        ("<think>", ["<think>", "a", "b"], [1]),
        ("<think>", ["<thi", "nk>a", "b"], [2]),
        ("<think>", ["a", "b", "c"], []),
        ("<think>", ["a", "b", "<think>"], []),
        ("", ["a", "b", "c"], [0]),
    ],
)
def test_one_decision_is_masked(tag, pieces, masked):
    trajectory = make("a", 1.0, length=3)
    trajectory.info["pieces"] = pieces
    weight = MaskDecision(tag)(batch_of([trajectory])).occurrences.weight
    assert torch.nonzero(weight == 0).flatten().tolist() == masked


def test_the_decision_of_every_turn_is_masked():
    first = make_turn(2)
    trajectory = make("a", 1.0, turns=[first, make_turn(2, parent=first)])
    trajectory.info["pieces"] = ["<think>", "a", "<think>", "b"]
    weight = MaskDecision()(batch_of([trajectory])).occurrences.weight
    assert weight.tolist() == [1, 0, 1, 0]


def test_a_wrong_number_of_pieces_is_refused():
    trajectory = make("a", 1.0, length=3)
    trajectory.info["pieces"] = ["a"]
    with pytest.raises(ConfigurationError, match="3 decisions but 1 texts"):
        MaskDecision()(batch_of([trajectory]))


def test_places_weigh_within_their_group():
    batch = batch_of([make("a", 1.0), make("a", 0.0), make("b", 1.0)])
    batch = batch.but(annotations={DIVERGENCE.name: torch.tensor([0.0, 2.0, 0.0, 2.0, 5.0, 5.0])})
    assert PlaceWeighted(largest=1.4)(batch).weight.tolist() == pytest.approx([1, 1.4, 1, 1.4, 1, 1])
    imported = batch.credited(weight=replace(batch.occurrences).weight * 0.5)
    assert PlaceWeighted()(imported).weight.tolist() == pytest.approx([0.5, 0.7, 0.5, 0.7, 0.5, 0.5])
