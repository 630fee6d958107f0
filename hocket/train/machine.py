"""Choices made by measurement on this machine: made once, recorded in the run, reused on resume."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hocket.stages import Metrics
from hocket.train.runfolder import read_json

SMALL = 20_000_000

WORTH = 0.65
"""Twice the threads are taken when the probe falls to this share of its time or below."""


@dataclass(frozen=True)
class Machine:
    """What was chosen and why.

    Attributes:
        threads: torch threads. seconds: the measured time of the probe by number of threads.
        precision: of weights and arithmetic. compiled: whether the decode step is compiled.
    """

    threads: int
    seconds: dict[str, float]
    precision: str = "float32"
    compiled: bool = False

    @staticmethod
    def measured(threads: int | None, parameters: int) -> Machine:
        """Times a probe on 1, 2, 4, .. threads and takes the fastest; `threads` settles it beforehand.

        A model of fewer than `SMALL` parameters takes one thread: its operators are too short to share. The nano model
        gains a fifth from a second thread on quiet cores, and loses a factor of ten once the cores get busy.
        """
        if threads is not None or parameters < SMALL:
            return Machine(threads or 1, {})
        before = torch.get_num_threads()
        seconds = {}
        count = 1
        while count <= available_cores():
            torch.set_num_threads(count)
            seconds[str(count)] = _probe()
            count *= 2
        torch.set_num_threads(before)
        # More threads must be much faster: should the cores get busy later, they would wait for one another.
        best = 1
        for name, taken in seconds.items():
            if taken < WORTH * seconds[str(best)]:
                best = int(name)
        return Machine(best, seconds)

    @staticmethod
    def recorded(path: Path) -> Machine:
        """What an earlier session chose, from `machine.json`."""
        found = read_json(path)
        names = ("threads", "seconds", "precision", "compiled")
        return Machine(**{name: found[name] for name in names})

    def apply(self) -> None:
        """Makes the choices hold in this process."""
        torch.set_num_threads(self.threads)

    def to_json(self) -> dict[str, Any]:
        """For `machine.json`: the choices and what they were made on."""
        return {
            **asdict(self),
            "cores": available_cores(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        }

    def memory(self) -> Metrics:
        """Peak resident memory of this process, MiB."""
        return {"memory/peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _probe() -> float:
    """Seconds of a small decode-shaped product followed by a training-shaped one; the least of three."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(384, 128, generator=generator)
    decode, learn = torch.randn(128, 128, generator=generator), torch.randn(8192, 128, generator=generator)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(40):
            (decode @ weight.T).relu_()
        for _ in range(4):
            (learn @ weight.T).relu_()
        taken.append(time.perf_counter() - start)
    return min(taken)
