"""Boxes, points and intervals: laws that hold for any, and edges that must earn nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.rewards.regions import box_of, box_overlap, inside, interval_overlap, matched, merged, point_of

NUMBER = st.integers(-9, 9).map(float)
BOX = st.tuples(NUMBER, NUMBER, NUMBER, NUMBER)
INTERVALS = st.lists(st.tuples(NUMBER, NUMBER), max_size=4)


@settings(max_examples=60, deadline=None)
@given(BOX, BOX, st.integers(-5, 5), st.integers(1, 4))
def test_the_overlap_of_boxes(one: tuple[float, ...], other: tuple[float, ...], shift: int, factor: int) -> None:
    value = box_overlap(one, other)  # type: ignore[arg-type]
    assert 0 <= value <= 1
    assert value == pytest.approx(box_overlap(other, one))  # type: ignore[arg-type]
    moved = [tuple(factor * number + shift for number in box) for box in (one, other)]
    assert value == pytest.approx(box_overlap(*moved))  # type: ignore[arg-type]
    proper = one[0] < one[2] and one[1] < one[3]
    assert box_overlap(one, one) == float(proper)  # type: ignore[arg-type]
    assert (value == 1.0) == (proper and one == other)


@settings(max_examples=60, deadline=None)
@given(INTERVALS, INTERVALS)
def test_the_overlap_of_sets_of_intervals(some: list[tuple[float, float]], others: list[tuple[float, float]]) -> None:
    value = interval_overlap(some, others)
    assert 0 <= value <= 1
    assert value == pytest.approx(interval_overlap(others, some))
    assert value == pytest.approx(interval_overlap(some[::-1], [*others, *others[:1]]))
    parts = merged(some)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(parts))
    assert interval_overlap(some, some) == float(bool(parts))


@settings(max_examples=60, deadline=None)
@given(st.text("0123456789 ,.-[]()ab", max_size=12))
def test_only_whole_lists_of_numbers_are_read(text: str) -> None:
    assert box_of(text) is None or point_of(text) is None
    if not any(letter.isdigit() for letter in text):
        assert box_of(text) is point_of(text) is None


def test_what_is_read() -> None:
    assert box_of("[1, 2, 3, 4]") == (1, 2, 3, 4)
    assert point_of("(1.5, 2)") == (1.5, 2)
    assert box_of(None) is box_of("") is box_of("1 2 3") is box_of("1 2 3 4 5") is None
    assert point_of("1 2 3") is point_of("") is None
    assert [inside(point, (1, 1, 2, 2)) for point in ((1, 1), (1.9, 1.9), (2, 1), (0.9, 1))] == [
        True,
        True,
        False,
        False,
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=4), st.lists(st.integers(0, 5), max_size=4))
def test_the_best_matching(ours: list[int], theirs: list[int]) -> None:
    def score(one: int, other: int) -> float:
        return 1.0 / (1 + abs(one - other))

    fewer, more = sorted((ours, theirs), key=len)
    best = max((sum(map(score, fewer, chosen)) for chosen in itertools.permutations(more, len(fewer))), default=0.0)
    assert matched(ours, theirs, score) == pytest.approx(best)
    assert matched(ours[::-1], theirs, score) == pytest.approx(best)
