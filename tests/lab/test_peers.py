"""Recipes agree with public implementations where the ledger says so, in value and gradient."""

from __future__ import annotations

import pytest

from hocket.lab.peers import LEDGER, distance
from hocket.recipes import find


@pytest.mark.parametrize("entry", LEDGER, ids=lambda entry: entry.name)
def test_the_ledger_is_true(entry):
    for gap in (0.0, 0.3):
        found = distance(entry, entry.settled(), gap=gap)
        if entry.changes is None:
            assert found.word in ("different", "proportional")
        elif entry.gradient_only:
            # Where nothing has moved the values may meet as well.
            assert found.word == "equal gradient" or (gap == 0 and found.word == "equal")
        else:
            assert found.word == "equal", found


@pytest.mark.parametrize("entry", [one for one in LEDGER if one.changes], ids=lambda entry: entry.name)
def test_the_changes_are_needed(entry):
    assert distance(entry, find(entry.recipe), gap=0.3).word != "equal"
