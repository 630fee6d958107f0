"""Calls matched in an order or none, and an entropy lift that keeps signs."""

from __future__ import annotations

from rewards_cases import answered, graded

from hocket.methods.group_relative.fc_entropy_grpo import CallMatch


def test_calls_need_not_be_ordered_where_told():
    swapped = answered("g()\nf(x=1)", "f(x=1)\ng()")
    assert graded(CallMatch(), swapped) == [0.0]
    assert graded(CallMatch(ordered=False), swapped, answered("f(x='1')\ng()", "f(x=1)\ng()")) == [1.0, 0.0]
    assert CallMatch().verify("f(" * 5000, "f()") == 0.0
    assert CallMatch().verify("f(x={'a': [1, 2.0]})", "f(x={'a':[1,2.0]})") == 1.0
    assert CallMatch().verify("f(x={'a': [1, 2]})", "f(x={'a':[1,2.0]})") == 0.0
