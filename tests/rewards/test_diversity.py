"""What holds for every reward by difference and agreement of texts; vectors and similarities by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.recorded_answers import said, shaped
from hocket.methods.group_relative.dra_grpo import DRA_GRPO
from hocket.methods.group_relative.multirole_r1 import MULTIROLE_R1, RoleDiversity
from hocket.methods.group_relative.ps_grpo import PS_GRPO, GroupSimilarity
from hocket.methods.group_relative.ttrv import TTRV, VoteReward
from hocket.recipe import Recipe
from hocket.rewards.embedding import text_vectors
from hocket.rewards.similarity import SIMILARITIES, bleu, exact, rouge_1, rouge_l

WORDS = st.lists(st.sampled_from(["oak", "pine", "fir", "elm"]), max_size=5).map(" ".join)


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
