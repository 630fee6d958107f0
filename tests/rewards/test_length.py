"""Rewards that look at length, tags, calls and exits: formulas by hand, groups, masks and bad settings."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.conciser import LengthOnceRight
from hocket.methods.group_relative.gcpo_geometryzero import LongerIsBetter
from hocket.methods.group_relative.grpo_lead import StandardisedLength
from hocket.methods.group_relative.lc_r1 import RelativeLength
from hocket.methods.group_relative.open_rs import CosineLength
from hocket.methods.group_relative.otc import ToolEfficiency, efficiency
from hocket.methods.group_relative.s_grpo import DecayingExits
from hocket.methods.group_relative.sem import parts_of
from hocket.methods.group_relative.train_long_think_short import BudgetLength
from hocket.rewards.tags import TagFormat

LAW = settings(max_examples=60, deadline=None, derandomize=True)

ANSWERS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 1.0]), st.integers(1, 9), st.booleans()),
    min_size=1,
    max_size=8,
)
"""Group, verdict, length, and whether the answer counts."""


def rows(answers):
    return [
        {
            "group": group,
            "scores": {"reward": verdict},
            "logp": [-1.0] * length,
            "trained": [counts] * length,
            "text": "",
        }
        for group, verdict, length, counts in answers
    ]


def batch(answers, **more):
    return RecordedBatch({"version": 1, "trajectories": [{**row, **more} for row in rows(answers)]}).batch


def shaped(shape, answers, **more):
    return returns(shape(batch(answers, **more))).tolist()


@LAW
@given(ANSWERS)
def test_standardised_length_by_hand(answers):
    found = shaped(StandardisedLength(alpha=0.3), answers)
    for (group, verdict, length, counts), value in zip(answers, found, strict=True):
        own = [n for g, v, n, c in answers if g == group and v and c]
        if not verdict:
            assert value == -1.0
        elif not counts:
            assert value == 1.0  # It is compared with nobody.
        else:
            middle = sum(own) / len(own)
            spread = math.sqrt(sum((n - middle) ** 2 for n in own) / len(own))
            assert value == pytest.approx(math.exp(-0.3 * (length - middle) / (spread + 1e-6)), rel=1e-9)


@LAW
@given(ANSWERS)
def test_length_counts_only_where_all_are_right(answers):
    found = shaped(LengthOnceRight(limit=10), answers)
    for (group, verdict, length, _), value in zip(answers, found, strict=True):
        failed = any(g == group and c and not v for g, v, _, c in answers)
        assert value == pytest.approx(verdict if failed else verdict + 1 - length / 10)


@LAW
@given(ANSWERS)
def test_relative_length_by_hand(answers):
    found = shaped(RelativeLength(weight=2.0), answers)
    for (group, verdict, length, _), value in zip(answers, found, strict=True):
        own = [n for g, v, n, c in answers if g == group and v and c]
        assert value == pytest.approx(verdict + (2 * (1 - length / max(own)) if own else 0.0))


@LAW
@given(ANSWERS, st.randoms(use_true_random=False))
def test_order_does_not_matter(answers, rng):
    order = list(range(len(answers)))
    rng.shuffle(order)
    mixed = [answers[place] for place in order]
    for shape in (StandardisedLength(), LengthOnceRight(limit=10), RelativeLength(), CosineLength(limit=5)):
        straight, back = shaped(shape, answers), shaped(shape, mixed)
        assert back == pytest.approx([straight[place] for place in order], abs=1e-12)


def test_cosine_needs_sense():
    for values in ({"right_short": 0.1}, {"wrong_short": 0.0, "wrong_long": -0.5}, {"wrong_long": 0.7}, {"limit": 0}):
        with pytest.raises(ValueError, match=next(iter(values)).split("_")[0]):
            CosineLength(**{"limit": 5, **values})


def test_budget_is_read_from_the_scenario():
    answers = [("a", 1.0, 2, True), ("a", 0.0, 4, True), ("a", 1.0, 8, True)]
    told = {"info": {"metadata": {"budget": 4}}}
    assert shaped(BudgetLength(weight=0.5, correct=2.0), answers, **told) == [2.25, 0.5, 2.0]
    assert shaped(BudgetLength(shape="flat"), answers, **told) == [2.0, 1.0, 1.0]
    with pytest.raises(ConfigurationError, match="ShrinkingBudget"):
        shaped(BudgetLength(), answers, info={"metadata": {}})


def test_longer_is_better_up_to_the_limit():
    answers = [("a", 1.0, 2, True), ("a", 0.0, 4, True), ("a", 0.0, 9, True)]
    assert shaped(LongerIsBetter(limit=4, weight=0.1), answers) == pytest.approx([1.05, 0.1, 0.1])


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


def test_calls_are_counted_in_the_text_unless_they_are_told():
    shape, answers = ToolEfficiency(), [("a", 1.0, 2, True)] * 2
    for more in ({"text": "<tool_call>x</tool_call><tool_call>"}, {"text": "", "info": {"tool_calls": 2}}):
        _, state = shape(batch(answers, **more), shape.init())
        assert state == {"fewest": {"a": 2.0}}


def test_nobody_right_pays_nothing_and_is_not_remembered():
    shape = ToolEfficiency()
    after, state = shape(batch([("a", 0.0, 1, True), ("a", 1.0, 1, False)], info={"tool_calls": 1}), shape.init())
    assert state == {"fewest": {}}
    assert returns(after)[0] == 0.0


def test_efficiency_alone_has_no_record():
    shape = ToolEfficiency(form="alone", smooth=2.0)
    after, state = shape(batch([("a", 1.0, 1, True)], info={"tool_calls": 1}), shape.init())
    assert state == {"fewest": {}}
    assert float(returns(after)[0]) == pytest.approx(math.cos(math.pi / 4))
    assert float(efficiency(torch.zeros(1), torch.zeros(1), 2.0)) == 1.0


def test_parts_of_a_search():
    assert parts_of("<answer>1</answer><search>q</search><answer>2</answer>") == ("1", True, "2")
    assert parts_of("<answer>1</answer>") == ("1", False, "1")
    assert parts_of("<search>q</search><answer>2</answer>") == (None, True, "2")
    assert parts_of("") == (None, False, None)


@LAW
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_exits_decay_in_their_order(pattern, rng):
    told = list(enumerate(pattern))
    rng.shuffle(told)
    recorded = [{**rows([("a", v, 1, True)])[0], "info": {"exit": place, "chain": 0}} for place, v in told]
    found = returns(DecayingExits()(RecordedBatch({"version": 1, "trajectories": recorded}).batch)).tolist()
    wanted, seen = [], 0
    for verdict in pattern:
        seen += int(verdict)
        wanted.append(verdict * 2.0 ** -(seen - 1) if verdict else 0.0)
    assert found == [wanted[place] for place, _ in told]


def test_chains_decay_apart():
    recorded = [
        {**rows([("a", 1.0, 1, True)])[0], "info": {"exit": exit, "chain": chain}}
        for chain, exit in ((0, 0), (1, 0), (0, 1), (1, 1))
    ]
    found = returns(DecayingExits()(RecordedBatch({"version": 1, "trajectories": recorded}).batch)).tolist()
    assert found == [1.0, 1.0, 0.5, 0.5]
