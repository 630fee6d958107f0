"""Each command as a person or a program calls it: what is on stdout, what on stderr, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import TINY, call, train

from hocket.agents.workflows.library import find, library
from hocket.apps.cli.command import GROUPS
from hocket.apps.cli.doctor import torch_build
from hocket.apps.cli.parser import build_parser
from hocket.lab.claims.grades import GRADES
from hocket.recipes import all_recipes

COMMANDS = (
    "train",
    "eval",
    "recipes",
    "catalogue",
    "tasks",
    "workflows",
    "report",
    "compare",
    "study",
    "pretrain",
    "doctor",
    "microscope",
    "summarise",
)


SHUFFLED = "{type: hocket.curriculum.Shuffled, prompts: 2}"

OWN = '''
from hocket.agents.workflows import Workflow


class Own(Workflow):
    """Mine."""

    roles = ("policy",)

    def __init__(self, times=2, tools=()):
        self.times = times

    async def play(self, scenario, team):
        await team.policy(scenario.prompt)
'''


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    train(place, "one", steps=2)
    train(place, "two", "--recipe", "dr-grpo", "--seed", "1", steps=2)
    return place


def test_help_names_every_command_once_in_five_groups_on_one_screen() -> None:
    said = call("--help")
    lines = said.out.splitlines()
    assert said.code == 0
    assert 24 <= len(lines) <= 46
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line in GROUPS] == list(GROUPS)
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted(build_parser().commands)
    assert set(COMMANDS) <= set(listed)


def test_without_a_command_it_says_what_to_type_first() -> None:
    said = call()
    assert said.code == 0
    assert len(said.out.splitlines()) <= 8
    assert max(map(len, said.out.splitlines())) <= 100
    assert "hocket train " in said.out
    assert "hocket --help" in said.out


def test_the_help_of_train_is_one_screen() -> None:
    assert len(call("train", "--help").out.splitlines()) <= 40


def test_all_settings_of_a_run_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("train", "--recipe", "dpo", "--objective.beta", "0.3", "--list-flags")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("# recipe dpo\n")
    assert "\n--objective.beta 0.3\n" in said.out
    assert "\n--update.lr null\n" in said.out
    assert call("train", "--list-flags", "--json").json["rollout.samples"] == "8"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    said = call(name, "--help")
    assert said.code == 0
    assert f"hocket {name}" in said.out
    assert max(map(len, said.out.splitlines())) <= 100


def test_version() -> None:
    import hocket

    assert call("--version").out == f"hocket {hocket.__version__}\n"


def test_train_with_json_prints_one_document_and_progress_elsewhere(tmp_path: Path) -> None:
    said = call("train", *TINY, "--steps", "1", "--runs", tmp_path, "--json")
    assert said.code == 0
    assert said.json["steps"] == 1
    assert Path(said.json["path"]).parent == tmp_path
    assert said.json["before"]["n"] == 8
    assert "step    1/1" in said.err
    assert "hocket eval" in said.err


def test_a_run_that_is_refused_in_its_first_step_leaves_no_folder(tmp_path: Path) -> None:
    more = ("--runs", tmp_path, "--run", "mine", "--quiet")
    refused = call(
        "train", *TINY, "--steps", "1", *more, "--recipe", "train-long-think-short", "--curriculum", SHUFFLED
    )
    assert refused.code == 2, refused.err
    assert "metadata 'budget'" in refused.err
    assert not (tmp_path / "mine").exists()
    assert call("train", *TINY, "--steps", "1", *more).code == 0


def test_what_was_said_and_why_nothing_was_learnt_is_in_the_json(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def none(completions, **_):\n    return [0.0 for _ in completions]\n")
    said = train(tmp_path, "mine", "--reward", f"{tmp_path}/mine.py:none", "--json", steps=1).json
    assert any("no group had any signal" in sentence.lower() for sentence in said["diagnosis"])
    assert isinstance(said["messages"], list)
    shown = call("train", "--resume", "mine", "--runs", tmp_path, "--steps", "2")
    assert "no group had any signal" in " ".join(shown.err.lower().split())


def test_casts_are_named(tmp_path: Path) -> None:
    said = call("train", *TINY, "--steps", "1", "--runs", tmp_path, "--quiet", "--cast", "shared")
    assert said.code == 0, said.err
    said = call("train", *TINY, "--steps", "1", "--runs", tmp_path, "--quiet", "--cast", "sharde")
    assert (said.code, "did you mean 'Shared'" in said.err) == (2, True)


def test_train_without_json_leaves_stdout_empty(tmp_path: Path) -> None:
    said = call("train", *TINY, "--steps", "1", "--runs", tmp_path, "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_progress_bars_of_other_libraries_stay_out_of_the_way(tmp_path: Path) -> None:
    flags = ["--steps", "1", "--runs", str(tmp_path), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "hocket", "train", *TINY, *flags], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout == ""


def test_recipes_as_json() -> None:
    found = call("recipes", "--json").json
    assert {row["name"] for row in found} == set(all_recipes())
    fields = {"name", "title", "source", "catalogue_ids", "family", "axes", "parent", "needs", "checks", "status"}
    fields |= {"grade", "atlas"}
    for row in found:
        assert fields <= row.keys()
        assert row["status"] in ("works", "partial", "stale", "open")
        assert row["status"] != "partial" or row["note"]
        assert row["parent"] is None or row["parent"] in all_recipes()
        assert row["title"]
        assert row["source"]


@pytest.mark.parametrize("name", sorted(all_recipes()))
def test_one_recipe_as_json_and_as_text(name: str) -> None:
    found = call("recipes", name, "--json").json
    assert found["name"] == name
    assert found["formula"]
    assert found["conventions"]
    composition = found["composition"]
    assert {"rollout", "credit", "objective", "regularisers", "update"} <= composition.keys()
    assert composition["objective"]["type"].startswith(("hocket.objectives.", "hocket.methods."))
    text = call("recipes", name).out
    assert " ".join(found["formula"].split()) in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 200


def test_the_catalogue() -> None:
    rows = call("catalogue", "--json").json
    assert {"id", "title", "field", "status", "grade", "note", "where", "checks"} == rows[0].keys()
    assert {row["grade"] for row in rows} <= GRADES.keys()
    assert {"works", "partial", "open"} >= {row["status"] for row in rows} - {"stale"}
    assert all(bool(row["where"] and row["checks"]) == (row["status"] != "open") for row in rows)
    said = call("catalogue").out
    assert "gvpo" in said
    assert "grpo-success-amplification" in said


def test_checks_are_run_and_told() -> None:
    found = call("recipes", "--check", "mapo", "--check", "gmpo", "--quick", "--json").json
    assert [row["id"] for row in found] == ["mapo", "gmpo"]
    assert all(row["verdict"] == "works" and row["checks"] for row in found)
    assert "claims hold" in call("recipes", "--check", "mapo", "--quick").out
    wrong = call("recipes", "--check", "mapp")
    assert (wrong.code, wrong.out) == (2, "")
    assert "mapo" in wrong.err


def test_two_recipes_are_compared() -> None:
    found = call("recipes", "--compare", "grpo", "dr-grpo", "--json").json
    assert {row["setting"] for row in found["differences"]} == {"credit.scale", "objective.aggregate"}
    assert found["gradients"]["on-policy"] == "different"
    assert "credit.scale" in call("recipes", "--compare", "grpo", "dr-grpo").out


def test_tasks() -> None:
    said = call("tasks")
    assert "sums" in said.out
    assert {"name", "description"} == call("tasks", "--json").json[0].keys()
    shown = call("tasks", "sums", "--n", "2", "--json").json
    assert shown["name"] == "sums"
    assert len(shown["samples"]) == 2
    assert all(row["answer"] and row["prompt"] for row in shown["samples"])
    assert "answer" in call("tasks", "sums").out
    assert "CartPole" in call("tasks", "gym:CartPole-v1").out


def test_workflows(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in call("workflows", "--json").json}
    assert set(rows) == set(library())
    assert rows["debate"]["settings"] == {"debaters": 3, "rounds": 2, "vote": 1.0, "system": None}
    assert all(row["description"] for row in rows.values())
    for name, row in rows.items():
        plain = {key: value for key, value in row["settings"].items() if isinstance(value, (int, float))}
        words = "&".join(f"{key}={json.dumps(value)}" for key, value in plain.items())
        assert find(f"{name}?{words}").roles == find(name).roles
    said = call("workflows", "--all")
    assert "several answer, read each other and vote" in " ".join(said.out.split())
    assert "debaters=3  rounds=2" in said.out
    text = call("workflows", "debate?debaters=2").out
    assert "debater_2" in text
    assert "debater_3" not in text
    assert "rounds:" in text
    own = tmp_path / "own.py"
    own.write_text(OWN)
    found = call("workflows", f"{own}:Own", "--json").json
    assert (found["roles"], found["settings"], found["description"]) == (["policy"], {"times": 2}, "Mine.")
    wrong = call("workflows", "debat")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean 'debate'" in wrong.err


def test_eval_of_a_run_and_of_a_model(runs: Path) -> None:
    said = call("eval", "one", "--runs", runs, "--n", "6", "--samples", "4", "--json", "--threads", "1")
    assert said.code == 0, said.err
    assert [row[0] for row in said.json["rows"]] == ["greedy accuracy", "pass@1", "pass@2", "pass@4"]
    values = [row[1] for row in said.json["rows"][1:]]
    assert values == sorted(values)
    assert said.json["n"] == 6
    last = json.loads((runs / "one" / "metrics.jsonl").read_text().splitlines()[-1])
    again = call("eval", runs / "one", "--n", "8", "--json", "--threads", "1").json
    assert again["rows"][0][1] == last["eval/accuracy"]
    text = call("eval", "one", "--runs", runs, "--n", "4", "--threads", "1")
    assert "greedy accuracy" in text.out
    model = runs / "one" / "checkpoints" / "step-000002" / "policy"
    assert (
        call("eval", model, "--task", "sums", "--n", "8", "--json", "--threads", "1").json["rows"][0]
        == (again["rows"][0])
    )


def test_report_and_compare(runs: Path, tmp_path: Path) -> None:
    said = call("report", "one", "--runs", runs)
    assert said.code == 0, said.err
    page = Path(said.out.strip())
    assert page.is_file()
    assert page.read_text().lstrip().lower().startswith("<!doctype html")
    said = call("compare", "one", "two", "--runs", runs, "--html", tmp_path / "both.html")
    assert said.code == 0, said.err
    assert "one" in said.out
    assert "two" in said.out
    assert (tmp_path / "both.html").is_file()
    assert isinstance(call("compare", "one", "two", "--runs", runs, "--json").json, (list, dict))


@pytest.mark.parametrize(
    ("cuda", "available", "driver", "fine", "words"),
    [
        (None, False, False, True, ""),
        ("13.0", True, True, True, ""),
        (None, False, True, False, "has an NVIDIA GPU: pip install torch"),
        ("13.0", False, True, False, "driver does not work with CUDA 13.0"),
        ("13.0", False, False, True, "--index-url https://download.pytorch.org/whl/cpu"),
    ],
)
def test_the_build_of_torch(cuda: str | None, available: bool, driver: bool, fine: bool, words: str) -> None:
    build = torch_build(cuda, available=available, driver=driver)
    assert build.found == ("for the CPU" if cuda is None else "for CUDA 13.0")
    assert (build.fine, words in build.advice, bool(build.advice)) == (fine, True, bool(words))


@pytest.mark.slow
def test_doctor() -> None:
    said = call("doctor", "--json")
    assert said.code == 0, said.out
    found = {row["name"]: row for row in said.json}
    assert found["self-test"]["fine"]
    assert "torch" in call("doctor").out


def test_doctor_of_a_model() -> None:
    said = call("doctor", "--model", "nano", "--memory", "4GiB", "--lora.rank", "4", "--context", "512", "--json")
    assert said.code == 0, said.err
    ways = said.json["ways"]
    assert all(way["fits"] and abs(sum(way["parts"].values()) - way["total"]) < 1e-6 for way in ways)
    assert "--lora.rank 4" in ways[-1]["flags"]
    shown = call("doctor", "--model", "nano", "--memory", "100MiB")
    assert shown.code == 1
    assert "nothing fits into 0.1 GiB" in shown.out
    assert "name one: hocket doctor --model" in call("doctor", "--context", "512").err


def test_a_run_remembers_the_whole_task_that_its_recipe_is_for(tmp_path: Path) -> None:
    """Else it is resumed, measured and sampled elsewhere on another: a maze's own name leaves settings out."""
    flags = ["--steps", "0", "--evaluation.n", "2", "--threads", "1", "--quiet", "--runs", tmp_path, "--run", "run"]
    assert call("train", "--recipe", "sdpo", *flags).code == 0
    first = (tmp_path / "run/config.yaml").read_text().splitlines()[0]
    assert first == "task: maze?width=3&height=3&steps=10&reading=number"


def test_a_task_that_suggests_no_steps_is_trained_on_all_the_same() -> None:
    from hocket import tasks
    from hocket.train.config import STEPS, configure, settled

    task = tasks.find("maze")
    assert "steps" not in task.suggest(configure([], task).recipe)
    assert settled(configure([], task), task).steps == STEPS > 0
    assert settled(configure([("steps", 0)], task), task).steps == 0
