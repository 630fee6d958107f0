"""How far a catalogue row has come, by what was seen: its claims, and what its recipes learnt in the atlas."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import yaml

from hocket.lab.claims.atlas import COMMON, Standing, runs_of, standings
from hocket.lab.claims.digests import METHODS
from hocket.lab.claims.learns_check import in_words
from hocket.lab.claims.record import status_of, verdicts_of

Grade = Literal["works", "works (exact)", "works (stand-in)", "works (formula)", "partial", "stale", "open"]

GRADES: Mapping[Grade, str] = {
    "works": "it learns on the task that it is for, or where it names none on those of its kind: nothing diverges, "
    "success on unseen scenarios rises by more than its interval, and it is not worse than its parent at equal samples "
    "by more than a margin; or a claim of its own says so of what its paper is for",
    "works (exact)": "nothing has to be learnt: theory that is shown by enumeration of small worlds, or a system or "
    "benchmark whose claims are computed",
    "works (stand-in)": "it learns, on a world or modality that stands in for the paper's",
    "works (formula)": "its formulas hold and its part acts in the recipe as shipped, but that it learns is not "
    "recorded yet, or was not seen",
    "partial": "a defining part, or the paper's effect, was not seen",
    "stale": "its code has changed since its claims were last run",
    "open": "nothing is there yet",
}
"""Every grade and what it means."""

UNRECORDED = "that it learns is not recorded yet"


@dataclass(frozen=True)
class RowGrade:
    """A grade and why it is no better; for one that works what was seen."""

    grade: Grade
    why: str = ""


def graded(
    rows: Sequence[str], recipes: Collection[str], note: str, *, exact: bool = False, ships: bool = True
) -> RowGrade:
    """The grade of catalogue rows that are one method.

    Args:
        recipes: its recipes. note: what these note as weaker. exact: whether nothing has to be learnt.
        ships: as of `status_of`.
    """
    substitutes = [_entries("stand-ins")[row] for row in rows if row in _entries("stand-ins")]
    state = status_of(rows, "" if substitutes else note, ships=ships)
    if state != "works":
        return RowGrade(state, note)
    lacking = [_entries("not-seen")[row] for row in rows if row in _entries("not-seen")]
    if lacking:
        return RowGrade("partial", "; ".join(lacking))
    if exact:
        return RowGrade("works (exact)")
    learnt, figures, diverged = evidence(rows, recipes)
    if not learnt and diverged:
        return RowGrade("partial", f"it diverges: {figures}")
    if not learnt:
        return RowGrade(
            "works (formula)", "; ".join([f"not learnt on {figures}" if figures else UNRECORDED, *substitutes])
        )
    if substitutes:
        return RowGrade("works (stand-in)", "; ".join(substitutes))
    return RowGrade("works", figures)


def evidence(rows: Iterable[str], recipes: Collection[str]) -> tuple[bool, str, bool]:
    """Whether a row's claims, or its recipes' runs in the atlas, show that it learns; what was seen; if it diverged.

    Runs on tasks of its own count where there are any, else those on the tasks that its kind has in common. Where it
    ran only to be compared with, nothing counts, nor does a run beside which its parent has not been run as it is now,
    nor one of a variant that came out like another recipe of the row.
    """
    claim = next((verdict for row in rows for verdict in verdicts_of(row) if verdict.learns and verdict.holds), None)
    if claim is not None:
        return True, claim.saw, False
    every = [place for name in recipes for place in standings(name).items()]
    common = {task for task, _ in COMMON.values()}
    every = [place for place in every if not place[1].runs[0].rival and not _repeats(place[1], recipes)]
    known = [place for place in every if place[1].runs[0].declared] or [place for place in every if place[0] in common]
    if not known:
        return False, "", False
    lacking = (place for place in known if not place[1].learns or not place[1].differs or _absent(*place))
    task, result = next(lacking, known[0])
    if absent := _absent(task, result):
        return False, f"{task}, where {absent} has not been run beside it", False
    if not result.differs:
        return False, f"{task}, where its runs equal its parent's to the last digit", False
    return result.learns, f"{task}: {in_words(result)}", any(not other.sound for _, other in known)


def _repeats(result: Standing, recipes: Collection[str]) -> bool:
    """Whether runs are those of another of the `recipes`, to the last digit."""
    return not result.differs and result.runs[0].beside in recipes


def _absent(task: str, result: Standing) -> str:
    """The recipe that runs name as the one beside them, if it has not been run; nothing where it cannot be."""
    beside = next((run.beside for run in result.runs if run.beside), "")
    failed = any(run.task == task and run.failure for run in runs_of(beside)) if beside else True
    return "" if failed or result.rival else beside


@functools.cache
def _entries(part: str) -> Mapping[str, str]:
    """A part of `methods/grades.yaml`: a sentence by row."""
    parts: Mapping[str, Mapping[str, str]] = yaml.safe_load((METHODS / "grades.yaml").read_text(encoding="utf-8"))
    return parts[part]
