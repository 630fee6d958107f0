"""A third kind of decider, from a user's file, is trained, resumed, measured and reported like the other two."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_runs import assert_same, call, resume, rows, summary, train

from hocket.core.errors import ConfigurationError
from hocket.train.config import configure
from hocket.train.kinds import kind_of
from hocket.train.kinds.control import CONTROL
from hocket.train.kinds.kind import ACCURACY, RETURN
from hocket.train.kinds.text import TEXT
from hocket.train.trainer import Trainer

POINTS = Path(__file__).with_name("points.py")
SMALL = ["--evaluation.n", "32", "--evaluation.between", "16", "--evaluation.every", "10", "--threads", "1"]


def test_it_learns_and_leaves_what_every_run_does(tmp_path: Path) -> None:
    train(tmp_path, "whole", "--task", f"{POINTS}:Points", steps=30, tiny=SMALL)
    run = tmp_path / "whole"
    summed = summary(run)
    assert summed["measure"] == "return"
    assert summed["model"] == "a small network"
    assert summed["before"]["return"] < 0.4
    assert summed["after"]["low"] > 0.8
    assert "points" in (run / "report.html").read_text()
    said = call("eval", run, "--n", "32", "--json")
    assert said.code == 0, said.err
    assert said.json["rows"][0][:2] == ["greedy return", pytest.approx(summed["after"]["return"])]
    assert rows(run)[30]["kl/behaviour"] < 1e-6


def test_it_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    words = ["--task", f"{POINTS}:ByName", "--recipe", "grpo-kl", "--checkpoint.steps", "2"]
    train(tmp_path, "whole", *words, steps=6, tiny=SMALL)
    pairs = {"task": f"{POINTS}:ByName", "recipe": "grpo-kl", "checkpoint.steps": 2, "threads": 1, "steps": 6}
    pairs |= {"evaluation.n": 32, "evaluation.between": 16, "evaluation.every": 10}
    trainer = trainer_of({**pairs, "runs": str(tmp_path), "run": "parts"})
    while trainer.progress.step < 3:
        trainer.step()
    trainer.folder.release()
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def trainer_of(settings: dict[str, Any]) -> Trainer:
    from hocket.tasks import find

    task = find(settings["task"])
    return Trainer(configure(list(settings.items()), task), task=task)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--lora.rank", "2"], "are for language models; task points is diffusion"),
        (["--roles.solver.frozen", "true"], "roles.solver: task points is diffusion, where one policy plays alone"),
        (["--recipe", "cpmobius"], "task points is diffusion, and only problems in words can be invented"),
    ],
)
def test_what_is_for_language_models_is_refused(words: list[str], sentence: str, tmp_path: Path) -> None:
    said = call("train", "--task", f"{POINTS}:Points", *SMALL, "--runs", tmp_path, "--steps", "1", *words)
    assert said.code == 2
    assert sentence in " ".join(said.err.split())


def test_pass_at_k_and_talk_are_refused(tmp_path: Path) -> None:
    train(tmp_path, "run", "--task", f"{POINTS}:Points", steps=1, tiny=SMALL)
    said = call("eval", tmp_path / "run", "--n", "4", "--samples", "4")
    assert said.code == 2
    assert "drop it for diffusion tasks" in " ".join(said.err.split())
    said = call("play", tmp_path / "run")
    assert said.code == 2
    assert "which is diffusion; only language models can talk" in " ".join(said.err.split())


def test_a_task_names_its_kind() -> None:
    assert kind_of(task("text")) is TEXT
    assert kind_of(task("control")) is CONTROL
    assert kind_of(task(TEXT)) is TEXT
    assert kind_of(task("hocket.train.kinds:CONTROL")) is CONTROL
    assert kind_of(task(f"{POINTS}:DIFFUSION")).name == "diffusion"
    assert (TEXT.measure, CONTROL.measure) == (ACCURACY, RETURN)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("texts", "kind = 'texts'; did you mean 'text'"),
        ("no.such.module:KIND", "cannot be loaded"),
        (f"{POINTS}:Points", "is no hocket.train.kinds.Kind"),
        (3, "is no hocket.train.kinds.Kind"),
    ],
)
def test_anything_else_is_refused(kind: object, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        kind_of(task(kind))


def task(kind: object) -> Any:
    return SimpleNamespace(name="mine", kind=kind)
