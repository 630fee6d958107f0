"""Votes counted by hand, and answers that are missing."""

from __future__ import annotations

import pytest

from hocket.lab.toys.recorded_answers import said, shaped
from hocket.methods.group_relative.ttrv import TTRV


def test_missing_answers_get_what_is_set_for_them():
    rows = [said("q", "", label=label) for label in ("a", "a", None)]
    recipe = TTRV.but({"shaping.0.missing": -1.0, "shaping.0.entropy": 0.0})
    assert shaped(recipe, rows) == pytest.approx([2 / 3, 2 / 3, -1.0])
