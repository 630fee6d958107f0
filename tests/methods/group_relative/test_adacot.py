"""Thinking that is seen and charged, and the decision that is masked."""

from __future__ import annotations

import pytest
import torch
from credit_cases import batch_of, make, make_turn

from hocket.core.errors import ConfigurationError
from hocket.core.markup import has_thought
from hocket.methods.group_relative.adacot import MaskDecision, well_formed


@pytest.mark.parametrize(
    ("text", "thought", "formed"),
    [
        ("<think>a</think>b", True, True),
        ("<think></think>b", False, True),
        ("b", False, True),
        ("<think>a", False, False),
        ("a</think>", True, False),
        ("<think><think>a</think>", True, False),
        ("<think>a</think><think>b</think>", True, True),
    ],
)
def test_thinking_is_seen(text, thought, formed):
    assert (has_thought(text), well_formed(text)) == (thought, formed)


@pytest.mark.parametrize(
    ("tag", "pieces", "masked"),
    [
        ("<think>", ["<think>", "a", "b"], [0, 1]),
        ("<think>", ["<thi", "nk>a", "b"], [0, 2]),
        ("<think>", ["a", "b", "c"], [0]),
        ("<think>", ["a", "b", "<think>"], [0]),
        ("", ["a", "b", "c"], [0]),
    ],
)
def test_the_decision_is_masked(tag, pieces, masked):
    trajectory = make("a", 1.0, length=3)
    trajectory.info["pieces"] = pieces
    weight = MaskDecision(tag)(batch_of([trajectory])).occurrences.weight
    assert torch.nonzero(weight == 0).flatten().tolist() == masked


def test_the_decision_of_every_turn_is_masked():
    first = make_turn(2)
    trajectory = make("a", 1.0, turns=[first, make_turn(2, parent=first)])
    trajectory.info["pieces"] = ["a", "b", "c", "d"]
    weight = MaskDecision()(batch_of([trajectory])).occurrences.weight
    assert weight.tolist() == [0, 1, 0, 1]


def test_a_wrong_number_of_pieces_is_refused():
    trajectory = make("a", 1.0, length=3)
    trajectory.info["pieces"] = ["a"]
    with pytest.raises(ConfigurationError, match="3 decisions but 1 texts"):
        MaskDecision()(batch_of([trajectory]))
