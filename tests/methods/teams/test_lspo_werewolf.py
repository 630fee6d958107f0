"""From talk to intents, from intents to a game, and back to pairs of utterances."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.workflows.library import find
from hocket.core.batch import Batch, Level
from hocket.core.columns import TOKEN_TEXTS
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions, rewards_by_occurrence
from hocket.methods.teams.claims.lspo_werewolf import bench
from hocket.methods.teams.lspo_werewolf.method import (
    AbstractGame,
    Course,
    IntentPairs,
    Move,
    OneNight,
    _seeds,
    adjusted_rand,
    earned,
    embedded,
    k_means,
)
from hocket.rewards.combine import WeightedSum
from hocket.testing import rehearse
from hocket.train.describe import token_texts_of
from hocket.types import Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=50, deadline=None, derandomize=True)
LABELS = st.lists(st.integers(0, 3), min_size=2, max_size=12)

# ---------------------------------------------------------------- clusters


def test_texts_are_compared_by_their_words_and_pairs_of_neighbours_counts_dampened() -> None:
    rows = embedded(["Trust me, trust me!", "trust ME trust me", "I saw", "", "me trust"])
    two, three = math.log(2), math.log(3)
    due = (2 * three * two + two * two) / math.sqrt(3 * three**2 + two**2) / (math.sqrt(3) * two)
    assert rows.shape == (5, 7)
    assert (rows @ rows[0]).tolist() == pytest.approx([1, 1, 0, 0, due])
    assert rows.norm(dim=1).tolist() == pytest.approx([1, 1, 1, 0, 1])


@LAW
@given(st.integers(1, 5), st.integers(0, 1000))
def test_far_groups_are_found_whatever_the_draw(groups: int, seed: int) -> None:
    rng = Key.of(seed).numpy()
    labels = [*range(groups), *(int(one) for one in rng.integers(groups, size=20))]
    points = torch.tensor([[100.0 * label, 0.0] for label in labels], dtype=torch.float64)
    points += torch.from_numpy(rng.normal(size=points.shape))
    found = k_means(points, groups, Key.of(seed))
    assert adjusted_rand(found, labels) == 1.0
    assert found == [list(dict.fromkeys(found)).index(one) for one in found]


@pytest.mark.parametrize("seed", range(12))
def test_clusters_are_the_best_of_all_partitions_numbered_as_they_first_appear(seed: int) -> None:
    size, clusters = 7, 2 + seed % 2
    points = torch.tensor(Key.of(seed).derive("points").numpy().normal(size=(size, 2)))

    def spread(labels: Sequence[int]) -> float:
        groups = [points[[place for place, own in enumerate(labels) if own == name]] for name in set(labels)]
        return float(sum((group - group.mean(0)).square().sum() for group in groups))

    found = k_means(points, clusters, Key.of(seed))
    every = itertools.product(range(clusters), repeat=size)
    assert spread(found) == pytest.approx(min(spread(labels) for labels in every if len(set(labels)) == clusters))
    first = [found.index(name) for name in range(clusters)]
    assert first == sorted(first)


def test_seeds_are_drawn_by_their_squared_distance_to_the_nearest() -> None:
    places, draws = (0.0, 1.0, 4.0), 3000
    points = torch.tensor(places, dtype=torch.float64)[:, None]
    drawn = Counter(tuple(_seeds(points, 2, Key.of(n).numpy()).flatten().tolist()) for n in range(draws))
    for a, b in itertools.permutations(places, 2):
        chance = (a - b) ** 2 / sum((a - c) ** 2 for c in places) / 3
        assert abs(drawn[a, b] / draws - chance) < 4 * math.sqrt(chance / draws)
    assert all(len(set(k_means(points, 3, Key.of(number), restarts=1))) == 3 for number in range(30))


def test_of_equally_good_runs_the_first_counts() -> None:
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    runs = [[k_means(square, 2, Key.of(number), restarts=n) for n in (1, 8)] for number in range(20)]
    halves = [(one, other) for one, other in runs if sum(one) == 2]
    assert len(halves) > 5
    assert all(one == other for one, other in halves)


def test_there_are_no_more_clusters_than_points_that_differ() -> None:
    assert k_means(torch.zeros(4, 2, dtype=torch.float64), 3, Key.of(0)) == [0, 0, 0, 0]
    assert k_means(embedded(["a", "b", "a"]), 5, Key.of(0)) == [0, 1, 0]


@LAW
@given(LABELS, st.randoms(use_true_random=False))
def test_the_rand_index_by_pairs(left: list[int], random) -> None:  # type: ignore[no-untyped-def]
    right = left[:]
    random.shuffle(right)
    pairs = list(itertools.combinations(range(len(left)), 2))
    a = sum(left[i] == left[j] for i, j in pairs)
    b = sum(right[i] == right[j] for i, j in pairs)
    both = sum(left[i] == left[j] and right[i] == right[j] for i, j in pairs)
    expected, most = a * b / len(pairs), (a + b) / 2
    wanted = 1.0 if most == expected else (both - expected) / (most - expected)
    assert adjusted_rand(left, right) == pytest.approx(wanted)
    assert adjusted_rand(left, left) == 1.0


# ---------------------------------------------------------------- the game


def coin_game(payoff: Sequence[Sequence[float]], times: int = 1) -> AbstractGame:
    """Two move without knowing of each other: the second is told nothing, so what the first meant is left out."""
    courses = []
    for one, two in itertools.product(range(len(payoff)), range(len(payoff[0]))):
        won = payoff[one][two]
        moves = (Move("one", f"hidden {one}", 0), Move("two", "", two))
        courses += [Course("coins", moves, {"one": won, "two": -won})] * times
    return AbstractGame(courses)


def test_an_answer_to_chance_is_the_best_column() -> None:
    # Chance shows row 0 or 1 to the first, who has nothing to choose; the second best answers the mean.
    game = coin_game([[1.0, -1.0], [2.0, 0.5]])
    solved = game.solved(50)
    assert game.value(solved)["two"] == pytest.approx(0.25, abs=0.02)
    assert game.best_response("two", solved) == pytest.approx(0.25)
    two = next(one for one in game.situations if one.role == "two")
    assert game.action_values(solved)[two] == pytest.approx({0: -1.5, 1: 0.25})
    assert game.intents[two] == {0: 2, 1: 2}
    assert game.reached(solved)[two] == pytest.approx(1.0)


def test_what_was_never_heard_after_a_hidden_event_brings_the_usual() -> None:
    courses = [
        Course("s", (Move("one", "a", 0), Move("two", "", 0)), {"two": 4.0}),
        Course("s", (Move("one", "a", 0), Move("two", "", 1)), {"two": 1.0}),
        Course("s", (Move("one", "b", 0), Move("two", "", 0)), {"two": 2.0}),
        Course("s", (Move("one", "b", 0), Move("two", "", 0)), {"two": 3.0}),
    ]
    game = AbstractGame(courses)
    two = next(one for one in game.situations if one.role == "two")
    assert len(game.situations[two]) == 2
    # 1 was heard after a alone and brought 1, so it brings 1 after b, too.
    assert game.action_values(game.solved(1))[two] == pytest.approx({0: 0.5 * 4 + 0.5 * 2.5, 1: 1.0})


def test_episodes_that_end_early_count_by_their_share() -> None:
    courses = [Course("s", (), {"one": 3.0}), *[Course("s", (Move("one", "", 0),), {"one": 1.0})] * 3]
    game = AbstractGame(courses)
    assert game.value(game.solved(1)) == pytest.approx({"one": 1.5})


# ---------------------------------------------------------------- pairs


def night(rows: Sequence[tuple[str, str, float]], order: Sequence[int] | None = None) -> Batch:
    """Episodes of one turn: what the speaker knew, what it said, and what that earned."""
    played = []
    for number in order or range(len(rows)):
        card, text, reward = rows[number]
        turn = Turn(
            "speaker",
            "policy",
            np.zeros(1, np.int64),
            np.array([number, 1]),
            role="speaker",
            state=card,
            logp=np.full(2, -1.0, np.float32),
        )
        scores = {"reward": Score(reward)}
        played.append(Trajectory(Scenario("night"), [turn], number, scores=scores, info={"pieces": [text, "."]}))
    return WeightedSum()(pack(played), {})


ROWS = [
    ("wolf", "I am the seer", -1.0),
    ("wolf", "the seer is what I am", -1.0),
    ("wolf", "cold night", 1.0),
    ("wolf", "I am the seer, the seer", -1.0),
    ("villager", "I am the seer", 1.0),
    ("villager", "a cold night", 0.0),
]


def test_the_better_intent_of_a_situation_is_preferred() -> None:
    seen = IntentPairs(intents=2)(night(ROWS))
    assert seen.pairs is not None
    assert seen.compared is not None
    assert sorted(seen.pairs.tolist()) == [[2, 0], [4, 5]]
    assert seen.compared.tolist() == seen.pairs.tolist()
    assert seen.weight.reshape(6, 2)[:, 0].tolist() == [1, 0, 1, 0, 1, 1]


def test_pairs_do_not_depend_on_the_order_of_the_batch() -> None:
    order = [3, 5, 0, 4, 2, 1]
    one, other = (IntentPairs(intents=2)(batch) for batch in (night(ROWS), night(ROWS, order)))
    assert one.pairs is not None
    assert other.pairs is not None
    named = sorted([order[better], order[worse]] for better, worse in other.pairs.tolist())
    # Utterances of one intent are in assignment order, so another of them may be taken.
    kind = {2: "wolf quiet", 0: "wolf claims", 1: "wolf claims", 3: "wolf claims", 4: "claims", 5: "quiet"}
    assert sorted([kind[a], kind[b]] for a, b in named) == sorted([kind[a], kind[b]] for a, b in one.pairs.tolist())


def test_no_pairs_where_all_mean_the_same_or_nothing_is_known() -> None:
    for rows in (ROWS[:1], [ROWS[0], ROWS[0]], [("wolf", "", 1.0), ("wolf", "", 0.0)][:1]):
        seen = IntentPairs(intents=2)(night(rows))
        assert seen.pairs is not None
        assert len(seen.pairs) == 0
    for wrong in ({"intents": 1}, {"iterations": 0}, {"margin": -1.0}):
        with pytest.raises(ValueError, match="intents must be at least 2"):
            IntentPairs(**wrong)  # type: ignore[arg-type]


def test_a_mix_that_is_met_is_left_alone() -> None:
    credit = IntentPairs(margin=0.05)
    assert credit.preferred({0: 1, 1: 2}, {0: 0.5, 1: 0.5}) == (0, 1)
    assert credit.preferred({0: 10, 1: 10}, {0: 0.52, 1: 0.48}) == (0, 0)


def test_everyone_earns_the_trajectorys_reward_and_its_own() -> None:
    turns = [Turn(role, "policy", np.zeros(1, np.int64), np.array([1]), role=role) for role in ("a", "b", "a")]
    scores = {"own": Score([1.0, 2.0, 4.0], Level.TURN), "team": Score(10.0)}
    batch = WeightedSum()(pack([Trajectory(Scenario("s"), turns, 0, scores=scores)]), {})
    assert earned(batch) == [{"a": 15.0, "b": 12.0}]


def nights(count: int) -> tuple[Batch, list[Trajectory]]:
    """A batch of nights by tables, with its words, and the trajectories."""
    made = bench(3)
    played = made.play(count)
    texts = {TOKEN_TEXTS.name: token_texts_of(played, made.player.decode)}
    return WeightedSum()(pack(played).but(info=texts), {}), played


def test_talk_is_every_turn_in_its_order_with_its_words_or_its_actions() -> None:
    batch, played = nights(40)
    credit = IntentPairs(intents=2, margin=0.03)
    talk, bare = credit.talk(batch), credit.talk(batch.but(info={}))
    order = sorted(range(len(played)), key=lambda row: int(batch.order[row]))
    told = [(row, place, turn.role, turn.text) for row in order for place, turn in enumerate(played[row].turns)]
    assert [(one.trajectory, one.phase, one.role, one.text) for one in talk] == told
    assert all(one.counts for one in talk)
    numbers = {(one.text, other.text) for one, other in zip(talk, bare, strict=True)}
    assert len(numbers) == len({text for text, _ in numbers}) == len({number for _, number in numbers})


def test_what_is_paid_at_decisions_is_earned_by_their_roles() -> None:
    batch, played = nights(40)
    due = []
    for night in played:
        values: Any = night.scores["reward"].value
        due.append({turn.role: float(v or 0) for turn, v in zip(night.turns, values, strict=True)})
    assert earned(batch) == earned(paid_at_decisions(batch, rewards_by_occurrence(batch))) == due


def test_pairs_are_of_one_situation_and_turns_that_do_not_count_are_heard_and_never_compared() -> None:
    batch, _ = nights(40)
    credit = IntentPairs(intents=2, margin=0.03)
    talk, pairs = credit.talk(batch), credit(batch)
    assert pairs.pairs is not None
    assert pairs.compared is not None
    used = pairs.compared.flatten().tolist()
    assert len(used) == len(set(used)) > 4
    meant = {(one.trajectory, one.turn): kind for one, kind in zip(talk, credit.meant(talk), strict=True)}
    for (better, worse), (b, w) in zip(pairs.pairs.tolist(), pairs.compared.tolist(), strict=True):
        assert meant[better, b] != meant[worse, w]
        assert (batch.role[b], batch.state[b]) == (batch.role[w], batch.state[w])
    muted = replace(batch.occurrences, weight=batch.occurrences.weight.clone())
    dropped = used[0]
    muted.weight[batch.turn[muted.decision] == dropped] = 0
    quiet = batch.but(occurrences=muted)
    assert [one.turn for one in credit.talk(quiet) if not one.counts] == [dropped]
    again = credit(quiet).compared
    assert again is not None
    assert len(again) > 0
    assert dropped not in again.flatten().tolist()


# ---------------------------------------------------------------- one night


@pytest.mark.parametrize(
    ("said", "judged", "wolf"),
    [("Cold night.", None, -1.0), ("I swear it.", "hm", 1.0), ("Trust me", "You lie!", -2.0)],
)
def test_one_night_pays_by_what_was_meant(said: str, judged: str | None, wolf: float) -> None:
    villager = {-1.0: 1.0, 1.0: 1.0, -2.0: 2.0}[wolf]
    cards = set()
    for seed in range(8):
        replies = {"speaker": [said], "judge": [] if judged is None else [judged]}
        (played,) = rehearse(OneNight(), Scenario("night"), replies, seed=seed)
        card = played.info["card"]
        won = wolf if card == "wolf" else villager
        assert played.scores["reward"].value == ([won] if judged is None else [won, -won])
        assert [turn.state for turn in played.turns] == [card, "judge"][: len(played.turns)]
        assert played.info["answer"] == (judged or said)
        assert f"You are a {card}." in str(played.turns[0].prompt[-1]["content"])
        cards.add(card)
    assert cards == {"wolf", "villager"}


def test_one_night_is_in_the_library() -> None:
    assert find("one-night?stake=3") == OneNight(3.0)
    with pytest.raises(ValueError, match="stake must be above 1"):
        OneNight(1.0)
