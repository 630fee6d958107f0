"""Rewards by difference and agreement of texts, against counting by hand and under reordering."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.rewarded import said, shaped
from hocket.methods.group_relative.dra_grpo import DRA_GRPO, RedundancyDiscount, redundancy
from hocket.methods.group_relative.multirole_r1 import MULTIROLE_R1, RoleDiversity, distinct_n, roles_of
from hocket.methods.group_relative.ps_grpo import PS_GRPO, GroupSimilarity
from hocket.methods.group_relative.ttrv import TTRV, VoteReward, majority_votes, vote_entropy, vote_shares
from hocket.recipe import Recipe
from hocket.rewards.embedding import text_vectors
from hocket.rewards.similarity import SIMILARITIES, bleu, exact, rouge_1, rouge_l

WORDS = st.lists(st.sampled_from(["oak", "pine", "fir", "elm"]), max_size=5).map(" ".join)
LABELS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8)
GROUPS = (DRA_GRPO, TTRV, PS_GRPO, MULTIROLE_R1)


@st.composite
def recorded(draw):
    """Answers to one to three questions, some left out of training, some paraphrases of each other."""
    rows = []
    for group in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            row = said(
                f"g{group}",
                draw(WORDS),
                draw(st.sampled_from([0.0, 1.0, -0.5, 2.25])),
                label=draw(st.sampled_from(["a", "b", None])),
                info={"origin": draw(st.sampled_from(["o", None])) if group == 0 else "o"},
            )
            if rows and draw(st.integers(0, 4)) == 0:
                row["trained"] = [False, False]
            rows.append(row)
    rows[0] |= {"label": "a", "text": "oak"}
    return rows


@given(WORDS, WORDS)
def test_texts_have_unit_vectors_with_cosines_from_zero_to_one(one, other):
    vectors = text_vectors([one, other])
    assert torch.allclose(vectors.norm(dim=-1), torch.ones(2, dtype=torch.float64))
    cosine = float(vectors[0] @ vectors[1])
    assert -1e-12 <= cosine <= 1 + 1e-12
    if one.split() == other.split():
        assert cosine == pytest.approx(1)


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_redundancy_is_the_sum_of_cosines(size, seed):
    vectors = torch.from_numpy(Key.of(seed).numpy().normal(size=(size, 3)))
    vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    for row in range(size):
        cosines = [float(sum(vectors[row] * vectors[j])) for j in range(size)]
        assert float(redundancy(vectors, nonnegative=False)[row]) == pytest.approx(sum(cosines))
        assert float(redundancy(vectors)[row]) == pytest.approx(sum(max(0.0, c) for c in cosines))


@pytest.mark.parametrize("recipe", GROUPS, ids=lambda recipe: recipe.name)
@given(recorded(), st.randoms(use_true_random=False))
def test_no_reward_depends_on_the_order_of_the_batch(recipe: Recipe, rows, shuffle):
    rows = [{**row, "id": str(number)} for number, row in enumerate(rows)]
    order = list(range(len(rows)))
    shuffle.shuffle(order)
    found = shaped(recipe, rows)
    again = shaped(recipe, [rows[number] for number in order])
    assert [again[order.index(number)] for number in range(len(rows))] == pytest.approx(found, abs=1e-12)
    assert all(math.isfinite(value) for value in found)


@pytest.mark.parametrize("recipe", GROUPS, ids=lambda recipe: recipe.name)
@given(recorded())
def test_answers_that_are_not_learnt_from_change_nothing_for_the_others(recipe: Recipe, rows):
    kept = [row for row in rows if row.get("trained") is None]
    found = [value for value, row in zip(shaped(recipe, rows), rows, strict=True) if row.get("trained") is None]
    assert found == pytest.approx(shaped(recipe, kept), abs=1e-12)


def test_recorded_embeddings_come_before_texts_and_are_checked():
    same = [said("q", text, 1.0, embedding=[2.0, 0.0]) for text in ("oak", "quartz")]
    assert shaped(DRA_GRPO, same) == pytest.approx([0.5, 0.5], abs=1e-6)
    one_missing = [same[0], said("q", "quartz", 1.0)]
    assert min(shaped(DRA_GRPO, one_missing)) > 0.8
    for wrong in ([1.0], [0.0, 0.0]):
        with pytest.raises(ConfigurationError, match="RedundancyDiscount"):
            shaped(DRA_GRPO, [same[0], said("q", "b", embedding=wrong)])


def test_a_group_of_one_keeps_its_reward_but_for_epsilon():
    assert shaped(DRA_GRPO, [said("q", "", 3.0)]) == pytest.approx([3 / (1 + 1e-6)])


@given(LABELS)
def test_votes_are_counted(labels):
    shares = vote_shares(labels)
    assert shares == [0.0 if own is None else labels.count(own) / len(labels) for own in labels]
    counts = Counter(own for own in labels if own is not None)
    winners = {own for own in counts if counts[own] == max(counts.values())}
    assert majority_votes(labels) == [float(own in winners) for own in labels]
    entropy = vote_entropy(labels)
    table = torch.tensor(list(Counter(labels).values()), dtype=torch.float64) / len(labels)
    assert entropy == pytest.approx(float(-(table * table.log()).sum()), abs=1e-12)
    assert 0 <= vote_entropy(labels, normalise=True) <= 1 + 1e-12


def test_missing_answers_get_what_is_set_for_them():
    rows = [said("q", "", label=label) for label in ("a", "a", None)]
    recipe = TTRV.but({"shaping.0.missing": -1.0, "shaping.0.entropy": 0.0})
    assert shaped(recipe, rows) == pytest.approx([2 / 3, 2 / 3, -1.0])


def test_votes_ignore_the_verdict_and_a_controller_keeps_its_reward():
    right = [said("q", "x", reward, label="ab"[n % 2]) for n, reward in enumerate([1.0, 0.0, 1.0, 0.0])]
    wrong = [{**row, "scores": {"reward": 1 - row["scores"]["reward"]}} for row in right]
    for recipe in (TTRV, PS_GRPO):
        assert shaped(recipe, right) == shaped(recipe, wrong)
        batch = recipe.combine(RecordedBatch({"version": 1, "trajectories": [said("q", "", 7.0)] * 2}).batch, {})
        silent = recipe.shaping[0](batch.but(info={"text": ["", ""], "label": [None, None]}))
        assert silent.scores["reward"].values.tolist() == [7.0, 7.0]


@given(WORDS, WORDS)
def test_similarities_lie_between_zero_and_one_and_find_equals(one, other):
    for measure in SIMILARITIES.values():
        assert 0 <= measure(one, other) <= 1
        assert measure(one, one) == 1
    assert rouge_1(one, other) == rouge_1(other, one)
    assert rouge_l(one, other) <= rouge_1(one, other) + 1e-12
    assert exact(one, other) == float(one == other)


def test_rouge_and_bleu_by_hand():
    assert rouge_l("a b c d", "a c d e") == pytest.approx(2 * 3 / 8)
    assert rouge_1("a a b", "a b b") == pytest.approx(2 * 2 / 6)
    precisions = (5 / 6, 3 / 5, 2 / 4, 1 / 3)
    assert bleu("the cat sat on a mat", "the cat sat on the mat") == pytest.approx(math.prod(precisions) ** 0.25)


def test_paraphrases_share_an_origin_and_others_stand_alone():
    rows = [
        said("p", "oak", info={"origin": "o"}),
        said("q", "oak", info={"origin": "o"}),
        said("q", "elm", info={"origin": "o"}),
        said("alone", "fir"),
        said("alone", "fir"),
        said("alone", "oak"),
    ]
    recipe = PS_GRPO.but({"shaping.0.similarity": "exact"})
    assert shaped(recipe, rows) == pytest.approx([0.5, 1.0, 0.0, 0.5, 0.5, 0.0])
    rewarded = [{**row, "scores": {"reward": 1.0}} for row in rows]
    added = shaped(recipe.but({"shaping.0.accuracy": 0.25}), rewarded)
    assert added == pytest.approx([0.75, 1.25, 0.25, 0.75, 0.75, 0.25])


def test_draws_depend_on_the_step_and_the_seed_alone():
    rows = [said(name, text, info={"origin": "o"}) for name in "pqr" for text in ("oak", "elm", "fir oak", "oak elm")]
    few = GroupSimilarity("rouge-1", others=1, rollouts=1)
    batch = PS_GRPO.combine(RecordedBatch({"version": 1, "trajectories": rows}).batch, {})
    first = few(batch.but(step=1)).scores["reward"].values
    assert torch.equal(first, few(batch.but(step=1)).scores["reward"].values)
    assert not torch.equal(first, few(batch.but(step=2)).scores["reward"].values)


@given(WORDS)
def test_distinct_n_is_a_share_of_ngrams(text):
    words = text.split()
    grams = list(itertools.pairwise(words))
    assert distinct_n(text) == (len(set(grams)) / len(grams) if grams else 0.0)


def test_roles_are_named_by_headings_once_each():
    text = "As a teacher: yes\n**As the Mayor**: no\nRole: teacher: yes\nas a matter of fact it is\nPlan: none"
    assert roles_of(text) == {"teacher", "mayor"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: VoteReward(vote="most"),
        lambda: GroupSimilarity("cosine"),
        lambda: GroupSimilarity(others=0),
        lambda: RoleDiversity(target=0),
        lambda: RoleDiversity(heading="As a teacher"),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r"must|unknown"):
        make()


def test_the_released_sum_is_the_plain_one():
    axes = [[1.0, 0.0], [0.6, 0.8], [-0.6, 0.8]]
    rows = [said("q", str(n), 1.0, embedding=axis) for n, axis in enumerate(axes)]
    found = shaped(DRA_GRPO.but({"shaping.0": RedundancyDiscount(nonnegative=False, epsilon=0.0)}), rows)
    sums = [sum(a * c + b * d for c, d in axes) for a, b in axes]
    assert found == pytest.approx([1 / total for total in sums])
