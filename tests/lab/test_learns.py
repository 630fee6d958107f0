"""Claims about what a recipe learns, read from the atlas, and the grades that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hocket.apps.report import catalogue
from hocket.lab.claims import atlas, grades, record
from hocket.lab.claims.atlas import COMMON, WORDS, AtlasRun, CurvePoint, keep
from hocket.lab.claims.claim import Claims, Finding, Verdict
from hocket.lab.claims.grades import GRADES, graded
from hocket.recipes import find

ROW = "dr-grpo"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An atlas of its own in place of the library's."""
    monkeypatch.setattr(atlas, "file_of", lambda recipe: tmp_path / "atlas.jsonl")
    return tmp_path / "atlas.jsonl"


def run(recipe: str, final: float, seed: int = 0, *, before: float = 0.1, answers: int = 1000, **more: Any) -> AtlasRun:
    """A run with a straight curve on 400 scenarios."""
    half = 0.04
    curve = tuple(
        CurvePoint(step, answers * step // 4, 0, float(step), before + (final - before) * step / 4) for step in range(5)
    )
    return AtlasRun(
        *(recipe, "sums", seed, 4, f"{recipe} {seed}"),
        code=atlas.code_of(recipe),
        beside="" if recipe == "grpo" else "grpo",
        measure="accuracy",
        n=400,
        before=(before, before - half, before + half),
        final=(final, final - half, final + half),
        curve=curve,
        answers=answers,
        seconds=4.0,
        declared=more.pop("declared", True),
        **more,
    )


def store(file: Path, *runs: AtlasRun) -> None:
    for one in runs:
        keep(file, one)


def claimed(**how: Any) -> Finding:
    claims = Claims(ROW)
    claims.learns(find(ROW), **{"task": "sums", "seeds": 2, **how})
    (check,) = claims
    assert check.learns
    verdict = check()
    return Finding(verdict.holds, verdict.saw)


def pair(final: float, *, rival: float = 0.5, **more: Any) -> list[AtlasRun]:
    """Two seeds of the recipe and of its parent."""
    return [one for seed in (0, 1) for one in (run(ROW, final, seed, **more), run("grpo", rival, seed))]


@pytest.mark.parametrize(
    ("runs", "how", "holds"),
    [
        (pair(0.5), {}, True),
        (pair(0.13), {}, False),  # Within the interval of its start.
        (pair(0.4), {}, False),  # Behind its parent.
        (pair(0.4), {"margin": 0.2}, True),
        (pair(0.4), {"beside": ROW}, True),  # Compared with nothing.
        (pair(0.5), {"better": True}, False),
        (pair(0.7), {"better": True}, True),
        (pair(0.7, diverged={"gradient/norm": 3}), {}, False),
        (pair(0.7, gradient=1.7e19), {}, False),
        (pair(0.5, answers=250), {"better": True}, True),  # With a quarter of the samples.
        (pair(0.5)[:2], {}, False),  # One seed of two.
    ],
)
def test_what_learns(kept: Path, runs: list[AtlasRun], how: Mapping[str, Any], holds: bool) -> None:
    store(kept, *runs)
    found = claimed(**how)
    assert found.holds is holds, found.saw


def test_the_figures_are_in_the_finding(kept: Path) -> None:
    store(kept, *pair(0.6))
    assert claimed().saw.startswith("0.1 → 0.6 (")
    assert "against grpo at equal samples" in claimed().saw


def test_runs_that_are_lacking_are_named_with_what_makes_them(kept: Path) -> None:
    assert claimed().saw == (
        f"the atlas has 0 of 2 runs of {ROW}; `hocket atlas --fill --recipes {ROW} --seeds 2` makes them"
    )


def test_runs_of_other_code_do_not_count(kept: Path) -> None:
    store(kept, *[AtlasRun(**{**vars(one), "code": "other"}) for one in pair(0.6)])
    assert "0 of 2 runs" in claimed().saw


def test_a_metric_in_place_of_the_return(kept: Path) -> None:
    short = pair(0.1, metrics={"length/mean": (30.0, 10.0)})
    store(kept, *short, *(run("grpo", 0.5, seed, metrics={"length/mean": (30.0, 20.0)}) for seed in (0, 1)))
    assert claimed(metric=("length/mean", -1)).holds
    assert not claimed(metric=("length/mean", 1)).holds
    assert "no metric reward/sum" in claimed(metric=("reward/sum", 1)).saw


@pytest.mark.parametrize("row", [ROW, "grpo"])
def test_a_claim_on_learning_makes_no_other_stale(row: str, tmp_path: Path) -> None:
    source = record.claims_file(row)
    assert source is not None
    before = record.sources_of(source)
    changed = tmp_path / source.parents[1].name / "claims" / source.name
    changed.parent.mkdir(parents=True)
    text = source.read_text(encoding="utf-8")
    changed.write_text(f'{text}\nclaim.learns(RECIPE, task="sums")\n', encoding="utf-8")
    after = record.sources_of(changed)
    assert (after.claims, after.shipped, after.ground) == (before.claims, before.shipped, before.ground)
    assert after.learns
    assert not before.learns


# ---------------------------------------------------------------- grades


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row has claims that hold, one of them shipped."""
    found = record.RowRecord((Verdict(ROW, "it does", True, "", 0.0, shipped=True),), stale=False)
    monkeypatch.setattr(record, "recorded", lambda row: found)


def test_a_row_works_only_when_it_learns(kept: Path, works: None) -> None:
    assert graded((ROW,), (ROW,), "") == grades.RowGrade("works (formula)", grades.UNRECORDED)
    store(kept, *pair(0.12))
    assert graded((ROW,), (ROW,), "").grade == "works (formula)"
    store(kept, *pair(0.6))
    assert graded((ROW,), (ROW,), "").grade == "works"
    elsewhere = [replace(each, task="maze") for each in pair(0.12)]
    store(kept, *pair(0.6), *elsewhere)
    assert graded((ROW,), (ROW,), "").grade == "works (formula)"
    store(kept, *pair(0.1, diverged={"loss": 2}))
    assert graded((ROW,), (ROW,), "").grade == "partial"


def test_a_row_with_a_task_of_its_own_is_graded_by_it(kept: Path, works: None) -> None:
    words, _ = COMMON[WORDS]
    fallen = [replace(each, task=words, declared=False) for each in pair(0.12)]
    store(kept, *fallen)
    assert graded((ROW,), (ROW,), "").grade == "works (formula)"
    store(kept, *fallen, *pair(0.6))
    assert graded((ROW,), (ROW,), "").grade == "works"


def test_a_run_that_others_are_compared_with_says_nothing_of_its_own_recipe(kept: Path, works: None) -> None:
    store(kept, *pair(0.12, declared=False))
    assert graded((ROW,), (ROW,), "") == grades.RowGrade("works (formula)", grades.UNRECORDED)
    words, _ = COMMON[WORDS]
    common = [replace(each, task=words, declared=False) for each in pair(0.6)]
    store(kept, *common)
    assert graded((ROW,), (ROW,), "").grade == "works"
    store(kept, *(replace(each, rival=True) for each in common))
    assert graded((ROW,), (ROW,), "") == grades.RowGrade("works (formula)", grades.UNRECORDED)


def test_a_run_that_equals_its_parents_is_no_evidence(kept: Path, works: None) -> None:
    store(kept, *pair(0.6, rival=0.6))
    assert graded((ROW,), (ROW,), "").grade == "works (formula)"
    assert "equal its parent's" in graded((ROW,), (ROW,), "").why
    assert graded((ROW,), (ROW, "grpo"), "").grade == "works"  # A variant of the row; the other recipe learns.


def test_a_run_without_its_parents_is_no_evidence(kept: Path, works: None) -> None:
    store(kept, *(run(ROW, 0.6, seed) for seed in (0, 1)))
    assert graded((ROW,), (ROW,), "").grade == "works (formula)"
    assert graded((ROW,), (ROW,), "").why == "not learnt on sums, where grpo has not been run beside it"
    store(kept, *(replace(each, lessons=40) if each.recipe == ROW else each for each in pair(0.6)))
    assert graded((ROW,), (ROW,), "").why == "not learnt on sums, where grpo has not been run beside it"
    store(kept, *(run(ROW, 0.6, seed) for seed in (0, 1)))
    store(kept, *(replace(run("grpo", 0.1, seed), failure="it cannot") for seed in (0, 1)))
    assert graded((ROW,), (ROW,), "").grade == "works"


def test_other_grades(kept: Path, works: None) -> None:
    assert graded((ROW,), (ROW,), "a part is missing").grade == "partial"
    assert graded((ROW,), (), "", exact=True).grade == "works (exact)"
    assert graded(("two-grpo",), ("two-grpo",), "").grade == "partial"
    assert graded(("ton",), (ROW,), "").why == f"{grades.UNRECORDED}; text stands in for images"
    store(kept, *pair(0.6))
    substituted = graded(("ton",), (ROW,), "shown on text; the paper's vision-language model comes later")
    assert substituted.grade == "works (stand-in)"
    assert "stands in" in substituted.why


def test_a_learning_claim_counts_as_evidence(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = (
        Verdict(ROW, "it acts", True, "", 0.0, shipped=True),
        Verdict(ROW, "it learns", True, "0.1 → 0.6", 0.0, learns=True),
    )
    monkeypatch.setattr(record, "recorded", lambda row: record.RowRecord(verdicts, stale=False))
    monkeypatch.setattr(grades, "verdicts_of", lambda row: verdicts)
    assert graded((ROW,), (ROW,), "") == grades.RowGrade("works", "0.1 → 0.6")


def test_rows_named_in_the_file_of_grades_exist() -> None:
    known = {row for titles in catalogue._names().values() for row in titles}
    assert {*grades._entries("stand-ins"), *grades._entries("not-seen")} <= known


def test_counts_are_by_grade() -> None:
    rows = [
        catalogue.CatalogueRow("one", "", "", "works", "works (formula)", "", ()),
        catalogue.CatalogueRow("two", "", "", "partial", "works (stand-in)", "", ()),
    ]
    assert catalogue.counts(rows) == "1 works (stand-in), 1 works (formula)"
    assert rows[1].to_json()["grade"] in GRADES
