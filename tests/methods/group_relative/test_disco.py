"""Discrimination by hand, and colder."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import close, doubles, value_and_gradient

from hocket.core.keys import Key
from hocket.methods.group_relative.disco import discrimination

many = settings(max_examples=60, deadline=None)


@many
@given(st.integers(0, 10**6), st.sampled_from([None, 0.1, 1.0, 10.0]))
def test_discrimination_by_hand(seed, temperature):
    noise = Key.of(seed).numpy()
    score = torch.from_numpy(noise.normal(size=12) * 3)
    right = torch.from_numpy(noise.random(12) < 0.5)
    group = torch.from_numpy(noise.integers(0, 3, 12))
    wrong = ~right & torch.from_numpy(noise.random(12) < 0.8)
    found = value_and_gradient(lambda s: discrimination(s, right, wrong, group, 4, temperature).sum(), score)

    def naive(s):
        total = (s * 0).sum()
        for g in range(3):
            good, bad = s[right & (group == g)], s[wrong & (group == g)]
            if len(good) and len(bad):
                top = bad.mean() if temperature is None else temperature * (bad / temperature).exp().mean().log()
                total = total + top - good.mean()
        return total

    wanted = value_and_gradient(naive, score)
    close(found[0], wanted[0], 1e-8)
    close(found[1], wanted[1], 1e-8)


def test_a_colder_soft_max_looks_at_the_hardest_wrong_answer():
    score, right = doubles(0.0, 1.0, 2.0), torch.tensor([True, False, False])
    group = torch.zeros(3, dtype=torch.long)
    cold = discrimination(score, right, ~right, group, 1, 0.01)
    assert float(cold) == pytest.approx(2.0, abs=0.01)
