"""From talk to intents, from intents to a game, and back to pairs of utterances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.workflows.library import find
from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.teams.lspo_werewolf.method import (
    AbstractGame,
    Course,
    IntentPairs,
    Move,
    OneNight,
    Situation,
    adjusted_rand,
    earned,
    embedded,
    k_means,
)
from hocket.rewards.combine import WeightedSum
from hocket.testing import rehearse
from hocket.types import Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=50, deadline=None, derandomize=True)
LABELS = st.lists(st.integers(0, 3), min_size=2, max_size=12)

# ---------------------------------------------------------------- clusters


def test_texts_are_points_on_the_sphere() -> None:
    points = embedded(["One night", "one  NIGHT!", "two", ""])
    assert points.norm(dim=1).tolist() == pytest.approx([1, 1, 1, 0])
    assert torch.equal(points[0], points[1])
    assert float(points[0] @ points[2]) == 0


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
        assert played.turns[0].state == card
        cards.add(card)
    assert cards == {"wolf", "villager"}


def test_one_night_is_in_the_library() -> None:
    assert find("one-night?stake=3") == OneNight(3.0)
    with pytest.raises(ValueError, match="stake must be above 1"):
        OneNight(1.0)


def test_situations_know_what_was_meant_not_how_it_was_said() -> None:
    one = Situation("judge", "night", "", (("speaker", 1),))
    assert one == Situation("judge", "night", "", (("speaker", 1),))
    assert one != Situation("judge", "night", "", (("speaker", 0),))
