"""The share of samples with a signal."""

from __future__ import annotations

import math

import pytest
from credit_cases import LAW, credit_of
from hypothesis import given
from hypothesis import strategies as st

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.gpg import SignalShare

BINARY = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8)


@LAW
@given(st.lists(BINARY, min_size=1, max_size=6), st.sampled_from([math.inf, 1.5]))
def test_the_share_with_signal(groups, most):
    plain = credit_of(GroupRelative(scale=None), *groups)
    found = credit_of(GroupRelative(scale=None, weigh=(SignalShare(most),)), *groups)
    whole, valid = sum(map(len, groups)), sum(len(group) for group in groups if len(set(group)) > 1)
    factor = min(whole / valid, most) if valid else 1.0
    assert found == pytest.approx([a * factor for a in plain])
