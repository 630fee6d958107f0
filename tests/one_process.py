"""Overlapped runs whose second process is this one: its code is run here, and messages are pickled as on their way."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator
from typing import Any

from hocket.train import overlap
from hocket.train.sampler import SamplerProcess
from hocket.train.sampler_worker import LocalWorker


class Inside(SamplerProcess):
    """Answers every message at once, after `delay` seconds."""

    delay = 0.0

    def start(self) -> None:
        if not hasattr(self, "worker"):
            self.worker, self.answers = LocalWorker(), list[bytes]()
            self._send(self._setup())

    def _send(self, message: Any) -> None:
        answer = self.worker.answer(pickle.loads(pickle.dumps(message)))
        self.answers.append(pickle.dumps(answer))

    def _receive(self) -> Any:
        time.sleep(self.delay)
        return pickle.loads(self.answers.pop())

    def close(self) -> None:
        pass


@contextlib.contextmanager
def one_process() -> Iterator[None]:
    """Inside, overlapped runs start no process."""
    real = overlap.SamplerProcess
    overlap.SamplerProcess = Inside  # type: ignore[misc]
    try:
        yield
    finally:
        overlap.SamplerProcess = real  # type: ignore[misc]
