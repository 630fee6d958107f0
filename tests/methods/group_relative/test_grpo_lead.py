"""Standardised lengths of right answers by hand."""

from __future__ import annotations

import math

import pytest
from credit_cases import LAW
from hypothesis import given
from rewards_cases import ANSWERS, shaped_returns

from hocket.methods.group_relative.grpo_lead import StandardisedLength


@LAW
@given(ANSWERS)
def test_standardised_length_by_hand(answers):
    found = shaped_returns(StandardisedLength(alpha=0.3), answers)
    for (group, verdict, length, counts), value in zip(answers, found, strict=True):
        own = [n for g, v, n, c in answers if g == group and v and c]
        if not verdict:
            assert value == -1.0
        elif not counts:
            assert value == 1.0  # It is compared with nobody.
        else:
            middle = sum(own) / len(own)
            spread = math.sqrt(sum((n - middle) ** 2 for n in own) / len(own))
            assert value == pytest.approx(math.exp(-0.3 * (length - middle) / (spread + 1e-6)), rel=1e-9)
