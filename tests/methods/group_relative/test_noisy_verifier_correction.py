"""The page on noisy verifiers says what the checks find."""

from __future__ import annotations

from pathlib import Path

import pytest

from hocket.methods.group_relative.claims.noisy_verifier_correction import PAGE, claim

TEXT = (Path(__file__).parents[3] / "docs" / "noisy-verifiers.md").read_text()


def test_its_words_are_those_of_the_module():
    assert TEXT.startswith(PAGE.split("{figures}")[0])


@pytest.mark.parametrize("check", [one for one in claim if not one.slow], ids=lambda one: one.run.__name__)
def test_its_exact_claims_and_figures_are_the_checks_own(check):
    line = next(line for line in TEXT.splitlines() if check.claim[1:] in line)
    kinds = [part for part in check().saw.replace(":", " ").split() if "e-" not in part]
    assert all(part in line for part in kinds)


def test_every_check_has_its_line():
    assert all(sum(check.claim[1:] in line for line in TEXT.splitlines()) == 1 for check in claim)
