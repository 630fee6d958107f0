"""Guess, search and answer found in a text."""

from __future__ import annotations

from hocket.methods.group_relative.sem import parts_of


def test_parts_of_a_search():
    assert parts_of("<answer>1</answer><search>q</search><answer>2</answer>") == ("1", True, "2")
    assert parts_of("<answer>1</answer>") == ("1", False, "1")
    assert parts_of("<search>q</search><answer>2</answer>") == (None, True, "2")
    assert parts_of("") == (None, False, None)
