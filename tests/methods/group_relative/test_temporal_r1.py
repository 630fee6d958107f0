"""Intervals in words, their overlap in counted cells, and scenarios that were chosen."""

from __future__ import annotations

from hocket.methods.group_relative.temporal_r1 import interval_iou, interval_of


def test_intervals_in_words():
    assert interval_of("from 2.5 s to 7 s") == (2.5, 7.0)
    assert interval_of("2-7") == (2.0, 7.0)
    assert interval_of("at 7") is None
    assert interval_iou((7.0, 2.0), (2.0, 7.0)) == 0.0
    assert interval_iou((7.0, 2.0), (7.0, 2.0)) == 0.0
