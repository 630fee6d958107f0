"""A real tiny study through the command line: killed, gone on with, reported; and bad input in a sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tiny_runs import Said, call

from hocket.apps.studies.conduct import StudyResult
from hocket.apps.studies.folder import StudyFolder, read_result
from hocket.apps.studies.markdown import markdown, pictures
from hocket.apps.studies.page import page
from hocket.apps.studies.planning import Planner
from hocket.apps.studies.pool import WorkerPool
from hocket.apps.studies.results import results
from hocket.apps.studies.study import Study, StudyMeasure, StudyMethod, entries
from hocket.apps.studies.words import points, remarks
from hocket.train.disk import json_ready

TINY = [
    *("--task", "sums", "--steps", "2", "--prompts", "2", "--samples", "4", "--decoding.max_tokens", "10"),
    *("--measure.n", "8", "--measure.between", "4", "--measure.points", "2"),
    *("--measure.problems", "4", "--measure.samples", "2", "--equal_batches", "0"),
]
TWO = ["--recipes", "grpo,cispo", "--seeds", "2"]


def study(out: Path, *more: str | Path) -> Said:
    return call("study", *TINY, "--out", out, "--workers", "1", *more)


def finished(out: Path) -> dict[Path, int]:
    """The results there are, and when each was written."""
    return {file: file.stat().st_mtime_ns for file in (out / "runs").glob("*.json")}


def until(true: Callable[[], bool], seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Path, int]]:
    """A study that was killed after its first run, and what it had finished by then."""
    out = tmp_path_factory.mktemp("study") / "killed"
    arguments = ["study", *TINY, *TWO, "--out", str(out), "--workers", "1", "--quiet"]
    process = subprocess.Popen([sys.executable, "-m", "hocket", *arguments], stderr=subprocess.DEVNULL)
    until(lambda: bool(finished(out)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    return out, finished(out)


@pytest.fixture(scope="module")
def done(killed: tuple[Path, dict[Path, int]]) -> tuple[Path, Said]:
    """The same study, carried to its end."""
    out = killed[0]
    return out, study(out, *TWO, "--json")


@pytest.mark.slow
def test_a_killed_study_goes_on_and_repeats_nothing(killed: tuple[Path, dict[Path, int]], done: Any) -> None:
    out, before = killed
    assert 1 <= len(before) <= 4
    assert done[1].code == 0, done[1].err
    after = finished(out)
    assert len(after) == 4
    assert {file: after[file] for file in before} == before


def test_the_study_as_json(done: tuple[Path, Said]) -> None:
    out, said = done
    found = said.json
    assert found == json.loads((out / "results.json").read_text())
    assert [method["label"] for method in found["methods"]] == ["grpo", "cispo"]
    assert found["budget"]["answers"] == 16
    for method in found["methods"]:
        assert method["runs"] == 2
        assert method["metrics"].keys() >= {"final", "area", "tokens", "length", "entropy", "pass@1", "pass@2"}
        for estimate in method["metrics"].values():
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
        assert method["metrics"]["answers"]["value"] == 16
        curve = method["curves"]["sums"]["success"]
        assert [place for place, *_ in curve] == [0.0, 8.0, 16.0]
    other = found["methods"][1]
    assert 0 <= other["improvement"]["low"] <= other["improvement"]["value"] <= other["improvement"]["high"] <= 1
    assert other["resolvable"] >= 0
    assert found["methods"][0]["improvement"] is None


def test_a_finished_study_only_reports(done: tuple[Path, Said], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("a run was started")

    monkeypatch.setattr(WorkerPool, "do", refuse)
    said = study(done[0], *TWO)
    assert said.code == 0, said.err
    assert "grpo" in said.out
    assert "final accuracy" in said.out
    assert said.out.strip().endswith("report.html")


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attributes if name in ("src", "href")]


def test_the_page_stands_alone(done: tuple[Path, Said]) -> None:
    text = (done[0] / "report.html").read_text()
    page = Page(text)
    assert not page.links
    assert page.tags.count("svg") >= 5  # four charts, and the differences
    assert "cispo" in text
    assert "bootstrap" in text


def test_the_text_page_and_its_pictures(done: tuple[Path, Said]) -> None:
    out = done[0]
    text, found = (out / "report.md").read_text(), done[1].json
    other = found["methods"][1]
    rows = [line for line in text.splitlines() if line.startswith("| `cispo` |")]
    assert points(other["difference"], True) in rows[0]
    assert points(other["area_difference"], True) in rows[0]
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith(" |")
    for name in ("difference.svg", "area-difference.svg"):
        assert f"({name})" in text
        picture = ElementTree.fromstring((out / name).read_text())
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        assert "cispo" in "".join(picture.itertext())


def test_of_one_seed_no_difference_is_claimed(done: tuple[Path, Said]) -> None:
    found = done[1].json
    assert any("differ from grpo" in sentence for sentence in remarks(found))
    alone = {**found, "seeds": {**found["seeds"], "testing": [0]}}
    assert not any("differ from grpo" in sentence for sentence in remarks(alone))
    assert remarks(alone)[0].startswith("One seed each")


def test_a_method_of_which_no_run_finished_is_told_and_the_rest_reported() -> None:
    study = Study(recipes=("grpo", "cispo"), tasks=("sums",), steps=2, prompts=2, samples=4, seeds=2)
    planner = Planner(study)
    base, lost = entries(study)
    rows = [{"answers": x, "value": 0.5, "reward": 0.5, "entropy": 1.0, "length": 3.0} for x in (0, 8, 16)]
    run = {
        "final": 0.5,
        "area": 0.5,
        "answers": 16,
        "tokens": 60,
        "length": 3.0,
        "entropy": 1.0,
        "pass": {"1": 0.5},
        "rows": rows,
        "seconds": 1.0,
        "measure": "accuracy",
    }
    found = StudyResult([base, lost], results={("grpo", "sums"): [{**run, "seed": 0}, {**run, "seed": 1}]})
    found.failures["cispo"] = ["sums: the disk is full"] * 2
    document = json_ready(results(study, planner, found))
    json.dumps(document, allow_nan=False)
    assert document["methods"][1]["metrics"]["final"] is None
    for text in (markdown(document), page(document)):
        assert "cispo on sums: the disk is full (2 runs)" in text
        assert "50.0 %" in text


def test_the_published_page_says_what_its_results_say() -> None:
    docs = Path(__file__).parents[2] / "docs" / "studies"
    pages = sorted(docs.glob("*/results.json"))
    assert pages
    for file in pages:
        found = json.loads(file.read_text())
        assert (file.parent / "report.md").read_text() == markdown(found)
        for name, picture in pictures(found).items():
            assert (file.parent / name).read_text() == picture


def test_more_seeds_use_what_is_there(done: tuple[Path, Said]) -> None:
    out = done[0]
    before = finished(out)
    said = study(out, "--recipes", "grpo,cispo", "--seeds", "2", "--dry-run", "--json")
    assert said.json["runs"] == {"tuning": 0, "testing": 4, "done": 4}
    assert said.json["cpu_hours"] < 0.01
    assert finished(out) == before


def test_the_folder_of_another_study_is_refused(done: tuple[Path, Said], tmp_path: Path) -> None:
    said = study(done[0], *TWO, "--steps", "3")
    assert said.code == 2
    assert "another study (steps: 2 there, 3 here)" in said.err
    (tmp_path / "notes.txt").write_text("mine")
    said = study(tmp_path, *TWO)
    assert said.code == 2
    assert "no study's folder" in said.err


# ---------------------------------------------------------------- workers


def jobs(folder: StudyFolder, recipes: tuple[str, ...] = ("grpo",)) -> list[dict[str, Any]]:
    plan = Planner(
        Study(
            recipes=recipes,
            steps=2,
            prompts=2,
            samples=4,
            settings={"decoding.max_tokens": 10},
            measure=StudyMeasure(n=8, between=4, points=2, problems=4, samples=2),
        )
    )
    runs = [plan.run(StudyMethod(name, name), "sums", 0) for name in recipes]
    place = folder.path
    return [
        {
            "kind": "run",
            "file": str(place / "runs" / f"{run.key}.json"),
            "run": run.to_json(),
            "work": str(place / "work"),
        }
        for run in runs
    ]


@pytest.mark.slow
def test_a_killed_worker_loses_one_run_which_is_done_again(tmp_path: Path) -> None:
    folder = StudyFolder.open(tmp_path / "study", Study(recipes=("grpo", "dr-grpo")))
    pool = WorkerPool(1)
    told: list[str | None] = []
    killed: list[int] = []

    def kill() -> None:
        until(lambda: bool(pool.processes))
        killed.extend(pool.processes)
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        pool.do(jobs(folder, ("grpo", "dr-grpo")), lambda job, error: told.append(error))
        killer.join()
        assert told == [None, None]
        assert pool.processes != killed
        for job in jobs(folder, ("grpo", "dr-grpo")):
            found = read_result(Path(job["file"]))
            assert found is not None
            assert found["answers"] == 16
    finally:
        pool.close()
        folder.close()


def test_a_run_that_fails_is_told_in_its_place_and_tried_again(tmp_path: Path) -> None:
    folder = StudyFolder.open(tmp_path / "study", Study(recipes=("grpo", "dr-grpo")))
    pool = WorkerPool(1)
    (job,) = jobs(folder)
    broken = {**job, "run": {**job["run"], "pairs": [*job["run"]["pairs"], ["task", "no-such-task"]]}}
    told: list[str | None] = []
    try:
        pool.do([broken], lambda job, error: told.append(error))
        assert folder.failure(job["run"]["key"]) == told[0]
        assert told[0] is not None
        assert "no-such-task" in told[0]
        assert folder.result(job["run"]["key"]) is None
        pool.do([job], lambda job, error: told.append(error))
        assert told[1] is None
        assert folder.result(job["run"]["key"]) is not None
    finally:
        pool.close()
        folder.close()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    folder = StudyFolder.open(tmp_path / "study", Study(recipes=("grpo", "cispo"), steps=2, prompts=2, samples=4))
    try:
        said = call("study", *TWO, "--steps", "2", "--prompts", "2", "--samples", "4", "--out", tmp_path / "study")
        assert said.code == 2
        assert "in use" in said.err
    finally:
        folder.close()


# ---------------------------------------------------------------- bad input

BAD = {
    "unknown recipe": (["--recipes", "grpo,dapoo"], "did you mean 'dapo'"),
    "unknown task": (["--recipes", "grpo,dapo", "--task", "sumz"], "did you mean 'sums'"),
    "nothing": ([], "--recipes"),
    "one recipe": (["--recipes", "grpo"], "at least two"),
    "the same twice": (["--recipes", "dapo,dapo"], "twice"),
    "no file": (["nowhere.yaml"], "no study file"),
    "unknown setting": (["--recipes", "grpo,dapo", "--objective.lowe", "1"], "low"),
    "unknown flag": (["--recipes", "grpo,dapo", "--stepz", "3"], "steps"),
    "no answers": (["--recipes", "grpo,sft"], "sft"),
    "no workers": (["--recipes", "grpo,dapo", "--workers", "0"], "worker"),
    "no seeds": (["--recipes", "grpo,dapo", "--seeds", "0"], "seeds"),
    "a rate that is none": (["--recipes", "grpo,dapo", "--lr", "1e-4,-1"], "lr"),
    "tasks apart": (["--recipes", "grpo,dapo", "--task", "sums", "--task", "gym:CartPole-v1"], "returns"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name: str, tmp_path: Path) -> None:
    arguments, word = BAD[name]
    said = call("study", *arguments, "--out", tmp_path / "study")
    assert said.code == 2
    assert word in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert len(said.err) < 300
    assert said.out == ""
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("recipes: [grpo, dapo", "line"),
        ("- grpo\n- dapo\n", "keys and values"),
        ("recipes: [grpo, dapo]\nstep: 3\n", "steps"),
        ("recipes: [grpo, dapo]\nsteps: many\n", "steps"),
        ("recipes: [grpo, {label: x}]\n", "recipe"),
        ("recipes: [grpo, dapo]\nsettings: 3\n", "settings"),
        ("recipes: [grpo, dapo]\ntuning: {grid: {update.lr: 1}}\n", "list of values"),
        ("recipes: [grpo, dapo]\nmeasure: {n: 0}\n", "at least 1"),
        ("recipes: [grpo]\n\x00", "YAML"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text)
    said = call("study", file, "--out", tmp_path / "out")
    assert said.code == 2
    assert word in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "tasks", "methods", "hours"), [("group_relative", 2, 10, 8), ("agents", 6, 19, 2)])
def test_a_committed_study_fits_every_recipe_and_keeps_its_budget(
    name: str, tasks: int, methods: int, hours: int
) -> None:
    file = Path(__file__).parents[2] / "benchmarks" / "studies" / f"{name}.yaml"
    said = call("study", file, "--dry-run", "--json", "--out", "nowhere")
    assert said.code == 0, said.err
    assert len(said.json["tasks"]) == tasks
    assert len(said.json["methods"]) >= methods
    assert said.json["cpu_hours"] <= hours


@pytest.mark.slow
def test_runs_begin_with_the_lessons_of_their_task_which_are_taught_once(tmp_path: Path) -> None:
    task = "maze?width=3&height=3&steps=3"
    text = """
recipes:
  - {recipe: grpo, label: grpo, tasks: ["TASK"]}
  - {recipe: gigpo, label: gigpo, tasks: ["TASK"]}
  - {recipe: grpo, label: alone, tasks: [sums], against: alone}
tasks: ["TASK", sums]
lessons: {"TASK": 2}
"""
    file, out = tmp_path / "pairs.yaml", tmp_path / "out"
    file.write_text(text.replace("TASK", task))
    tiny = [word for word in TINY if word not in ("--task", "sums")]
    said = call("study", file, *tiny, "--seeds", "1", "--workers", "1", "--out", out, "--json")
    assert said.code == 0, said.err
    assert len(list((out / "work").glob("lessons-*/summary.json"))) == 1
    found = {method["label"]: method for method in said.json["methods"]}
    assert found["gigpo"]["against"] == "grpo"
    assert (found["alone"]["tasks"], found["alone"]["difference"]) == (["sums"], None)
    before = [found[name]["curves"][task]["success"][0] for name in ("grpo", "gigpo")]
    assert before[0] == before[1]
    assert "lessons before every run" in (out / "report.md").read_text()
