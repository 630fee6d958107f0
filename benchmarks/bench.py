"""What the benchmarks measure with: clocks, memory, the machine's rates, and how disturbed it was."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
"""Environments, models and logs of the benchmarks; git ignores it."""

Clock = Callable[[], float]


class Stopwatch:
    """Wall-clock and processor seconds spent inside `with watch(name)`, summed by name.

    On `cuda` the device's work is waited for at both ends.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._settle = settling(device)
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}

    def start(self, name: str) -> Callable[[], None]:
        """Starts counting; the function returned ends it."""
        self._settle()
        wall, processor = time.perf_counter(), time.process_time()

        def stop() -> None:
            self._settle()
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - wall
            self.processor[name] = self.processor.get(name, 0.0) + time.process_time() - processor

        return stop

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        stop = self.start(name)
        yield
        stop()

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with what it takes counted under `name`."""

        def run(*given: Any, **named: Any) -> Any:
            with self(name):
                return call(*given, **named)

        return run

    def take(self) -> dict[str, dict[str, float]]:
        """What was counted since the last call: `seconds` and `processor` by name."""
        found = {"seconds": self.seconds, "processor": self.processor}
        self.seconds, self.processor = {}, {}
        return found


def settling(device: str) -> Callable[[], None]:
    """Waits until the device has done what it was asked."""
    if device == "cpu":
        return lambda: None
    import torch

    return torch.cuda.synchronize


# ---------------------------------------------------------------- memory


def resident(name: str) -> int:
    """`VmRSS` or `VmHWM` (its peak) of this process, KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")


def preload(*modules: str) -> None:
    """Imports modules that would else be imported on the way, and count as memory and time of what is measured."""
    for module in modules:
        import_module(module)


def forget_peak() -> int:
    """Forgets the peak of resident memory so far; returns what is resident now, KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def device_peak() -> float:
    """The most memory that tensors on the CUDA device had, MiB."""
    import torch

    return torch.cuda.max_memory_allocated() / 2**20


# ---------------------------------------------------------------- the machine


def matrix_rate(precision: str, clock: Clock = time.perf_counter, device: str = "cpu") -> float:
    """Operations per second of a large matrix product in `fp32` or `bf16`; the best of three."""
    import torch

    settle = settling(device)
    size = 2048 if device == "cpu" else 8192
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    # Random numbers: a device multiplies ones faster than what it will be given.
    x, weight = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    taken = []
    for _ in range(4):
        settle()
        start = clock()
        torch.nn.functional.linear(x, weight)
        settle()
        taken.append(clock() - start)
    return 2 * size**3 / min(taken[1:])


def processor_name() -> str:
    """The processor's model."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def machine(**more: Any) -> dict[str, Any]:
    """What the figures were measured on."""
    return {"processor": processor_name(), "cores": os.cpu_count(), "load": os.getloadavg()[0], **more}


def busy_seconds() -> float:
    """Seconds that the processors were busy since the machine started, all programs together."""
    fields = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, more = fields[:7]
    return (user + nice + system + interrupts + more) / os.sysconf("SC_CLK_TCK")


def busy_share() -> float:
    """Processors in use now, while this program rests for a second."""
    before = busy_seconds()
    time.sleep(1.0)
    return busy_seconds() - before


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}
