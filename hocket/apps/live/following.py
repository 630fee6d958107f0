"""Follows a run that another process trains: reads its folder again when something in it has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hocket.apps.report.chart import Chart
from hocket.apps.report.curves import curves
from hocket.apps.report.reading import RunRecord, read_run
from hocket.core.errors import HocketError
from hocket.train.pipeline import find_pipeline, plan_phases
from hocket.train.runfolder import find_run, is_training, run_named

BETWEEN = 60.0
"""Seconds in which the next phase of a plan must begin."""

RECENT = 20
"""Steps by which the speed is measured."""


class FollowedRun:
    """A run, or of a plan the phase that began last.

    Attributes:
        record: the run as last read. training: whether a process trains it. version: how often it has changed.

    Raises:
        ConfigurationError: when there is no such run.
    """

    record: RunRecord

    def __init__(self, name: str, runs: str) -> None:
        self._name, self._runs = name, runs
        self._path = find_run(name, runs)
        self._signature: object = None
        self._latest: tuple[object, list[dict[str, Any]]] = (None, [])
        self._charts: tuple[int, list[Chart]] = (0, [])
        self.training, self.version = False, 0
        self.poll()

    def poll(self) -> bool:
        """Reads the run again if a file of it has changed; whether one has.

        Raises:
            HocketError: when the run is gone.
        """
        path = run_named(self._name, self._runs)
        if path is None:
            raise HocketError(f"{self._path} is gone: it was moved or removed")
        training = is_training(path)
        names = ("metrics.jsonl", "messages.txt", "summary.json", "config.yaml", "rollouts")
        signature = (path, training, *(_changed(path / name) for name in names))
        if signature == self._signature:
            return False
        record = read_run(path, live=training)
        if training:
            record = replace(record, summary={**record.summary, "reason": "training"})
        self._path, self._signature, self.training, self.record = path, signature, training, record
        self.version += 1
        return True

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        plan = find_pipeline(self._name, self._runs)
        if self.training or plan is None:
            return not self.training
        last = self.record.path.name == str(plan_phases(plan)[-1]["name"])
        return last or time.time() - (_changed(self.record.path / "summary.json") or (0, 0))[0] / 1e9 > BETWEEN

    @property
    def state(self) -> str:
        """`training`, or how the run ended."""
        if self.training:
            return "training"
        reason = str(self.record.summary.get("reason") or "")
        return "stopped without a summary" if reason in ("", "unfinished") else reason

    @property
    def charts(self) -> list[Chart]:
        """The curves of the report."""
        if self._charts[0] != self.version:
            self._charts = (self.version, curves(self.record))
        return self._charts[1]

    def answers(self) -> list[dict[str, Any]]:
        """The episodes of the last step whose rollouts are recorded, read once."""
        steps = self.record.steps
        if not steps:
            return []
        key = (self.record.path, steps[-1], _changed(self.record.path / "rollouts"))
        if self._latest[0] != key:
            self._latest = (key, self.record.episodes(steps[-1]))
        return self._latest[1]


def steps_of(record: RunRecord) -> tuple[int, int | None]:
    """The last step of a run and how many it is to have, where its configuration has that."""
    steps = record.config.get("steps")
    return int(record.rows[-1]["step"]) if record.rows else 0, steps if isinstance(steps, int) else None


def seconds_per_step(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Over the latest steps, evaluations included; None before there are two."""
    timed = [row for row in rows if isinstance(row.get("time/total"), (int, float))][-RECENT - 1 :]
    if len(timed) < 2 or timed[-1]["step"] <= timed[0]["step"]:
        return None
    seconds = float(timed[-1]["time/total"]) - float(timed[0]["time/total"])
    return max(0.0, seconds) / int(timed[-1]["step"] - timed[0]["step"])


def seconds_since(record: RunRecord) -> float | None:
    """Since the last row of metrics was written; None before the first."""
    changed = _changed(record.path / "metrics.jsonl")
    return None if changed is None or not record.rows else max(0.0, time.time() - changed[0] / 1e9)


def _changed(path: Path) -> tuple[int, int] | None:
    """When a file changed last, in nanoseconds, and its size; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
