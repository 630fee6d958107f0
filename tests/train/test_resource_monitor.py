"""A run whose threads wait for busy cores takes fewer, writes down when, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_runs import TINY

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.train import resource_monitor
from hocket.train.config import configure
from hocket.train.machine import Machine, MachineChange
from hocket.train.resource_monitor import PATIENCE, ResourceMonitor
from hocket.train.trainer import Trainer, resumed


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch):
    """Sets for how much of each step a thread seems to wait; two threads are in use."""
    share = {"now": 0.0}
    threads = {"now": 2}
    monkeypatch.setattr(resource_monitor, "CoreWatch", lambda: SimpleNamespace(waited=lambda: share["now"]))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads["now"])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: threads.update(now=count))
    return share


def steps(watched: ResourceMonitor, machine: Machine, first: int, count: int) -> list[MachineChange]:
    found = []
    for step in range(first, first + count):
        watched.begin(machine, (), step)
        found += watched.changes((), step)
    return found


def test_busy_cores_take_threads_away(waited: dict[str, float]) -> None:
    watched, machine = ResourceMonitor(pinned=False), Machine(8)
    assert steps(watched, machine, 1, 10) == []
    waited["now"] = 0.3
    assert steps(watched, machine, 11, PATIENCE - 1) == []
    waited["now"] = 0.05  # A quiet step begins the count anew.
    assert steps(watched, machine, 13, 1) == []
    waited["now"] = 0.3
    (change,) = steps(watched, machine, 14, PATIENCE)
    assert (change.step, change.threads) == (14 + PATIENCE, 4)
    assert "30%" in change.why
    machine = machine.changed(change)
    (change,) = steps(watched, machine, change.step, PATIENCE)
    assert change.threads == 2
    assert resource_monitor.in_words(change).endswith(f"from step {change.step} on with 2 threads")
    assert watched.advice() is None


def test_one_thread_waits_for_no_other(waited: dict[str, float]) -> None:
    waited["now"] = 0.9
    assert steps(ResourceMonitor(pinned=False), Machine(1), 1, 20) == []


def test_a_number_that_was_asked_for_stays(waited: dict[str, float]) -> None:
    watched = ResourceMonitor(pinned=True)
    waited["now"] = 0.9
    assert steps(watched, Machine(2), 1, PATIENCE) == []
    assert "busy" in (watched.advice() or "")
    assert steps(watched, Machine(2), 9, PATIENCE) == []
    assert watched.advice() is None  # Once is enough.


@pytest.mark.slow
def test_a_run_changes_at_the_same_step_when_resumed(
    waited: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    words = [word for word in TINY if word not in ("--threads",)]
    words.remove("1")
    words += ["--runs", str(tmp_path), "--run", "busy", "--steps", "6", "--checkpoint.steps", "2"]
    monkeypatch.setattr(Machine, "chosen", staticmethod(lambda config, models: Machine(2, why={"threads": "a test"})))
    trainer = Trainer(configure(split_settings(words, set())[1], tasks.find("sums")))
    seen = []
    waited["now"] = 0.5
    for _ in range(6):
        trainer.step()
        seen.append(torch.get_num_threads())
    trainer.folder.release()
    assert seen == [2, 2, 2, 2, 1, 1]  # Step 0 is the evaluation; the third busy step is step 3.
    changes = json.loads((tmp_path / "busy" / "machine.json").read_text())["changes"]
    assert [(change["step"], change["threads"]) for change in changes] == [(4, 1)]
    assert "from step 4 on with 1 thread" in (tmp_path / "busy" / "messages.txt").read_text()
    waited["now"] = 0.0
    again = resumed(tmp_path / "busy")
    assert again.progress.step == 4
    again.step()
    assert torch.get_num_threads() == 1
    again.folder.release()
