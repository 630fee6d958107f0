"""Calls counted, the fewest remembered, and efficiency alone."""

from __future__ import annotations

from rewards_cases import batch_of_answers

from hocket.core.signals import returns
from hocket.methods.group_relative.otc import ToolEfficiency


def test_nobody_right_pays_nothing_and_is_not_remembered():
    shape = ToolEfficiency()
    after, state = shape(
        batch_of_answers([("a", 0.0, 1, True), ("a", 1.0, 1, False)], info={"tool_calls": 1}), shape.init()
    )
    assert state == {"fewest": {}}
    assert returns(after)[0] == 0.0
