"""Several processes that learn together: the same bits as one, and what is said when one is gone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import CONTROL, REWARDS, TEAM, TINY, TWICE, call, resume, rows, train, weights

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.core.errors import ConfigurationError, HocketError
from hocket.distributed.cluster.connection import ChildProcess
from hocket.tasks.sums import Sums
from hocket.train.config import configure
from hocket.train.trainer import Trainer

TOGETHER = ["--leaves", "4", "--cluster", "local"]

CASES: dict[str, tuple[list[str], list[str]]] = {
    "grpo": (TINY, ["--recipe", "grpo-kl", "--update.lr", "1e-3"]),
    "bf16": (TINY, ["--precision", "bf16"]),
    "gvpo": (TINY, ["--recipe", "gvpo"]),
    "dapo": (TINY, ["--recipe", "dapo"]),
    "ppo": (TINY, ["--recipe", "ppo", *TWICE]),
    "lora": (TINY, ["--lora.rank", "2", "--update.lr", "1e-3"]),
    "team": (TINY, TEAM),
    "cartpole": (CONTROL, ["--recipe", "ppo", *TWICE]),
    "dpo": ([*TINY[:4], "--threads", "1"], ["--recipe", "dpo"]),
}
QUICK = ("grpo",)


def flags(name: str, file: Path) -> tuple[list[str], list[str]]:
    tiny, more = CASES[name]
    file.write_text(REWARDS)
    return tiny, [*more, *([] if name in ("cartpole", "dpo") else ["--reward", f"{file}:spread"])]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES])
def test_two_learners_learn_what_one_learns(name: str, tmp_path: Path) -> None:
    tiny, more = flags(name, tmp_path / "mine.py")
    train(tmp_path, "one", *more, "--leaves", "4", steps=3, tiny=tiny)
    train(tmp_path, "two", *more, *TOGETHER, "--learners", "2", steps=3, tiny=tiny)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    learnt = [value for row in rows(tmp_path / "one") for key, value in row.items() if key.endswith("gradient/norm")]
    assert any(learnt), "a run without gradients would prove nothing"


@pytest.mark.slow
def test_four_learners_go_on_from_a_run_of_two_in_the_second_phase(tmp_path: Path) -> None:
    _, more = flags("grpo", tmp_path / "mine.py")
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: grpo, steps: 2}, {recipe: ppo, steps: 3}]")
    more = [str(plan), *more[2:], *TWICE, "--checkpoint.steps", "1"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=5)
    trainer = made(tmp_path, "parts", *more[1:], *TOGETHER, "--learners", "2", plan=plan)
    while trainer.progress.step < 3:
        trainer.step()
    trainer.finish("interrupted")
    file = tmp_path / "parts" / "config.yaml"
    file.write_text(file.read_text().replace("learners: 2", "learners: 4"))
    resume(tmp_path, "parts")
    assert weights(tmp_path / "one") == weights(tmp_path / "parts")
    assert rows(tmp_path / "one") == rows(tmp_path / "parts")


def made(runs: Path, name: str, *more: str, plan: Path | None = None) -> Trainer:
    from hocket.train.config import read_pairs

    pairs: list[tuple[str, Any]] = list(read_pairs(plan)) if plan else []
    pairs += split_settings([*TINY, *more, "--steps", "3", "--runs", str(runs), "--run", name], set())[1]
    pairs = [(key, (value,) if key == "reward" else value) for key, value in pairs]
    task = tasks.find("sums")
    return Trainer(configure(pairs, task), task=task)


def struck(trainer: Trainer) -> None:
    """Kills the last learner."""
    assert trainer.groups.here is not None
    line = trainer.groups.here.lines[-1]
    assert isinstance(line, ChildProcess)
    line.process.kill()
    line.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("learners", ["2", "4"])
def test_a_run_goes_on_without_a_learner_that_was_killed(learners: str, tmp_path: Path) -> None:
    """From its checkpoint, with another process in the place of the lost one, to the same end."""
    _, more = flags("grpo", tmp_path / "mine.py")
    trainer = made(tmp_path, "parts", *more, *TOGETHER, "--learners", learners, "--checkpoint.steps", "1")
    trainer.step()
    trainer.step()
    struck(trainer)
    trainer.run()
    said = (tmp_path / "parts" / "messages.txt").read_text()
    assert re.search(r"learner \d ended by SIGKILL.*; the run continues from step 1 with new processes", said), said
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    assert weights(tmp_path / "one") == weights(tmp_path / "parts")
    assert rows(tmp_path / "one") == rows(tmp_path / "parts")


@pytest.mark.slow
def test_a_run_whose_learners_end_again_and_again_stops_and_can_be_resumed(tmp_path: Path) -> None:
    _, more = flags("grpo", tmp_path / "mine.py")
    trainer = made(tmp_path, "parts", *more, *TOGETHER, "--learners", "2", "--checkpoint.steps", "1")
    trainer.step()
    trainer.step()
    begin = trainer._begin

    def begun(*given: Any, **keywords: Any) -> None:
        begin(*given, **keywords)
        struck(trainer)

    trainer._begin = begun  # type: ignore[method-assign]
    struck(trainer)
    with pytest.raises(HocketError, match=r"learner 1 ended by SIGKILL.*--resume"):
        trainer.step()
    assert not trainer.groups.here.lines  # type: ignore[union-attr]
    trainer.folder.release()
    resume(tmp_path, "parts")
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    assert weights(tmp_path / "one") == weights(tmp_path / "parts")


def test_a_learner_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    _, more = flags("grpo", tmp_path / "mine.py")
    trainer = made(tmp_path, "parts", *more, *TOGETHER, "--learners", "2")
    trainer.step()
    assert trainer.groups.here is not None
    tell = trainer.groups.here._tell
    trainer.groups.here._tell = lambda message: tell(replace(message, batch=None))  # type: ignore
    with pytest.raises(HocketError, match=r"learner 1 failed: AttributeError"):
        trainer.step()
    assert not trainer.groups.here.lines


def test_a_task_that_only_this_process_knows_is_refused_by_the_others(tmp_path: Path) -> None:
    task = Sums()
    task.name = "mine"
    pairs = [*split_settings([*TINY, *TOGETHER, "--learners", "2"], set())[1], ("runs", str(tmp_path)), ("run", "run")]
    with pytest.raises(ConfigurationError, match=r"learner 1 failed.*no task 'mine'"):
        Trainer(configure([*pairs, ("steps", 1)], task), task=task)
    assert not (tmp_path / "run").exists()


REFUSED = {
    "no cluster": (["--learners", "2", "--leaves", "4"], "--cluster local"),
    "too few leaves": (["--learners", "2", "--cluster", "local"], "leaves = 1.*--leaves 4"),
    "three learners": (["--learners", "3", *TOGETHER], "leaves = 4.*learners = 3"),
    "three leaves": (["--leaves", "3"], "leaves must be a power of two"),
    "no learners": (["--learners", "0"], "learners must be at least 1"),
    "another cluster": (["--cluster", "remote"], "cluster.*'remote'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("train", *TINY, *more, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 2
    assert re.search(words, " ".join(said.err.split())), said.err
    assert not (tmp_path / "run").exists()
