"""Every quick check of the catalogue holds; what took longer is not repeated while its code is the same."""

from __future__ import annotations

import pytest

from hocket.lab.claims.record import fresh, verdicts_of
from hocket.lab.claims.registry import all_checks

CHECKS = all_checks()
LONG = {(row, one.claim) for row in {one.row for one in CHECKS} for one in verdicts_of(row) if one.seconds > 0.3}
LATER = [*(one for one in CHECKS if one.slow), *fresh(one for one in CHECKS if (one.row, one.claim) in LONG)]
AWAY = {(one.row, one.claim) for one in LATER}
NOW = [one for one in CHECKS if (one.row, one.claim) not in AWAY]


@pytest.mark.parametrize("check", NOW, ids=lambda one: f"{one.row}: {one.claim}")
def test_it_holds(check):
    verdict = check()
    assert verdict.holds, verdict.saw


@pytest.mark.slow
@pytest.mark.parametrize("check", LATER, ids=lambda one: f"{one.row}: {one.claim}")
def test_it_holds_after_training(check):
    verdict = check()
    assert verdict.holds, verdict.saw


def test_no_claim_is_made_twice():
    claims = [(check.row, check.claim) for check in CHECKS]
    assert len(claims) == len(set(claims))
