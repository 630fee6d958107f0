"""Worker processes that stay: each does one job at a time on one thread, and is replaced when it dies."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hocket.apps.studies.folder import write_result

Job = Mapping[str, Any]
Done = Callable[[Job, str | None], None]
"""Is told of a finished job, and its error if it failed."""

TRIES = 2
"""How many workers may die of a job before it counts as failed."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Workers(Protocol):
    """Who does the jobs of a study."""

    @property
    def size(self) -> int:
        """How many jobs are done at a time."""
        ...

    def do(self, jobs: Sequence[Job], done: Done) -> None:
        """Does all jobs, in about their order; each leaves its result in its own file."""
        ...

    def close(self) -> None:
        """Ends the workers; a job at hand is lost."""
        ...


class WorkerPool:
    """`size` workers, started when first needed.

    Workers are in sessions of their own: Ctrl-C reaches the study alone, which then decides what becomes of them.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[_Worker] = []
        self._busy: dict[int, tuple[_Worker, Job]] = {}

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]]

    def do(self, jobs: Sequence[Job], done: Done) -> None:
        """Does all jobs, in about their order; each leaves its result in its own file."""
        waiting = deque(jobs)
        deaths: dict[str, int] = {}
        with selectors.DefaultSelector() as selector:
            while waiting or self._busy:
                while waiting and len(self._busy) < self.size:
                    worker = self._idle.pop() if self._idle else _Worker()
                    job = waiting.popleft()
                    self._busy[worker.output] = (worker, job)
                    selector.register(worker.output, selectors.EVENT_READ)
                    worker.give(job)
                for ready, _ in selector.select():
                    worker, job = self._busy[ready.fd]
                    answers = worker.answers()
                    if answers is None:
                        selector.unregister(ready.fd)
                        del self._busy[ready.fd]
                        self._died(worker, job, waiting, deaths, done)
                    elif answers:
                        selector.unregister(ready.fd)
                        del self._busy[ready.fd]
                        self._idle.append(worker)
                        done(job, answers[0]["error"])

    def _died(self, worker: _Worker, job: Job, waiting: deque[Job], deaths: dict[str, int], done: Done) -> None:
        code = worker.process.wait()
        deaths[job["file"]] = deaths.get(job["file"], 0) + 1
        if deaths[job["file"]] < TRIES:
            waiting.appendleft(job)
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        error = f"its worker process died {TRIES} times ({how}); is there enough memory?"
        write_result(Path(job["file"]), {"error": error})
        done(job, error)

    def close(self) -> None:
        """Ends the workers; a job at hand is lost."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.end()
        self._idle, self._busy = [], {}


class _Worker:
    """One process and its pipes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hocket.apps.studies.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input = self.process.stdin
        self._pipe = self.process.stdout
        self.output = self._pipe.fileno()
        self._read = b""

    def give(self, job: Job) -> None:
        try:
            self._input.write(json.dumps(job).encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            return  # It has died: reading from it will tell.

    def answers(self) -> list[dict[str, Any]] | None:
        """The whole lines that have come; None when it has died. Called when there is something to read."""
        data = os.read(self.output, 1 << 16)
        if not data:
            return None
        *lines, self._read = (self._read + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        for pipe in (self._input, self._pipe):
            try:
                pipe.close()
            except BrokenPipeError:
                continue
