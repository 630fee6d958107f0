"""Calls counted, the fewest remembered, and efficiency alone."""

from __future__ import annotations

import math

import pytest
import torch
from rewards_cases import batch_of_answers

from hocket.core.signals import returns
from hocket.methods.group_relative.otc import ToolEfficiency, efficiency


def test_calls_are_counted_in_the_text_unless_they_are_told():
    shape, answers = ToolEfficiency(), [("a", 1.0, 2, True)] * 2
    for more in ({"text": "<tool_call>x</tool_call><tool_call>"}, {"text": "", "info": {"tool_calls": 2}}):
        _, state = shape(batch_of_answers(answers, **more), shape.init())
        assert state == {"fewest": {"a": 2.0}}


def test_nobody_right_pays_nothing_and_is_not_remembered():
    shape = ToolEfficiency()
    after, state = shape(
        batch_of_answers([("a", 0.0, 1, True), ("a", 1.0, 1, False)], info={"tool_calls": 1}), shape.init()
    )
    assert state == {"fewest": {}}
    assert returns(after)[0] == 0.0


def test_efficiency_alone_has_no_record():
    shape = ToolEfficiency(form="alone", smooth=2.0)
    after, state = shape(batch_of_answers([("a", 1.0, 1, True)], info={"tool_calls": 1}), shape.init())
    assert state == {"fewest": {}}
    assert float(returns(after)[0]) == pytest.approx(math.cos(math.pi / 4))
    assert float(efficiency(torch.zeros(1), torch.zeros(1), 2.0)) == 1.0
