"""Workers of a study on a cluster: `hocket study --cluster auto`. Results come as messages and are stored here."""

from __future__ import annotations

import itertools
import json
import queue
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hocket.apps.studies.folder import write_result
from hocket.apps.studies.pool import TRIES, Done, Job
from hocket.apps.studies.worker import JOBS, tried
from hocket.distributed.cluster.connection import Connection, Host, PeerLost, serve
from hocket.train.disk import json_ready

Outcome = tuple[Job, dict[str, Any] | None, BaseException | None]
"""A job with its result, None where it was ended with the study, or what went wrong beyond the job."""


class RemoteWorkers:
    """`size` workers on a place, each with a thread that waits for it; they are started when first needed."""

    def __init__(self, place: Host, size: int) -> None:
        self.size = size
        self._place = place
        self._lines: dict[int, Connection] = {}
        self._names = itertools.count(1)
        self._waiting: deque[Job] = deque()
        self._deaths: Counter[str] = Counter()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._closed = False

    def do(self, jobs: Sequence[Job], done: Done) -> None:
        """Does all jobs, in about their order; each leaves its result in its own file.

        Raises:
            ConfigurationError: when a node computes with other versions than this process.
        """
        self._waiting.extend(jobs)
        for number in range(min(self.size, len(jobs))):
            threading.Thread(target=self._serve, args=(number,), name=f"hocket-study-{number}", daemon=True).start()
        for _ in jobs:
            job, outcome, error = self._outcomes.get()
            if error is not None:
                self.close()
                raise error
            assert outcome is not None
            write_result(Path(job["file"]), outcome)
            done(job, outcome.get("error"))

    def _serve(self, number: int) -> None:
        """Has one worker do what is waiting, until nothing is."""
        while not self._closed:
            try:
                job = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._outcomes.put((job, self._done(number, job), None))
            except PeerLost as gone:
                self._lines.pop(number).close()
                if self._closed:
                    return
                self._died(job, gone)
            except BaseException as error:
                self._outcomes.put((job, None, error))
                return

    def _done(self, number: int, job: Job) -> dict[str, Any]:
        if number not in self._lines:
            self._lines[number] = self._place.line(f"study worker {next(self._names)}", __name__)
        line = self._lines[number]
        line.send(json.dumps(job).encode())
        outcome: dict[str, Any] = json.loads(line.receive())
        return outcome

    def _died(self, job: Job, gone: PeerLost) -> None:
        """The job is done again by a new worker, unless workers die of it."""
        self._deaths[job["file"]] += 1
        if self._deaths[job["file"]] < TRIES:
            self._waiting.appendleft(job)
            return
        error = f"its worker process died {TRIES} times ({gone}); is there enough memory?"
        self._outcomes.put((job, {"error": error}, None))

    def close(self) -> None:
        """Ends the workers; what they are at is lost."""
        self._closed = True
        for line in list(self._lines.values()):
            line.close()


# ---------------------------------------------------------------- over there


def main(handle: int) -> None:
    """Serves the connection at a file descriptor until its other end is closed."""
    serve(handle, Worker().answered)


class Worker:
    """Does jobs one by one on one thread, in a folder of its own on the machine where it is."""

    def __init__(self) -> None:
        self._work = tempfile.TemporaryDirectory(prefix="hocket-study-")

    def answered(self, message: bytes) -> bytes:
        """The result of a job."""
        torch.set_num_threads(1)
        job = {**json.loads(message), "work": self._work.name}
        return json.dumps(json_ready(tried(JOBS[job["kind"]], job))).encode()
