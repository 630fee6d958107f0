"""Entities matched in texts, and what they earn by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.lab.toys.rewarded import said, shaped
from hocket.methods.group_relative.e_grpo import E_GRPO, matched_share


def test_entities_match_whole_words_only():
    assert matched_share("Ada  LOVELACE, London", ["Ada Lovelace", "London"]) == 1
    assert matched_share("Londoners", ["London"]) == 0
    assert matched_share("anything", []) == 0
    assert matched_share("a (b) c+", ["(b)", "c+"]) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_entity_rewards_by_hand(samples):
    names = ["oak", "pine", "fir"]
    rows = [
        said("q", " ".join(names[:found]), float(right), label="x" if formed else None, info={"entities": names})
        for found, right, formed in samples
    ]
    highest = max(found for found, _, _ in samples)
    wanted = [
        1.0 if right else 0.3 * found / highest if formed and highest else 0.0 for found, right, formed in samples
    ]
    other = said("other", "", label="x")
    assert shaped(E_GRPO, [*rows, other])[:-1] == pytest.approx(wanted, abs=1e-12)
