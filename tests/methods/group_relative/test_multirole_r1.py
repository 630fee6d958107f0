"""Distinct n-grams, and the roles that a text names."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hocket.methods.group_relative.multirole_r1 import distinct_n, roles_of

WORDS = st.lists(st.sampled_from(["oak", "pine", "fir", "elm"]), max_size=5).map(" ".join)


@given(WORDS)
def test_distinct_n_is_a_share_of_ngrams(text):
    words = text.split()
    grams = list(itertools.pairwise(words))
    assert distinct_n(text) == (len(set(grams)) / len(grams) if grams else 0.0)


def test_roles_are_named_by_headings_once_each():
    text = "As a teacher: yes\n**As the Mayor**: no\nRole: teacher: yes\nas a matter of fact it is\nPlan: none"
    assert roles_of(text) == {"teacher", "mayor"}
