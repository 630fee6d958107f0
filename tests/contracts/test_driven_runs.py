"""Runs from Python: progress, callbacks, Ctrl-C and resuming."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_runs import rows, weights

import hocket
from hocket.apps.live.driver import in_notebook
from hocket.train.aio import run_async

SETTINGS: dict[str, Any] = {
    "rollout.samples": 2,
    "curriculum.prompts": 2,
    "evaluation.n": 2,
    "decoding.max_tokens": 4,
    "threads": 1,
    "steps": 2,
}
ROWS = [{"prompt": f"Say {number}.", "answer": str(number)} for number in range(8)]


def spread(completions: list[str], **columns: Any) -> list[float]:
    return [float(sum(map(ord, text)) % 7) for text in completions]


def trained(folder: Path, task: Any = "sums", **more: Any) -> Any:
    return hocket.train(task, reward=spread, runs=str(folder), **{**SETTINGS, "progress": False, **more})  # type: ignore[operator]


class Notes:
    """An observer that fails for the methods that it is named for."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.calls = fails, list[str]()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> None:
            self.calls.append(name)
            if name == self.fails:
                raise ValueError("no room")

        return call


# ---------------------------------------------------------------- progress


def test_progress_goes_to_stderr_as_lines_and_can_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path, progress=True, precision="fp32")
    out, err = capsys.readouterr()
    assert out == ""
    assert f"training nano on sums with grpo, seed 0, 1 thread (set by threads), fp32 → {run.path}" in err
    assert "! only 2 unseen problems to measure on" in err
    assert "2/2" in err
    assert "hocket.train(resume=" in "".join(err.split())
    trained(tmp_path)
    assert capsys.readouterr() == ("", "")


class Handle:
    """What IPython's `display` gives: an output that can be updated."""

    def __init__(self) -> None:
        self.pages: list[dict[str, str]] = []

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.pages.append(data)


def test_a_notebook_shows_one_output_whose_curves_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[Handle] = []

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        handles.append(Handle())
        handles[-1].update(data, raw=raw)
        return handles[-1]

    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    monkeypatch.setattr("hocket.apps.live.notebook.PAUSE", 0.0)
    run = trained(tmp_path, progress=True)
    (output,) = handles
    pages = [page["text/html"] for page in output.pages]
    assert "evaluation before training" in pages[0]
    assert any("step 1 of 2" in page for page in pages)
    # Accuracy and reward at least, as pictures of their own; the reward has moved between the steps.
    pictures = [page.count("<img src=") for page in pages]
    assert pictures[0] == 0
    assert pictures[-1] >= 2
    assert len(set(pages)) >= 4
    assert "only 2 unseen problems" in pages[-1]
    assert f"hocket.train(resume=&#x27;{run.path}&#x27;, steps=4, reward=...)" in pages[-1]
    assert output.pages[-1]["text/plain"].endswith("step 2 of 2")
    shell.kernel = None
    assert not in_notebook()


def test_a_run_shows_what_came_of_it(tmp_path: Path) -> None:
    run = trained(tmp_path, run="mine")
    accuracy = f"{100 * run.summary['after']['accuracy']:.1f} %"
    assert repr(run).startswith(f"Run('{tmp_path / 'mine'}': grpo on sums, 2 steps, accuracy ")
    assert f"→ {accuracy}, finished" in repr(run)
    assert "<td" in run._repr_html_()
    assert accuracy in run._repr_html_()
    result = run.evaluate(2)
    assert repr(result).startswith(f"EvaluationResult(accuracy {100 * result.success:.1f} %, 95 % interval ")
    assert repr(result).endswith(", n = 2)")


# ---------------------------------------------------------------- callbacks


def test_a_callback_is_called_with_every_step_and_its_metrics(tmp_path: Path) -> None:
    calls: list[tuple[int, float | None]] = []
    notes = Notes()
    run = trained(tmp_path, on_step=lambda step, row: calls.append((step, row.get("reward/mean"))), observer=notes)
    assert calls == [(row["step"], row.get("reward/mean")) for row in run.metrics]
    assert [step for step, _ in calls] == [0, 1, 2]
    assert [call for call in notes.calls if call != "said"] == ["started", "stepped", "stepped", "stepped"]


def test_a_callback_stops_a_run_which_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    run = trained(tmp_path, run="apart", steps=3, on_step=lambda step, row: step < 1)
    assert (run.summary["reason"], run.summary["steps"]) == ("stopped", 1)
    again = hocket.train(resume="apart", runs=str(tmp_path), reward=spread, progress=False)  # type: ignore[operator]
    assert (again.path, again.summary["reason"]) == (run.path, "finished")
    whole = trained(tmp_path, run="whole", steps=3)
    assert rows(again.path) == rows(whole.path)
    assert weights(again.path) == weights(whole.path)


def test_a_callback_that_fails_ends_the_run_in_order(tmp_path: Path) -> None:
    with pytest.raises(hocket.HocketError, match=r"on_step failed after step 1 \(ZeroDivisionError: ") as failure:
        trained(tmp_path, run="mine", on_step=lambda step, row: 1 / (step - 1))
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    assert f"is saved after step 1, continue with hocket.train(resume='{tmp_path / 'mine'}', reward=...)" in str(
        failure.value
    )
    again = hocket.train(resume="mine", runs=str(tmp_path), reward=spread, progress=False)  # type: ignore[operator]
    assert again.summary["reason"] == "finished"


@pytest.mark.parametrize("method", ["started", "stepped", "said"])
def test_an_observer_that_fails_is_named_with_its_method(method: str, tmp_path: Path) -> None:
    notes = Notes(method)
    with pytest.raises(hocket.HocketError, match=rf"observer.{method} failed .* \(ValueError: no room\)"):
        trained(tmp_path, steps=1, observer=notes)
    assert notes.calls.count(method) == 1


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_ends_a_run_in_order_and_says_how_to_continue(tmp_path: Path) -> None:
    def interrupt(step: int, row: Any) -> None:
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=r"saved after step 1, continue with hocket.train\(\.\.\., resume="):
        trained(tmp_path, ROWS, run="mine", steps=3, on_step=interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = hocket.train(ROWS, resume="mine", runs=str(tmp_path), reward=spread, progress=False)  # type: ignore[operator]
    whole = trained(tmp_path, ROWS, run="whole", steps=3)
    assert rows(again.path) == rows(whole.path)


def test_a_program_keeps_its_answer_to_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
    try:
        run = trained(tmp_path, on_step=lambda step, row: os.kill(os.getpid(), signal.SIGINT) if step == 1 else None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert signals == [signal.SIGINT]
    assert run.summary["reason"] == "finished"


def test_a_second_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    def twice(completions: list[str], **columns: Any) -> list[float]:
        if threading.current_thread() is not threading.main_thread() and not again:
            again.append(True)
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return spread(completions)

    again: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        hocket.train("sums", reward=twice, runs=str(tmp_path), run="mine", progress=False, **SETTINGS)  # type: ignore[operator]
    run = hocket.train(resume="mine", runs=str(tmp_path), reward=twice, progress=False)  # type: ignore[operator]
    assert run.summary["reason"] == "finished"


def test_ctrl_c_cancels_work_inside_a_running_loop() -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def cell() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # In place of that of asyncio.run.
        with pytest.raises(KeyboardInterrupt):
            run_async(work())

    asyncio.run(cell())
    assert cancelled == [True]


def test_a_server_trains_in_a_thread_while_its_loop_goes_on(tmp_path: Path) -> None:
    async def served() -> tuple[Any, int]:
        training = asyncio.create_task(asyncio.to_thread(trained, tmp_path))
        beats = 0
        while not training.done():
            await asyncio.sleep(0.01)
            beats += 1
        return training.result(), beats

    run, beats = asyncio.run(served())
    assert run.summary["reason"] == "finished"
    assert beats > 5


# ---------------------------------------------------------------- resuming, configurations


def test_a_resumed_run_takes_steps_and_no_other_setting(tmp_path: Path) -> None:
    run = trained(tmp_path, run="mine")
    for changes, name in (({"seed": 1}, "seed"), ({"recipe": "ppo"}, "recipe"), ({"task": "sums"}, "task")):
        with pytest.raises(hocket.ConfigurationError, match=f"keeps its settings: {name} cannot change"):
            hocket.train(resume=run.path, reward=spread, **changes)  # type: ignore[operator]
    with pytest.raises(hocket.ConfigurationError, match=r"go on in Python: hocket.train\(resume=RUN, reward=..."):
        hocket.train(resume=run.path)  # type: ignore[operator]
    longer = hocket.train(resume=run.path, reward=spread, steps=3, progress=False)  # type: ignore[operator]
    assert [row["step"] for row in longer.metrics] == [0, 1, 2, 3]


def test_a_configuration_trains_as_its_arguments_do(tmp_path: Path) -> None:
    named = {**SETTINGS, "runs": str(tmp_path), "seed": 3}
    config = hocket.configure("sums", **named)
    file = tmp_path / "config.yaml"
    file.write_text(config.to_yaml())
    assert hocket.configure(file) == config
    runs = [
        hocket.train("sums", run="named", lessons=0, progress=False, **named),  # type: ignore[operator]
        hocket.train(config, run="value", progress=False),  # type: ignore[operator]
        hocket.train(str(file), run="file", progress=False),  # type: ignore[operator]
    ]
    assert rows(runs[0].path) == rows(runs[1].path) == rows(runs[2].path)


def test_a_configuration_without_the_suggestions_of_its_task_says_so(tmp_path: Path) -> None:
    plain = hocket.Config(task="gym:CartPole-v1", recipe="ppo", steps=0, runs=str(tmp_path), evaluation={"n": 2})
    messages = (hocket.train(plain, progress=False).path / "messages.txt").read_text()  # type: ignore[operator]
    assert "task gym:CartPole-v1 suggests " in messages
    assert "update.lr = 0.003" in messages
    full = hocket.configure(
        "gym:CartPole-v1", recipe="ppo", steps=0, runs=str(tmp_path), **{"evaluation.n": 2, "threads": 1}
    )
    assert full.recipe.update.lr == 0.003
    assert not (hocket.train(full, progress=False).path / "messages.txt").exists()  # type: ignore[operator]


def test_a_stopped_phase_is_the_last_of_its_plan(tmp_path: Path) -> None:
    plan = [{"recipe": "grpo", "steps": 1, "name": "first", "seed": 1}, {"recipe": "dr-grpo", "steps": 1, "seed": 2}]
    settings = {name: value for name, value in SETTINGS.items() if name != "steps"}
    phases: list[str] = []

    class Phases:
        def started(self, trainer: Any) -> None:
            phases.append(trainer.config.method)

        def stepped(self, trainer: Any, row: Any) -> None: ...
        def said(self, message: str) -> None: ...

    quiet = {"progress": False, "observer": Phases()}
    kept = hocket.train(
        "sums", run="p", runs=str(tmp_path), plan=plan, on_step=lambda step, row: step < 1, **quiet, **settings
    )  # type: ignore[operator]
    assert phases == ["grpo"]
    assert [path.name for path in kept.phases] == ["1-first", "2-dr-grpo"]
    run = hocket.train(resume="p", runs=str(tmp_path), **quiet)  # type: ignore[operator]
    assert phases == ["grpo", "dr-grpo"]
    assert run.path.name == "2-dr-grpo"
    with pytest.raises(hocket.ConfigurationError, match=r"all phases of .* are finished; set steps"):
        hocket.train(resume="p", runs=str(tmp_path), **quiet)  # type: ignore[operator]
