"""What the last full run of the checks found, kept with the library."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from hocket.checks import checks_of
from hocket.checks.check import Verdict

FILE = Path(__file__).with_name("verdicts.json")

Status = Literal["works", "partial", "open"]


@functools.cache
def recorded() -> Mapping[tuple[str, str], Verdict]:
    """The kept verdicts by row and claim."""
    rows = json.loads(FILE.read_text()) if FILE.is_file() else []
    return {(row["row"], row["claim"]): Verdict(**row) for row in rows}


def verdicts_of(row: str) -> list[Verdict | None]:
    """The kept verdict of each check of a row; None for one that was never kept."""
    return [recorded().get((check.row, check.claim)) for check in checks_of(row)]


def status_of(rows: Iterable[str], note: str) -> Status:
    """`works` when every check of every row held and nothing is noted as weaker; `open` without any check."""
    found = [verdict for row in rows for verdict in verdicts_of(row)]
    if not found:
        return "open"
    held = all(verdict is not None and verdict.holds for verdict in found)
    return "works" if held and not note and all(verdicts_of(row) for row in rows) else "partial"


def keep(verdicts: Iterable[Verdict]) -> None:
    """Writes verdicts into the file: those of checks that no longer exist leave it, others stay as they were."""
    from hocket.checks import all_checks

    known = {(check.row, check.claim) for check in all_checks()}
    merged = {**recorded(), **{(verdict.row, verdict.claim): verdict for verdict in verdicts}}
    rows = [
        {**merged[key].to_json(), "seconds": round(merged[key].seconds, 2)} for key in sorted(merged) if key in known
    ]
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    recorded.cache_clear()
