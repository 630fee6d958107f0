"""A baseline that is remembered."""

from __future__ import annotations

from credit_cases import batch_of, by_trajectory, make

from hocket.methods.group_relative.pvpo import RememberedBaseline


def test_a_baseline_is_remembered_until_measured_again():
    credit = RememberedBaseline()
    first = batch_of([make("s", 1.0), make("s", 0.25, source="baseline"), make("s", 0.75, source="baseline")])
    seen, state = credit(first, credit.init())
    assert by_trajectory(first, seen.advantage) == [[0.5, 0.5], [0.0, 0.0], [0.0, 0.0]]
    later = batch_of([make("s", 0.0), make("new", 1.0)])
    seen, state = credit(later, state)
    assert by_trajectory(later, seen.advantage) == [[-0.5, -0.5], [0.0, 0.0]]
    assert by_trajectory(later, seen.weight) == [[1.0, 1.0], [0.0, 0.0]]
    again = batch_of([make("s", 0.0), make("s", 0.125, source="baseline")])
    assert credit(again, state)[1] == {"values": {"s": 0.125}}
    assert state == {"values": {"s": 0.5}}
