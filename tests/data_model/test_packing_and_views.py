"""pack, and the views of a batch: what is stored once, and what each view keeps."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from data_model_cases import recorded_path, trajectory, tree, turn, two_agents, walked_back
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.core.packing import pack, unique_turns
from hocket.core.signals import returns, rewards_by_occurrence
from hocket.rewards.combine import WeightedSum
from hocket.types import Decoding, Score

LAW = settings(max_examples=80, deadline=None, derandomize=True)


# ---------------------------------------------------------------- trees


def test_a_tree_stores_shared_turns_once_and_lists_them_per_trajectory():
    trajectories, _ = tree()
    batch = pack(trajectories)
    assert (batch.decisions, batch.turns, batch.trajectories, len(batch.occurrences)) == (7, 5, 3, 12)
    assert batch.action.tolist() == [10, 11, 20, 30, 31, 32, 21]
    assert batch.parent.tolist() == [-1, 0, 1, 1, 0]
    assert batch.index.tolist() == [0, 1, 2, 2, 1]
    assert batch.lengths().tolist() == [4, 5, 3]
    assert batch.last().tolist() == [3, 8, 11]
    assert batch.occurrences.decision.tolist() == [0, 1, 2, 3, 0, 1, 2, 4, 5, 0, 1, 6]
    assert batch.occurrences.trajectory.tolist() == [0] * 4 + [1] * 5 + [2] * 3
    for row, path in enumerate(trajectories):
        assert walked_back(batch, row) == recorded_path(path)


def test_contexts_outside_every_trajectory_are_kept_before_what_extends_them():
    trunk = turn([1])
    middle = turn([2], parent=trunk)
    leaf = turn([3, 4], parent=middle)
    turns = unique_turns([trajectory("s", [leaf])])
    assert turns == [trunk, middle, leaf]
    batch = pack([trajectory("s", [leaf])])
    assert batch.parent.tolist() == [-1, 0, 1]
    assert batch.decisions == 4, "context decisions are stored"
    assert batch.action[batch.occurrences.decision].tolist() == [3, 4], "but they are not learnt from"


def test_two_agents_with_separate_contexts():
    batch = pack([two_agents()])
    assert batch.parent.tolist() == [-1, -1, 0, 1]
    assert batch.action[batch.occurrences.decision].tolist() == [1, 2, 3, 4, 5, 6, 7], "in time order"
    assert [batch.names["agent"][code] for code in batch.agent] == ["planner", "worker"] * 2
    assert [batch.names["role"][code] for code in batch.role] == ["lead", "worker"] * 2
    assert batch.index.tolist() == [0, 1, 2, 3]
    planner = batch.of_policy("planner")
    assert planner.action[planner.occurrences.decision].tolist() == [1, 2, 4, 5, 6]
    assert planner.decisions == batch.decisions
    assert len(batch.of_policy("nobody").occurrences) == 0


def test_a_turn_shared_at_different_places_takes_its_index_from_the_first_trajectory():
    shared = turn([1], agent="worker")
    early, late = trajectory("s", [shared]), trajectory("s", [turn([2], agent="planner"), shared])
    assert pack([early, late]).index.tolist() == [0, 0]
    assert pack([late, early]).index.tolist() == [0, 1]


def test_a_prefix_shared_by_a_group_is_one_turn():
    prompt = turn([], observed=(1, 2, 3))
    samples = [turn([i, i], parent=prompt, observed=()) for i in range(4)]
    batch = pack([trajectory("s", [prompt, sample]) for sample in samples])
    assert batch.turns == 5
    assert batch.parent.tolist() == [-1, 0, 0, 0, 0]
    assert batch.lengths().tolist() == [2] * 4
    assert [o.tolist() for o in batch.observation] == [[1, 2, 3], [], [], [], []]


@st.composite
def forests(draw):
    """Random trees: every new trajectory may continue from any turn of an earlier one of its scenario."""
    paths, number = [], 0
    for scenario in range(draw(st.integers(1, 3))):
        mine = []
        for _ in range(draw(st.integers(1, 4))):
            path = []
            if mine and draw(st.booleans()):
                other = draw(st.sampled_from(mine))
                path = other[: draw(st.integers(0, len(other)))]
            for _ in range(draw(st.integers(0 if path else 1, 3))):
                length = draw(st.integers(0, 3))
                tokens = range(number, number + length)
                number += length
                agent = draw(st.sampled_from(["planner", "worker"]))
                # Each agent extends its own latest turn: contexts stay separate.
                own = [t for t in path if t.agent == agent]
                path = [*path, turn(tokens, agent=agent, parent=own[-1] if own else None, observed=(number,))]
            mine.append(path)
        paths += [trajectory(scenario, path) for path in mine]
    return paths


@LAW
@given(forests())
def test_walking_a_batch_gives_back_what_was_recorded(trajectories):
    batch = pack(trajectories)
    for row, path in enumerate(trajectories):
        assert walked_back(batch, row) == recorded_path(path)
        assert batch.names["scenario"][batch.scenario[row]] == path.scenario.id
    distinct = {id(t): t for path in trajectories for t in path.turns}.values()
    assert batch.decisions == sum(len(t) for t in distinct)
    assert len(batch.occurrences) == sum(path.length for path in trajectories)
    for number, one in enumerate(unique_turns(trajectories)):
        assert batch.logp["behaviour"].values[batch.turn == number].tolist() == one.logp.tolist()
        above = batch.parent[number].item()
        assert above < number, "contexts stand before what extends them"
    last, lengths = batch.last().tolist(), batch.lengths().tolist()
    ends = np.cumsum(lengths) - 1
    assert last == [int(end) if length else -1 for end, length in zip(ends, lengths, strict=True)]


@LAW
@given(forests(), st.data())
def test_selecting_trajectories_equals_packing_them(trajectories, data):
    for number, path in enumerate(trajectories):
        path.scores["verdict"] = Score(float(number))
        path.scores["steps"] = Score([number + place / 8 for place in range(path.length)], Level.DECISION)
        path.info["number"] = number
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(trajectories))), min_size=1)))
    part = pack(trajectories).select(torch.tensor(chosen))
    alone = pack([trajectories[i] for i in chosen])
    assert part.occurrences.trajectory.tolist() == alone.occurrences.trajectory.tolist()
    assert part.action[part.occurrences.decision].tolist() == alone.action[alone.occurrences.decision].tolist()
    for name in ("verdict", "steps"):
        assert part.scores[name].values.tolist() == alone.scores[name].values.tolist()
    assert part.info["number"] == chosen
    assert part.order.tolist() == chosen
    for row, number in enumerate(chosen):
        assert walked_back(part, row) == recorded_path(trajectories[number])


def test_select_renumbers_pairs_and_drops_broken_ones():
    batch = pack([trajectory("s", [turn([i])]) for i in range(4)])
    batch = batch.credited(pairs=torch.tensor([[3, 1], [0, 2]]), target=torch.arange(4.0))
    part = batch.select(torch.tensor([1, 2, 3]))
    assert part.occurrences.pairs.tolist() == [[2, 0]]
    assert part.occurrences.target.tolist() == [1, 2, 3]


def test_restricted_keeps_everything_but_occurrences():
    trajectories, _ = tree()
    for path in trajectories:
        path.scores["steps"] = Score(list(range(path.length)), Level.DECISION)
    batch = pack(trajectories)
    batch = batch.credited(advantage=torch.arange(12.0), target=torch.arange(12.0) * 2)
    keep = torch.arange(12) % 2 == 0
    part = batch.restricted(keep)
    assert part.occurrences.advantage.tolist() == [0, 2, 4, 6, 8, 10]
    assert part.occurrences.target.tolist() == [0, 4, 8, 12, 16, 20]
    assert part.scores["steps"].values.tolist() == batch.scores["steps"].values[keep].tolist()
    assert (part.decisions, part.turns, part.trajectories) == (7, 5, 3)
    assert len(batch.occurrences) == 12, "the batch itself is left alone"


@LAW
@given(forests(), st.data())
def test_taking_occurrences_keeps_their_decisions_alone(trajectories, data):
    for path in trajectories:
        path.scores["steps"] = Score([place / 8 for place in range(path.length)], Level.DECISION)
    batch = pack(trajectories)
    batch = batch.but(value=torch.arange(batch.decisions) / 3, annotations={"told": torch.arange(batch.decisions) * 2})
    places = st.sets(st.sampled_from(range(len(batch.occurrences)))) if len(batch.occurrences) else st.just(set())
    chosen = torch.tensor(sorted(data.draw(places)), dtype=torch.long)
    part, seen = batch.take(chosen), batch.occurrences
    assert part.taken.whole is batch
    assert part.taken.decision.tolist() == sorted(set(seen.decision[chosen].tolist()))
    assert (part.turns, part.trajectories) == (batch.turns, batch.trajectories)
    assert part.occurrences.trajectory.tolist() == seen.trajectory[chosen].tolist()
    assert part.scores["steps"].values.tolist() == batch.scores["steps"].values[chosen].tolist()

    def at(one, column):
        return column(one)[one.occurrences.decision].tolist()

    columns = [
        lambda one: one.action,
        lambda one: one.turn,
        lambda one: one.segment,
        lambda one: one.version,
        lambda one: one.forced,
        lambda one: one.value,
        lambda one: one.annotations["told"],
        lambda one: one.logp["behaviour"].values,
        lambda one: one.logp["behaviour"].present,
    ]
    for column in columns:
        assert len(column(part)) == part.decisions == len(part.taken.decision)
        assert at(part, column) == column(batch)[seen.decision[chosen]].tolist()
    again = part.take(torch.arange(len(chosen))[::2])
    assert again.taken.whole is batch, "what is taken twice was taken from the first"
    assert at(again, lambda one: one.value) == at(part, lambda one: one.value)[::2]


@LAW
@given(forests(), st.booleans(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_parts_that_are_dealt_are_those_taken(trajectories, again, count, rng):
    """Also where decisions occur several times, and of a batch that was itself taken from another."""
    for path in trajectories:
        path.scores["steps"] = Score([place / 8 for place in range(path.length)], Level.DECISION)
    batch = pack(trajectories)
    batch = batch.but(value=torch.arange(batch.decisions) / 3, annotations={"told": torch.arange(batch.decisions) * 2})
    batch = batch.credited(advantage=torch.arange(len(batch.occurrences)) / 7)
    if again:
        batch = batch.take(torch.arange(len(batch.occurrences))[1::2])
    order = list(range(len(batch.occurrences)))
    rng.shuffle(order)
    parts = [part.sort().values for part in torch.chunk(torch.tensor(order, dtype=torch.long), count)]
    dealt = list(batch.deal(parts))
    assert len(dealt) == len(parts)
    for part, found in zip(parts, dealt, strict=True):
        assert_same(found, batch.take(part))


def assert_same(one, other):
    """Equal in every tensor, and of the same whole."""
    for name in (field.name for field in fields(one)):
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, torch.Tensor):
            assert torch.equal(mine, theirs), name
        elif name in ("logp", "scores", "annotations"):
            assert mine.keys() == theirs.keys()
            for key in mine:
                halves = [
                    list(column) if isinstance(column, tuple) else [column] for column in (mine[key], theirs[key])
                ]
                assert all(torch.equal(a, b) for a, b in zip(*halves, strict=True) if isinstance(a, torch.Tensor)), key
        elif name == "occurrences":
            assert_same(mine, theirs)
        elif name == "taken":
            assert mine.whole is theirs.whole
            assert torch.equal(mine.decision, theirs.decision)
        else:
            assert mine is theirs or mine == theirs, name


def test_every_number_per_decision_is_taken():
    """A field of a batch that is as long as its decisions, whatever it is called, is as long as those taken."""
    batch = pack([trajectory("s", [turn([1, 2, 3])]), trajectory("s", [turn([4, 5])])])
    numbers = torch.arange(5.0)
    batch = batch.but(value=numbers, valued=numbers > 1, entropy=numbers, time=torch.arange(5))
    part = batch.take(torch.tensor([1, 2, 4]))
    tensors = {name: one for name, one in vars(batch).items() if isinstance(one, torch.Tensor) and len(one) == 5}
    assert {name: len(getattr(part, name)) for name in tensors} == dict.fromkeys(tensors, 3)


# ---------------------------------------------------------------- weights, columns


def test_forced_decisions_and_baselines_have_no_weight():
    forced = turn([1, 2, 3], forced=np.array([True, False, True]))
    rows = [trajectory("s", [forced]), trajectory("s", [turn([4, 5])], source="baseline"), trajectory("s", [forced])]
    batch = pack(rows)
    assert batch.occurrences.weight.tolist() == [0, 1, 0, 0, 0, 0, 1, 0]
    assert batch.forced.tolist() == [True, False, True, False, False]
    assert [batch.names["source"][code] for code in batch.source] == ["own", "baseline", "own"]


def test_what_was_not_recorded_has_defaults_and_is_marked():
    text = turn([1, 2], logp=None)
    told = turn([3], version=np.array([5]), segment=np.array([1]), decoding=Decoding(temperature=0.0), state="x")
    warm = turn([4], decoding=Decoding(temperature=0.5), state="x")
    batch = pack([trajectory("s", [text, told, warm], source="imported")])
    behaviour = batch.logp["behaviour"]
    assert behaviour.present.tolist() == [False, False, True, True]
    assert not behaviour.complete
    assert behaviour.values[:2].tolist() == [0, 0]
    assert batch.version.tolist() == [0, 0, 5, 0]
    assert batch.segment.tolist() == [0, 0, 1, 0]
    assert batch.temperature.tolist() == [1.0, 1.0, 0.5]
    assert batch.state[1] == batch.state[2] != batch.state[0]


def test_control_actions_may_be_vectors():
    vector = turn([0, 0])
    vector.action = np.array([[0.5, -1.0], [2.0, 3.0]], np.float32)
    batch = pack([trajectory("s", [vector])])
    assert batch.action.shape == (2, 2)
    assert batch.action.dtype == torch.float32


def test_columns_of_wrong_length_are_refused():
    with pytest.raises(ValueError, match="empty list"):
        pack([])
    with pytest.raises(ValueError, match="2 decisions but 3 values of logp"):
        pack([trajectory("s", [turn([1, 2], logp=np.zeros(3, np.float32))])])
    for level in (Level.DECISION, Level.TURN):
        with pytest.raises(ValueError, match="'v': 1 values for"):
            pack([trajectory("s", [turn([1, 2]), turn([3])], {"v": Score([1.0], level)})])
    with pytest.raises(ValueError, match="level"):
        pack(
            [
                trajectory("s", [turn([1])], {"v": Score(1.0)}),
                trajectory("s", [turn([1])], {"v": Score([1.0], Level.TURN)}),
            ]
        )


# ---------------------------------------------------------------- scores


def test_scores_at_every_level_and_missing_opinions():
    first, second = turn([1, 2]), turn([3])
    rows = [
        trajectory("s", [first, second], {"v": Score(None), "t": Score([1.0, None], Level.TURN)}),
        trajectory("s", [first], {"v": Score(2.0), "d": Score(None, Level.DECISION), "t": Score([9.0], Level.TURN)}),
        trajectory("s", [turn([4])], {"d": Score([0.5], Level.DECISION), "t": Score(None, Level.TURN)}),
    ]
    batch = pack(rows)
    nan = pytest.approx(float("nan"), nan_ok=True)
    assert batch.scores["v"].values.tolist() == [nan, 2.0, nan]
    assert batch.scores["t"].values.tolist() == [1.0, nan, nan], "a shared turn keeps the first opinion about it"
    assert batch.scores["d"].values.tolist() == [nan] * 5 + [0.5]


def test_a_later_silence_does_not_erase_the_score_of_a_shared_turn():
    shared = turn([1])
    rows = [trajectory("s", [shared], {"t": Score(value, Level.TURN)}) for value in ([None], [3.0], [None])]
    assert pack(rows).scores["t"].values.tolist() == [3.0]


def test_rewards_stand_where_they_were_earned():
    """A decision's at the decision, a turn's at its last one, a trajectory's at the end; returns are their sum."""
    trajectories, turns = tree()
    gains = {"trunk": 1.0, "a": 2.0, "b": 4.0, "first": 8.0, "second": 16.0}
    for number, path in enumerate(trajectories):
        names = [next(name for name, one in turns.items() if one is t) for t in path.turns]
        path.scores = {
            "turns": Score([gains[name] for name in names], Level.TURN),
            "steps": Score([100.0 * (number + 1)] * path.length, Level.DECISION),
            "verdict": Score(0.5),
        }
    batch = WeightedSum()(pack(trajectories), {"steps": 0.1})
    assert rewards_by_occurrence(batch).tolist() == pytest.approx(
        [10, 11, 12, 18.5, 20, 21, 22, 20, 36.5, 30, 31, 34.5]
    )
    assert returns(batch).tolist() == pytest.approx([51.5, 119.5, 95.5])


def test_the_return_of_a_trajectory_without_decisions_is_its_own_reward():
    batch = WeightedSum()(
        pack([trajectory("s", [], {"v": Score(3.0)}), trajectory("s", [turn([1])], {"v": Score(1.0)})]), {}
    )
    assert returns(batch).tolist() == [3.0, 1.0]
    assert batch.last().tolist() == [-1, 0]


@LAW
@given(forests(), st.data())
def test_returns_are_the_weighted_sum_of_scores(trajectories, data):
    numbers = st.sampled_from([0.0, 1.0, -2.5, 0.1])
    want = []
    for path in trajectories:
        steps = data.draw(st.lists(numbers, min_size=path.length, max_size=path.length))
        verdict = data.draw(numbers)
        path.scores = {"v": Score(verdict), "d": Score(steps, Level.DECISION)}
        want.append(2 * verdict + 0.5 * sum(steps))
    found = returns(WeightedSum()(pack(trajectories), {"v": 2.0, "d": 0.5})).tolist()
    assert found == pytest.approx(want)
