"""A worker process of a study: jobs come as JSON lines, one thread does them, answers go back as JSON lines.

`python -m hocket.apps.studies.worker` is started by `hocket.apps.studies.pool`. It lives for many runs, so that imports
are paid once. It stores what it finds itself; when its study is gone it ends the job at hand and leaves.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from hocket.apps.studies.equal import Lens, relate
from hocket.apps.studies.folder import alone, read_result, write_result
from hocket.apps.studies.planning import StudyRun
from hocket.apps.studies.running import perform
from hocket.core.errors import HocketError

Job = Mapping[str, Any]


def main() -> None:
    """Answers jobs until there are no more."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What a library prints must not come between the answers.
    torch.set_num_threads(1)
    for line in sys.stdin:
        answer = json.dumps(do(json.loads(line)))
        try:
            print(answer, file=channel, flush=True)
        except BrokenPipeError:
            return


def do(job: Job) -> dict[str, Any]:
    """One job: makes the file `job["file"]` unless it is there, and tells whether that worked."""
    file = Path(job["file"])
    with alone(file.parent, file.stem):
        outcome = read_result(file)
        if outcome is None or "error" in outcome:
            outcome = tried(JOBS[job["kind"]], job)
            write_result(file, outcome)
    return {"file": job["file"], "error": outcome.get("error")}


def tried(work: Callable[[Job], dict[str, Any]], job: Job) -> dict[str, Any]:
    """What a job comes to, an error in words too."""
    try:
        return work(job)
    except HocketError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _run(job: Job) -> dict[str, Any]:
    run = StudyRun.from_json(job["run"])
    place = Path(job["work"]) / run.key
    return {"run": job["run"], **perform(run, place)}


def _relate(job: Job) -> dict[str, Any]:
    run, baseline = StudyRun.from_json(job["run"]), StudyRun.from_json(job["baseline"])
    if baseline.key not in LENSES:
        LENSES[baseline.key] = Lens.of(Path(job["work"]), baseline, int(job["batches"]))
    return relate(run, LENSES[baseline.key])


LENSES: dict[str, Lens] = {}
"""By the key of their baseline's run: batches are read once per process."""

JOBS: dict[str, Callable[[Job], dict[str, Any]]] = {"run": _run, "relate": _relate}


if __name__ == "__main__":
    main()
