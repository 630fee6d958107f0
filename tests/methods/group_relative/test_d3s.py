"""Subsets of largest variance, and down-sampling over a run."""

from __future__ import annotations

import itertools

import pytest
import torch
from credit_cases import LAW, annotated, make
from hypothesis import given
from hypothesis import strategies as st

from hocket.methods.group_relative.d3s import DownSampled, largest_variance


@LAW
@given(st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.1, 2.0]), min_size=1, max_size=9), st.data())
def test_the_split_scan_finds_the_largest_variance(values, data):
    number = data.draw(st.integers(1, len(values)))
    tensor = torch.tensor(values, dtype=torch.float64)
    chosen = largest_variance(tensor, number)
    assert len(set(chosen.tolist())) == number
    best = max(float(tensor[list(one)].var(correction=0)) for one in itertools.combinations(range(len(values)), number))
    assert float(tensor[chosen].var(correction=0)) == pytest.approx(best, abs=1e-12)


def test_down_sampling_relaxes_over_the_run():
    batch = annotated([make("a", float(n % 3), length=3) for n in range(8)])
    kept = [int((DownSampled()(batch.but(progress=p)).weight != 0).sum()) for p in (0.0, 0.4, 0.75, 1.0)]
    assert kept[0] == 6
    assert kept[0] < kept[1] < kept[2] == kept[3] == 24
