"""Votes counted by hand, and answers that are missing."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.lab.toys.rewarded import said, shaped
from hocket.methods.group_relative.ttrv import TTRV, majority_votes, vote_entropy, vote_shares

LABELS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8)


@given(LABELS)
def test_votes_are_counted(labels):
    shares = vote_shares(labels)
    assert shares == [0.0 if own is None else labels.count(own) / len(labels) for own in labels]
    counts = Counter(own for own in labels if own is not None)
    winners = {own for own in counts if counts[own] == max(counts.values())}
    assert majority_votes(labels) == [float(own in winners) for own in labels]
    entropy = vote_entropy(labels)
    table = torch.tensor(list(Counter(labels).values()), dtype=torch.float64) / len(labels)
    assert entropy == pytest.approx(float(-(table * table.log()).sum()), abs=1e-12)
    assert 0 <= vote_entropy(labels, normalise=True) <= 1 + 1e-12


def test_missing_answers_get_what_is_set_for_them():
    rows = [said("q", "", label=label) for label in ("a", "a", None)]
    recipe = TTRV.but({"shaping.0.missing": -1.0, "shaping.0.entropy": 0.0})
    assert shaped(recipe, rows) == pytest.approx([2 / 3, 2 / 3, -1.0])
