"""Rewards that look at length, in any order of the batch, and tags."""

from __future__ import annotations

import pytest
from credit_cases import LAW
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import ANSWERS, shaped_returns

from hocket.methods.group_relative.conciser import LengthOnceRight
from hocket.methods.group_relative.grpo_lead import StandardisedLength
from hocket.methods.group_relative.lc_r1 import RelativeLength
from hocket.methods.group_relative.open_rs import CosineLength
from hocket.rewards.tags import TagFormat


@LAW
@given(ANSWERS, st.randoms(use_true_random=False))
def test_order_does_not_matter(answers, rng):
    order = list(range(len(answers)))
    rng.shuffle(order)
    mixed = [answers[place] for place in order]
    for shape in (StandardisedLength(), LengthOnceRight(limit=10), RelativeLength(), CosineLength(limit=5)):
        straight, back = shaped_returns(shape, answers), shaped_returns(shape, mixed)
        assert back == pytest.approx([straight[place] for place in order], abs=1e-12)


@pytest.mark.parametrize(
    ("text", "filled", "tagged", "optional", "apart"),
    [
        ("<think>a</think><answer>1</answer>", 1, 1, 1, 1.0),
        ("<think> </think><answer>1</answer>", 0, 1, 1, 1.0),
        ("<answer>1</answer>", 0, 0, 1, 0.5),
        ("<think>a<answer>1</answer>", 0, 0, 0, 0.5),
        ("<think>a</think>1", 0, 0, 0, 0.5),
        ("<answer>1</answer><think>a</think>", 0, 0, 0, 0.5),
        ("<think>a</think><answer>1</answer><answer>2</answer>", 0, 0, 0, 0.5),
        ("", 0, 0, 0, 0.0),
    ],
)
def test_tags(text, filled, tagged, optional, apart):
    kinds = ("filled", "tagged", "optional")
    assert [TagFormat(thought=kind).mark(text) for kind in kinds] == [filled, tagged, optional]
    assert TagFormat(apart=True).mark(text) == apart
