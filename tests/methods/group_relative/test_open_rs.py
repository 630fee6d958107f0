"""The page of lessons is the one that the checks write; a cosine's settings make sense."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hocket.lab.claims.claim import Finding
from hocket.methods.group_relative.claims.open_rs import LESSONS, page
from hocket.methods.group_relative.open_rs import CosineLength

PAGE = Path(__file__).parents[3] / "docs" / "small-budget-lessons.md"


def test_the_page_is_generated():
    # Everything but the figures, which take minutes to see again.
    silent = [dataclasses.replace(lesson, run=lambda: Finding(True, "")) for lesson in LESSONS]
    written = [line for line in PAGE.read_text().splitlines() if not line.startswith("Seen: ")]
    assert written == [line for line in page(silent).splitlines() if not line.startswith("Seen: ")]
    assert sum(line.startswith("Seen: ") for line in PAGE.read_text().splitlines()) == len(LESSONS)


def test_cosine_needs_sense():
    for values in ({"right_short": 0.1}, {"wrong_short": 0.55, "wrong_long": 0.6}, {"wrong_long": 0.7}, {"limit": 0}):
        with pytest.raises(ValueError, match=next(iter(values)).split("_")[0]):
            CosineLength(**{"limit": 5, **values})
