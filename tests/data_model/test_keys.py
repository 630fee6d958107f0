"""Keys and counter-based uniforms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key, uniforms

LAW = settings(max_examples=60, deadline=None, derandomize=True)
WORDS = 1 << 64


def test_keys_name_places():
    root = Key.of(7)
    assert root.derive("a", 1) == root.derive("a").derive(1)
    assert root == Key.of(7) != Key.of(8)
    distinct = {root.derive(*path) for path in [(1,), ("1",), (11,), (1, 1), ("a", "b"), ("ab",), ("b", "a"), ()]}
    assert len(distinct) == 8


def test_generators_start_at_the_key_and_leave_the_global_ones_alone():
    key = Key.of(3)
    before = torch.get_rng_state()
    assert key.numpy().random(3).tolist() == key.numpy().random(3).tolist()
    assert torch.equal(torch.rand(3, generator=key.torch()), torch.rand(3, generator=key.torch()))
    assert key.numpy().random() != key.derive("x").numpy().random()
    assert torch.equal(torch.get_rng_state(), before)


@LAW
@given(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=8), st.integers(0, WORDS - 1))
def test_a_draw_depends_on_its_own_word_and_counter_only(words, counter):
    array = np.array(words, np.uint64)
    together = uniforms(array, counter)
    assert together.tolist() == [uniforms(np.array([w], np.uint64), counter).item() for w in words]
    each = uniforms(array, np.full(len(words), counter, np.uint64))
    assert each.tolist() == together.tolist()
    assert ((together > 0) & (together < 1)).all()


def word_that_mixes_to(state):
    """Runs the mixing of `uniforms` backwards: the word whose draw 0 comes from these 64 bits."""

    def unshift(value, by):
        found = value
        for _ in range(64 // by + 1):
            found = value ^ (found >> by)
        return found

    for _ in range(2):
        state = unshift(state, 31) * pow(0x94D049BB133111EB, -1, WORDS) % WORDS
        state = unshift(state, 27) * pow(0xBF58476D1CE4E5B9, -1, WORDS) % WORDS
        state = unshift(state, 30)
    return (state - 0x9E3779B97F4A7C15) % WORDS


@pytest.mark.parametrize("bits", [0, 1, WORDS - 1, WORDS - (1 << 11), 1 << 63])
def test_uniforms_stay_strictly_between_zero_and_one(bits):
    draw = uniforms(np.array([word_that_mixes_to(bits)], np.uint64), 0).item()
    assert 0.0 < draw < 1.0
    assert draw == pytest.approx(bits / WORDS, abs=1e-15)


def test_uniforms_are_equidistributed_and_uncorrelated():
    """Mean, variance, a chi-square over 64 cells, and lag and stream correlations; bounds are five sigma and wider."""
    size = 200_000
    along = uniforms(np.full(size, Key.of(1).word, np.uint64), np.arange(size, dtype=np.uint64))
    across = uniforms(np.array([Key.of(1).derive(i).word for i in range(2000)], np.uint64), 5)
    for draws in (along, across):
        n = len(draws)
        assert abs(draws.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5
        assert abs(draws.var() - 1 / 12) < 5 * (1 / 180 / n) ** 0.5
        cells = np.bincount((draws * 64).astype(int), minlength=64)
        assert ((cells - n / 64) ** 2 / (n / 64)).sum() < 63 + 5 * (2 * 63) ** 0.5
        assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 5 / n**0.5
