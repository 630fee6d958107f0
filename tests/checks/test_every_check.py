"""Every quick check of the catalogue holds."""

from __future__ import annotations

import pytest

from hocket.lab.claims.registry import all_checks

CHECKS = all_checks()


@pytest.mark.parametrize("check", [one for one in CHECKS if not one.slow], ids=lambda one: f"{one.row}: {one.claim}")
def test_it_holds(check):
    verdict = check()
    assert verdict.holds, verdict.saw


@pytest.mark.slow
@pytest.mark.parametrize("check", [one for one in CHECKS if one.slow], ids=lambda one: f"{one.row}: {one.claim}")
def test_it_holds_after_training(check):
    verdict = check()
    assert verdict.holds, verdict.saw


def test_no_claim_is_made_twice():
    claims = [(check.row, check.claim) for check in CHECKS]
    assert len(claims) == len(set(claims))
