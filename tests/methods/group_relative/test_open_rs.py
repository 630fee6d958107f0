"""The page of lessons is the one that the checks write."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hocket.lab.claims.claim import Finding
from hocket.methods.group_relative.claims.open_rs import LESSONS, page

PAGE = Path(__file__).parents[3] / "docs" / "small-budget-lessons.md"


def test_the_page_is_generated():
    # Everything but the figures, which take minutes to see again.
    silent = [dataclasses.replace(lesson, run=lambda: Finding(True, "")) for lesson in LESSONS]
    written = [line for line in PAGE.read_text().splitlines() if not line.startswith("Seen: ")]
    assert written == [line for line in page(silent).splitlines() if not line.startswith("Seen: ")]
    assert sum(line.startswith("Seen: ") for line in PAGE.read_text().splitlines()) == len(LESSONS)
