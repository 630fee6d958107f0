"""`hocket traces`: what a teacher's search writes, that it trains, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.lab.toys import orders
from hocket.methods.data_and_rollout.tree_opo.making import row_of
from hocket.types import Scenario

TEACHER = ["--task", "worked-sums", "--model", f"{orders.__file__}:teacher", "--n", "4", "--searches", "3"]


def searched(out: Path, *flags: str) -> int:
    return main(["traces", *TEACHER, "--until", "=", "--out", str(out), "--quiet", *flags])


def test_what_is_written_is_data_that_trains(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert searched(tmp_path / "a.jsonl", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert 1 < found["rows"] <= found["scenarios"] == 4
    assert 0 < found["right"] < 1
    assert found["task"] == str(tmp_path / "a.jsonl")
    task = tasks.find(found["task"])
    for _, scenario in task.examples():
        assert all(task.verify("".join(trace), scenario) == 1 for trace in scenario.metadata["traces"])
    assert searched(tmp_path / "b.jsonl") == 0
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()
    assert "hocket train --recipe tree-opo" in capsys.readouterr().out
    given = ["--evaluation.n", "2", "--steps", "1", "--run", "r", "--quiet"]
    assert main(["train", "--recipe", "tree-opo", "--task", found["task"], *given]) == 0
    last = (tmp_path / "runs" / "r" / "metrics.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["rollout/prefixes"] > 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--out", "a.txt"], "call it a.jsonl"),
        (["--task", "maze"], "is played by a workflow of its own"),
        (["--n", "0"], "--n: '0' is not a whole number of at least 1"),
        (["--until", ""], "until = '' holds an empty text"),
        (["--model", "http://x/v1"], "name the server"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(flags, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["traces", "--task", "sums", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_there_stays(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("mine")
    assert searched(tmp_path / "a.jsonl") == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "a.jsonl").read_text() == "mine"


def test_a_teacher_who_finds_nothing_leaves_no_file(tmp_path, capsys):
    (tmp_path / "silent.py").write_text("def silent(messages, number):\n    return 'no idea'\n")
    out = tmp_path / "a.jsonl"
    given = ["traces", "--model", f"{tmp_path}/silent.py:silent", "--n", "2", "--searches", "1", "--out", str(out)]
    assert main(given) == 1
    assert "found no right answer to any of 2 scenarios" in capsys.readouterr().err
    assert not out.exists()


def test_a_row_keeps_what_a_scenario_tells_but_not_what_makes_it_another_form():
    told = {"tests": ["1"], "chosen": "x", "label": True, "made": object(), "none": None}
    row = row_of(Scenario("q", "?", {"not": "an answer"}, told), [("a ", "b"), ("c",)])
    assert row == {"prompt": "?", "traces": [("a ", "b"), ("c",)], "demonstration": "c", "tests": ["1"]}
    assert row_of(Scenario("q", "?", 3), [("c",)])["answer"] == 3
