"""The atlas: which runs it has, what is kept and made again, what it says, and its pages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import call

from hocket import tasks
from hocket.apps.report.cards import card
from hocket.apps.studies import atlas, atlas_page
from hocket.apps.studies.atlas import COMMON, AtlasPlan, fill, named, own_plan, rival_of, tasks_of
from hocket.apps.studies.folder import StudyFolder, write_result
from hocket.apps.studies.planning import Planner
from hocket.apps.studies.pool import Done, Job
from hocket.core.errors import ConfigurationError
from hocket.lab.claims import atlas as data
from hocket.recipes import find
from hocket.tasks.lessons import lessons_of

GOOD = {
    "measure": "accuracy",
    "share": True,
    "gradient": 0.5,
    "diverged": {},
    "metrics": {"length/mean": [8.0, 30.0]},
    "sampled": [[0.1, 0.06, 0.14], [0.3, 0.25, 0.35]],
    "ended": "",
}


def result(final: float, **more: Any) -> dict[str, Any]:
    """As a worker stores it."""
    rows = [
        {"step": step, "answers": 128 * step, "tokens": 900 * step, "seconds": float(step), "reward": 0.1 * step}
        | {"value": None if step == 1 else value, "low": value - 0.06, "high": value + 0.06}
        for step, value in enumerate((0.1, 0.1, final / 2, final))
    ]
    return {**GOOD, "rows": rows, "final": final, "seconds": 3.0, **more}


class Scripted:
    """Workers that store what a table says of a recipe."""

    size = 1

    def __init__(self, finals: dict[str, Any]) -> None:
        self.finals = finals
        self.done: list[str] = []

    def do(self, jobs: Sequence[Job], done: Done) -> None:
        for job in jobs:
            label = job["run"]["label"]
            found = self.finals[label]
            write_result(
                Path(job["file"]), {"run": job["run"], **(found if isinstance(found, dict) else result(found))}
            )
            self.done.append(label)
            done(job, None)

    def close(self) -> None:
        """Nothing is held."""


def plan(folder: Path, *names: str, seeds: int = 1) -> AtlasPlan:
    return own_plan(names, "sums", 3, seeds, {}, folder)


def test_recipes_stand_on_the_task_of_their_kind_and_on_their_own() -> None:
    words, steps = COMMON[atlas.WORDS]
    assert tasks_of(card("dr-grpo")) == {words: steps}
    assert list(tasks_of(card("dpo"))) == [COMMON[atlas.PAIRS][0]]
    assert list(tasks_of(card("gigpo"))) == [COMMON[atlas.TURNS][0]]
    assert list(tasks_of(card("mappo"))) == [COMMON[atlas.TEAM][0]]
    assert set(tasks_of(card("ppo"))) == {words, COMMON[atlas.CONTROL][0]}
    assert tasks_of(card("at-grpo")) == {"checked-sums": atlas.STEPS}
    assert tasks_of(card("rrhf-code-optimization")) == {"cheaper-programs": 240}
    assert list(tasks_of(card("chunk-grpo"))) == ["drawn-digits"]
    assert list(tasks_of(card("uav-vl-r1"))) == ["digits"]
    assert list(tasks_of(card("cj-grpo"))) == ["sums"]
    assert tasks_of(card("reward-model")) == {}


def test_the_only_task_of_a_recipe_is_its_own() -> None:
    assert atlas._is_own(card("optima"), "sums")
    assert atlas._is_own(card("chunk-grpo"), "drawn-digits")
    assert not atlas._is_own(card("dr-grpo"), "sums")


def test_each_is_compared_with_the_nearest_ancestor_that_learns_from_the_same() -> None:
    assert rival_of("dr-grpo", "sums") == "grpo"
    assert rival_of("simpo", "graded-sums") == "dpo"
    assert rival_of("online-dpo", "sums") == "grpo"
    assert rival_of("grpo", "sums") is None
    assert rival_of("chunk-grpo", "drawn-digits") == "flow-grpo"
    assert rival_of("flow-grpo", "drawn-digits") is None


def test_names_and_families() -> None:
    assert named("grpo,dpo,grpo") == ["grpo", "dpo"]
    assert {"dpo", "simpo"} <= set(named("preference"))
    assert "reward-model" not in named(None)
    with pytest.raises(ConfigurationError, match="grop"):
        named("grop")


def test_a_recipe_runs_as_shipped_with_the_lessons_of_its_task(tmp_path: Path) -> None:
    one = own_plan(["gigpo"], COMMON[atlas.TURNS][0], 5, 1, {}, tmp_path)
    run, _ = next(one.runs(Planner(one.study)))
    settings = dict(run.pairs)
    assert run.lessons == 40
    assert settings["steps"] == 5
    assert run.unit == "steps"
    assert not run.metered
    lessons = lessons_of(tasks.find(run.task))
    assert lessons is not None
    then = {key: value for key, value in lessons.then(find("grpo")).items() if key != "steps"}
    assert {key: settings[key] for key in then} == then
    assert all(key in then for key in settings if key.partition(".")[0] in ("curriculum", "rollout", "update"))
    json.dumps(run.to_json())


def test_what_is_there_is_not_run_again_and_other_code_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, workers = plan(tmp_path / "atlas", "dr-grpo"), Scripted({"grpo": 0.6, "dr-grpo": 0.8})
    assert fill(one, workers, lambda message: None) == 0
    assert workers.done == ["grpo", "dr-grpo"]
    fill(one, workers, lambda message: None)
    assert len(workers.done) == 2
    monkeypatch.setattr("hocket.apps.studies.planning.code_of", lambda recipe: "new" * (recipe == "dr-grpo"))
    fill(one, workers, lambda message: None)
    assert workers.done[2:] == ["grpo", "dr-grpo"]  # Both had a digest of their code before.


def test_a_run_that_outlived_its_atlas_is_kept_by_the_next(tmp_path: Path) -> None:
    one = plan(tmp_path / "atlas", "grpo")
    run, _ = next(one.runs(Planner(one.study)))
    folder = StudyFolder.open(one.folder, one.study)
    write_result(folder.path / "runs" / f"{run.key}.json", {"run": run.to_json(), **result(0.7)})
    folder.close()
    workers = Scripted({})
    fill(one, workers, lambda message: None)
    assert workers.done == []
    assert data.read(one.file("grpo"), "grpo")[0].final[0] == 0.7


def test_a_failure_is_an_entry_and_is_repeated_on_request(tmp_path: Path) -> None:
    one, workers = plan(tmp_path / "atlas", "grpo"), Scripted({"grpo": {"error": "out of luck"}})
    assert fill(one, workers, lambda message: None) == 1
    fill(one, workers, lambda message: None)
    assert len(workers.done) == 1
    rows = atlas_page.collected(["grpo"], one.file("grpo"))
    assert (rows[0].outcome, rows[0].failure) == ("failed", "out of luck")
    workers.finals["grpo"] = 0.6
    assert fill(one, workers, lambda message: None, again=True) == 0
    assert [row.outcome for row in atlas_page.collected(["grpo"], one.file("grpo"))] == ["learns"]


@pytest.fixture
def rows(tmp_path: Path) -> list[atlas_page.AtlasRow]:
    """GRPO with one that is better, one like it, one worse, one that diverged and one that learnt nothing."""
    low = [[0.1, 0.06, 0.14], [0.12, 0.08, 0.16]]
    finals = {
        "grpo": 0.5,
        "dr-grpo": 0.8,
        "gspo": 0.51,
        "cispo": result(0.2, sampled=low),
        "gmpo": result(0.5, diverged={"loss": 2}),
        "sapo": result(0.1, sampled=low),
    }
    one = plan(tmp_path / "atlas", *finals)
    fill(one, Scripted(finals), lambda message: None)
    return atlas_page.collected(finals, one.file("grpo"))


def test_outcomes(rows: list[atlas_page.AtlasRow]) -> None:
    outcomes = {row.recipe: row.outcome for row in rows}
    assert outcomes == {
        "grpo": "learns",
        "dr-grpo": "learns",
        "gspo": "learns",
        "cispo": "behind",
        "gmpo": "diverged",
        "sapo": "not learnt",
    }
    assert rows[0].recipe == "dr-grpo"


def test_summaries_say_what_helps_and_what_was_not_significant(rows: list[atlas_page.AtlasRow]) -> None:
    (summary,) = atlas_page.summaries(rows)
    assert "5 compared with their parents" in summary.heading
    assert summary.lines[0] == (
        "greedy, at equal samples: better `dr-grpo` +30.0; worse `sapo` −40.0, `cispo` −30.0; "
        "no significant difference in 2 of 5"
    )
    assert summary.lines[1].startswith("sampled, at the end: worse `cispo` −18.0, `sapo` −18.0; no significant")


class Cells(HTMLParser):
    """The cells of every row of the atlas's table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.numbers: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.rows += tag == "tr" and "data-outcome" in known
        if tag == "td" and known.get("data-number"):
            self.numbers.append(float(str(known["data-number"])))


def test_pages(rows: list[atlas_page.AtlasRow]) -> None:
    html = atlas_page.page(rows)
    parsed = Cells()
    parsed.feed(html)
    assert parsed.rows == 6
    assert 0.8 in parsed.numbers
    assert html.count('<svg class="chart"') == 6
    text = atlas_page.markdown(rows)
    assert text.startswith("# Atlas\n")
    assert len(re.findall(r"^\| `", text, re.MULTILINE)) == 6


def test_a_budget_of_seconds_is_part_of_a_run(tmp_path: Path) -> None:
    one = plan(tmp_path, "grpo")
    keys = {next(each.runs(Planner(each.study)))[0].key for each in (one, timed(one, 5.0), timed(one, 9.0))}
    assert len(keys) == 3
    guarded = replace(one, limit=7.0)
    assert next(guarded.runs(Planner(guarded.study)))[0].key == next(one.runs(Planner(one.study)))[0].key


def test_what_ended_by_its_budget_is_done(tmp_path: Path) -> None:
    ended = {"ended": "2 of 3 steps in 5 s"}
    one, workers = timed(plan(tmp_path / "atlas", "grpo"), 5.0), Scripted({"grpo": {**result(0.6), **ended}})
    for _ in range(2):
        fill(one, workers, lambda message: None, again=True)
    assert workers.done == ["grpo"]


def timed(plan: AtlasPlan, seconds: float) -> AtlasPlan:
    return replace(plan, limit=seconds, timed=True)


def test_the_pages_of_a_task_of_ones_own_say_how_its_runs_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = own_plan(["dr-grpo"], "sums", 3, 1, {"model": "smollm2", "lora.rank": 4}, Path("runs/atlas/mine"))
    fill(one, Scripted({"grpo": 0.6, "dr-grpo": 0.8}), lambda message: None)
    flags = ("--model", "smollm2", "--steps", "3", "--out", "runs/atlas/mine", "--docs", "docs", "--lora.rank", "4")
    assert call("atlas", "--task", "sums", "--recipes", "grpo,dr-grpo", *flags).code == 0
    text = Path("docs/atlas/mine.md").read_text()
    assert re.search(r"^    hocket train --recipe .* --model smollm2 --lora.rank 4$", text, re.MULTILINE)
    assert len(re.findall(r"^\| `", text, re.MULTILINE)) == 2
    assert len(Path("docs/atlas/mine.jsonl").read_text().splitlines()) == 2
    assert "Atlas: mine" in Path("docs/atlas/mine.html").read_text()


def test_the_command_shows_and_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("atlas", "--recipes", "grpo", "--steps", "3").err.startswith("hocket: --steps: the library's recipes")
    assert "above 0" in call("atlas", "--task", "sums", "--seconds", "0").err
    said = call("atlas", "--task", "sums", "--recipes", "dr-grpo", "--dry-run", "--json").json
    assert said == {"runs": 2, "done": 0, "cpu_hours": None}
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_real_atlas_of_a_task_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": f"What is {a} + {b}?", "answer": str(a + b)} for a in range(2, 20) for b in (3, 7)]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = call("atlas", "--task", "mine.jsonl", "--recipes", "dr-grpo,dpo", "--steps", "2", "--workers", "1", "--json")
    assert said.code == 1  # Pairs are lacking.
    found = {row["recipe"]: row for row in said.json}
    assert "learns from pairs" in found["dpo"]["failure"]
    (run,) = found["dr-grpo"]["runs"]
    assert run["answers"] == 256
    assert len(run["curve"]) == 3
    assert run["sampled"] is not None
    assert Path("runs/atlas/mine-jsonl/report.html").is_file()


def test_curves_are_thinned_and_read_between_their_points() -> None:
    points = tuple(data.CurvePoint(step, 10 * step, 0, step / 2, step / 100) for step in range(101))
    run = data.AtlasRun("grpo", "sums", 0, 100, "key", curve=points)
    thin = data.thinned(run)
    assert len(thin.curve) == data.POINTS
    assert (thin.curve[0], thin.curve[-1]) == (points[0], points[-1])
    assert run.at("answers", 255) == pytest.approx(0.255)
    assert run.at("seconds", 1e9) == 1.0
    assert run.area("answers", 1000) == pytest.approx(0.5)
    assert data.AtlasRun.from_json(thin.to_json()) == replace(thin)
