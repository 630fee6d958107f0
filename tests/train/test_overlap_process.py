"""Overlapped runs with a real second process: one that dies, is killed, is interrupted, and is never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from one_process import one_process
from tiny_runs import REWARDS, TINY, assert_same, call, in_child, last_checkpoint, resume, rows, train, weights

from hocket import tasks
from hocket.apps.cli.parser import main, split_settings
from hocket.core.errors import HocketError
from hocket.train.config import configure
from hocket.train.trainer import Trainer

STEPS = 6


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = tmp_path_factory.mktemp("rewards") / "mine.py"
    file.write_text(REWARDS)
    return ["--overlap", "1", "--checkpoint.steps", "2", "--update.lr", "1e-3", "--reward", f"{file}:spread"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, settings: list[str]) -> Path:
    runs = tmp_path_factory.mktemp("whole")
    with one_process():
        train(runs, "whole", *settings, steps=STEPS)
    return runs / "whole"


def samplers(parent: int) -> list[int]:
    """The processes that a process started and that still run."""
    try:
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [int(word) for word in found if "sampler_worker" in command_of(int(word))]


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(processes: list[int]) -> bool:
    """Whether all of them have ended, waiting some seconds for it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not any(command_of(process) for process in processes):
            return True
        time.sleep(0.02)
    return False


def lines(run: Path) -> int:
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def child(runs: Path, settings: list[str]) -> Callable[[], int]:
    words = [*TINY, "--steps", str(STEPS), *settings, "--quiet", "--runs", str(runs), "--run", "parts"]
    return lambda: main(["train", *words])


class Witness:
    """Says when a moment has come, and remembers the second processes that were there."""

    def __init__(self, moment: Callable[[], bool]) -> None:
        self.moment, self.seen = moment, list[int]()

    def __call__(self) -> bool:
        mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        self.seen += [pid for word in mine for pid in samplers(int(word)) if pid not in self.seen]
        return self.moment()


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "while step 2 is under way": lambda run: lines(run) >= 2,
    "while a checkpoint is written": lambda run: any((run / "checkpoints").glob(".step-*")),
    "after the second checkpoint": lambda run: lines(run) >= 6,
}
FIRST = "while step 2 is under way"


@pytest.mark.parametrize("moment", [FIRST, *(pytest.param(m, marks=pytest.mark.slow) for m in MOMENTS if m != FIRST)])
def test_a_killed_run_loses_nothing_and_leaves_nothing(
    moment: str, tmp_path: Path, settings: list[str], whole: Path
) -> None:
    run = tmp_path / "parts"
    witness = Witness(lambda: MOMENTS[moment](run))
    assert in_child(child(tmp_path, settings), until=witness) == -signal.SIGKILL
    assert witness.seen
    assert gone(witness.seen), "the second process ends with the first"
    with one_process():
        resume(tmp_path, "parts")
    assert_same(whole, run)


@pytest.mark.slow
def test_ctrl_c_ends_the_step_and_writes_a_checkpoint(tmp_path: Path, settings: list[str], whole: Path) -> None:
    run = tmp_path / "parts"
    witness = Witness(lambda: lines(run) >= 4)
    assert in_child(child(tmp_path, settings), until=witness, send=signal.SIGINT) == 130
    assert gone(witness.seen)
    done = lines(run) - 1
    assert done < STEPS
    assert last_checkpoint(run).name == f"step-{done:06d}"
    with one_process():
        resume(tmp_path, "parts")
    assert_same(whole, run)


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_reaches_the_second_process_too_and_changes_nothing(
    tmp_path: Path, settings: list[str], whole: Path
) -> None:
    trainer = opened(tmp_path, settings)
    for _ in range(3):
        trainer.step()
    assert trainer.overlap is not None
    process = trainer.overlap.process.process_id
    assert process is not None
    assert os.getpgid(process) != os.getpgid(0), "not in the group that a terminal interrupts"
    os.kill(process, signal.SIGINT)
    trainer.run()
    assert not samplers(os.getpid()), "a finished run leaves no process behind"
    assert_same(whole, tmp_path / "parts")


def opened(runs: Path, settings: list[str]) -> Trainer:
    words = [*TINY, "--steps", str(STEPS), *settings, "--runs", str(runs), "--run", "parts"]
    pairs = [(key, (value,) if key == "reward" else value) for key, value in split_settings(words, set())[1]]
    task = tasks.find("sums")
    return Trainer(configure(pairs, task), task=task)


def test_a_second_process_that_dies_is_a_sentence_and_costs_nothing(
    tmp_path: Path, settings: list[str], whole: Path
) -> None:
    trainer = opened(tmp_path, settings)
    for _ in range(4):
        trainer.step()
    assert trainer.overlap is not None
    process = trainer.overlap.process.process_id
    assert process is not None
    os.kill(process, signal.SIGKILL)
    with pytest.raises(HocketError, match=r"sampling process ended by SIGKILL, as when memory runs out; .*--resume"):
        trainer.step()
    trainer.folder.release()
    assert rows(tmp_path / "parts") == rows(whole)[:4]
    with one_process():
        resume(tmp_path, "parts")
    assert_same(whole, tmp_path / "parts")


@pytest.mark.slow
def test_a_model_that_cannot_be_read_any_more_is_a_sentence(tmp_path: Path, settings: list[str]) -> None:
    from hocket.nano import BASE

    model = tmp_path / "model"
    model.mkdir()
    for file in BASE.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    trainer = opened(tmp_path, [*settings, "--model", str(model)])
    assert trainer.overlap is not None
    trainer.overlap.close()
    (model / "model.safetensors").unlink()
    trainer.step()
    with pytest.raises(HocketError, match="model"):
        trainer.step()
    trainer.finish("failed")


SCRIPT = """
import hocket

run = hocket.train(
    "sums", steps=3, overlap=1, threads=1, runs={runs!r}, run="script", reward=lambda completions, **columns: [
        float(len(text) % 3) for text in completions
    ], **{{"evaluation.n": 4, "evaluation.between": 4, "rollout.samples": 4, "curriculum.prompts": 2}}
)
print("stale", [row["agreement/stale"] for row in run.metrics[1:]])
print(run.evaluate(4).n)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_and_with_a_lambda_as_reward_runs_once(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(runs=str(tmp_path)))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["stale [0.0, 1.0, 1.0]", "4"]


def environment() -> dict[str, str]:
    import hocket

    return {**os.environ, "PYTHONPATH": str(Path(hocket.__file__).parent.parent)}


@pytest.mark.slow
def test_json_stays_one_document(tmp_path: Path, settings: list[str], whole: Path) -> None:
    words = [*TINY, "--steps", str(STEPS), *settings, "--runs", str(tmp_path), "--run", "parts", "--quiet", "--json"]
    command = [sys.executable, "-m", "hocket", "train", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.lstrip().startswith("{")
    assert done.stdout.rstrip().endswith("}")
    assert done.stderr == ""
    assert weights(tmp_path / "parts") == weights(whole), "another process, the same numbers"


def test_nothing_is_started_for_a_run_that_is_done(tmp_path: Path, settings: list[str]) -> None:
    said = call("train", *TINY, "--steps", "0", *settings, "--runs", tmp_path, "--run", "none", "--quiet")
    assert said.code == 0, said.err
    assert not samplers(os.getpid())
