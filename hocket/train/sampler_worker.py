"""The second process of an overlapped run: it holds copies of the policies and samples what it is asked for.

It never reads the task, rewards or workflow of the run, and ends as soon as the first process is gone.
"""

from __future__ import annotations

import asyncio
import os
import queue
import resource
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.core.ending import left_to_parent
from hocket.core.errors import HocketError
from hocket.train.aio import run_async

if TYPE_CHECKING:
    from hocket.engine.requests import Engine, Request, Sample
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.family import Precision
    from hocket.train.settings import Config
    from hocket.train.shared_weights import Layout, SharedWeights


@dataclass(frozen=True)
class SamplerSetup:
    """The first message to the second process.

    Attributes:
        config: of the run, without what only the first process needs. models: the model of each policy by name.
        precisions: what each policy's products are made in.
        layout: of the shared weights, which are at the descriptor `memory`.
    """

    config: Config
    models: Mapping[str, str | None]
    precisions: Mapping[str, Precision]
    layout: Layout
    memory: int


@dataclass(frozen=True)
class SharedLoad:
    """Take the weights that are in shared memory now; they have these versions. Answered by `peak()`.

    From now on `threads` torch threads compute.
    """

    versions: Mapping[str, int]
    threads: int


@dataclass(frozen=True)
class Draw:
    """Sample these requests together. Answered by one sample or error each."""

    policy: str
    requests: Sequence[Request]


def main(handle: int) -> None:
    """Serves the connection at a file descriptor until its other end is closed."""
    left_to_parent()
    connection = Connection(handle)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    worker = LocalWorker()
    while True:
        connection.send(worker.answer(inbox.get()))


def _listen(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    """Reads on while the worker works: the first process may be gone, and then nobody waits for an answer."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)
    except Exception:
        traceback.print_exc()
        os._exit(1)


class LocalWorker:
    """Copies of a run's policies, and an engine for each, once it was set up."""

    def __init__(self) -> None:
        self._policies: dict[str, CausalLM] = {}
        self._engines: dict[str, Engine] = {}
        self._weights: SharedWeights | None = None
        self._precision: Precision = "fp32"

    def answer(self, message: SamplerSetup | SharedLoad | Draw) -> Any:
        """Does what a message says; an error is an answer too."""
        try:
            if isinstance(message, SamplerSetup):
                self._set_up(message)
            elif isinstance(message, SharedLoad):
                self._load(message)
            else:
                return self._draw(message)
        except Exception as error:
            return portable(error)
        return peak()

    def _set_up(self, setup: SamplerSetup) -> None:
        from hocket.engine.barrier import Barrier
        from hocket.policies.shared_base import SharedBaseCache
        from hocket.train.engines import Engines
        from hocket.train.models import attach_media, load_policy
        from hocket.train.shared_weights import SharedWeights

        attach_media(setup.config)
        engines, base_cache = Engines(setup.config, Barrier()), SharedBaseCache()
        for name, model in setup.models.items():
            policy = self._policies[name] = load_policy(setup.config, name, model, setup.precisions[name], base_cache)
            self._engines[name] = engines.of(policy)
        self._precision = "bf16" if "bf16" in setup.precisions.values() else "fp32"
        self._weights = SharedWeights(self._policies, setup.memory)
        if self._weights.layout != setup.layout:
            raise HocketError("the model on disk is no longer the one this run was started from; restore it")

    def _load(self, message: SharedLoad) -> None:
        from hocket.train.machine import compute_in

        assert self._weights is not None
        compute_in(self._precision, message.threads)
        self._weights.take()
        for name, version in message.versions.items():
            self._policies[name].version = version

    def _draw(self, message: Draw) -> list[Sample | BaseException]:
        """One sample per request, in order; an error that concerns one request stands in its place."""
        outcomes = run_async(_submitted(self._engines[message.policy], message.requests))
        return [portable(outcome) if isinstance(outcome, BaseException) else outcome for outcome in outcomes]


async def _submitted(engine: Engine, requests: Sequence[Request]) -> list[Sample | BaseException]:
    return await asyncio.gather(*(engine.submit(request) for request in requests), return_exceptions=True)


def peak() -> float:
    """Peak resident memory of this process, MiB."""
    # The system's own count begins with that of the process it was started from.
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    peaks = [float(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return (peaks[0] if peaks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def portable(error: BaseException) -> BaseException:
    """An error that survives the way to the other process: its own errors whole, any other as type and message."""
    if isinstance(error, (HocketError, MemoryError)):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
