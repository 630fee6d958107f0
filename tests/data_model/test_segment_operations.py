"""Segment reductions equal naive loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.segments import segment_count, segment_extreme, segment_mean, segment_std, segment_sum, suffix_sum

LAW = settings(max_examples=150, deadline=None, derandomize=True)


@st.composite
def segmented(draw, *, contiguous=False):
    """Values with a segment each, and the number of segments, some of which may be empty."""
    size = draw(st.integers(1, 5))
    index = draw(st.lists(st.integers(0, size - 1), max_size=12))
    index = sorted(index) if contiguous else index
    values = draw(st.lists(st.floats(-10, 10), min_size=len(index), max_size=len(index)))
    return values, index, size


def members(values, index, size):
    return [[v for v, i in zip(values, index, strict=True) if i == segment] for segment in range(size)]


def tensors(values, index):
    return torch.tensor(values, dtype=torch.float64), torch.tensor(index, dtype=torch.long)


@LAW
@given(segmented())
def test_sum_count_mean_and_extremes(case):
    values, index, size = case
    x, at = tensors(values, index)
    parts = members(values, index, size)
    assert segment_sum(x, at, size).tolist() == pytest.approx([math.fsum(p) for p in parts])
    assert segment_count(at, size).tolist() == [len(p) for p in parts]
    assert segment_mean(x, at, size).tolist() == pytest.approx([math.fsum(p) / len(p) if p else 0.0 for p in parts])
    assert segment_extreme(x, at, size, largest=True).tolist() == [max(p, default=0.0) for p in parts]
    assert segment_extreme(x, at, size, largest=False).tolist() == [min(p, default=0.0) for p in parts]


@LAW
@given(segmented(), st.sampled_from([0, 1]))
def test_standard_deviation(case, ddof):
    values, index, size = case
    expected = []
    for part in members(values, index, size):
        centre = math.fsum(part) / len(part) if part else 0.0
        squares = math.fsum((v - centre) ** 2 for v in part)
        expected.append(math.sqrt(squares / (len(part) - ddof)) if len(part) > ddof else 0.0)
    assert segment_std(*tensors(values, index), size, ddof=ddof).tolist() == pytest.approx(expected, abs=1e-12)


@LAW
@given(segmented(contiguous=True), st.sampled_from([1.0, 0.9, 0.0]))
def test_suffix_sum(case, discount):
    values, index, size = case
    expected = []
    for part in members(values, index, size):
        expected += [math.fsum(discount ** (k - t) * part[k] for k in range(t, len(part))) for t in range(len(part))]
    assert suffix_sum(*tensors(values, index), size, discount=discount).tolist() == pytest.approx(expected, abs=1e-12)


@LAW
@given(segmented())
def test_gradients_of_sums_and_means(case):
    values, index, size = case
    x, at = tensors(values, index)
    x.requires_grad_()
    slope = torch.arange(1.0, size + 1, dtype=torch.float64)
    (segment_sum(x, at, size) * slope).sum().backward()
    assert x.grad.tolist() == [index_ + 1 for index_ in index]
    x.grad = None
    (segment_mean(x, at, size) * slope).sum().backward()
    assert x.grad.tolist() == pytest.approx([(i + 1) / index.count(i) for i in index])
