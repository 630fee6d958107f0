"""Samplers of a run that are disturbed: interrupted often, or killed while they work."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from hocket.distributed.cluster import async_order
from hocket.distributed.cluster.connection import ChildProcess
from hocket.distributed.cluster.sampler import Sampler
from hocket.distributed.cluster.sampler_worker import Underway


def interrupted_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samplers are interrupted often, and long enough for a step."""
    ask = Sampler.ask

    def late(sampler: Sampler, message: Any) -> Any:
        found = ask(sampler, message)
        if isinstance(found, Underway):
            time.sleep(0.2)
        return found

    monkeypatch.setattr(async_order, "MOMENT", 0.02)
    monkeypatch.setattr(Sampler, "ask", late)


def killed_once(monkeypatch: pytest.MonkeyPatch, kind: type, after: float) -> list[Sampler]:
    """The first sampler that is asked such a message dies so many seconds later; it is in the list then."""
    ask, struck = Sampler.ask, list[Sampler]()

    def killed(sampler: Sampler, message: Any) -> Any:
        if isinstance(message, kind) and not struck:
            struck.append(sampler)
            assert isinstance(sampler.line, ChildProcess)
            process = sampler.line.process.pid
            threading.Timer(after, lambda: os.kill(process, signal.SIGKILL)).start()
        return ask(sampler, message)

    monkeypatch.setattr(Sampler, "ask", killed)
    return struck
