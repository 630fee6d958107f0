"""Constraints, and the share of a checklist that is met."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.ace_rl import (
    EndsWith,
    HasSection,
    InOrder,
    Mentions,
    WordRange,
    decompose,
    instruction,
)


@pytest.mark.parametrize(
    ("constraint", "met", "missed"),
    [
        (WordRange(2, 3), "two words", "one"),
        (Mentions("sea"), "The Sea.", "the seaside"),
        (InOrder("first", "then"), "First this, then that", "then first"),
        (EndsWith("end"), "this is the End.", "end of it"),
        (HasSection("Summary"), "intro\n  summary: all well", "a summary: no"),
    ],
)
def test_constraints(constraint, met, missed):
    assert constraint(met)
    assert not constraint(missed)
    assert not constraint("")
    assert decompose(instruction([constraint])) == (constraint,)


def test_a_demand_nobody_knows_is_refused():
    with pytest.raises(ConfigurationError, match="be nice"):
        decompose("Write a text: be nice.")
