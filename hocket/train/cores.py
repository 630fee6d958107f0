"""The processor's cores: the number that this process may use, and the share that other programs take."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from hocket.core.errors import ConfigurationError

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def available_cores() -> int:
    """The number of cores that this process may use: its affinity, or the quota of its control group if less."""
    return cores_of(len(_affinity()), _quota())


def cores_of(count: int, quota: float | None) -> int:
    """The number of cores, of `count`, that a quota of processor time keeps busy; at least one."""
    return count if quota is None else max(1, min(count, math.floor(quota + 0.01)))


def check_threads(threads: int | None) -> None:
    """Refuses more threads than the machine has cores, since they would only wait for each other.

    Raises:
        ConfigurationError: naming both numbers.
    """
    cores = os.cpu_count() or 1
    if threads is not None and threads > cores:
        raise ConfigurationError(f"threads = {threads}: this machine has {cores} cores; set at most {cores}")


class CoreWatch:
    """Measures the use of the cores since its creation. Figures that a system does not provide count as 0."""

    def __init__(self) -> None:
        self._cores = _affinity()
        self._wall = time.monotonic()
        self._own = time.process_time()
        self._busy = _busy(self._cores)
        self._waits = _waits()

    def others(self) -> float:
        """The share of the cores' time that other programs used, in [0, 1]."""
        span = (time.monotonic() - self._wall) * len(self._cores)
        busy = _busy(self._cores) - self._busy - (time.process_time() - self._own)
        return min(1.0, max(0.0, busy / span)) if span > 0 else 0.0

    def waited(self) -> float:
        """The largest share of the time that a thread of this process was ready without a core, in [0, 1].

        The largest, because threads that work together wait for the slowest.
        """
        span = time.monotonic() - self._wall
        waits = [ready - self._waits.get(thread, 0.0) for thread, ready in _waits().items()]
        return min(1.0, max(waits, default=0.0) / span) if span > 0 else 0.0


def _affinity() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _busy(cores: frozenset[int]) -> float:
    """Busy seconds of `cores` since the machine's start, summed."""
    try:
        lines = (PROC / "stat").read_text().splitlines()
    except OSError:
        return 0.0
    ticks = 0
    for line in lines:
        name, *fields = line.split() or [""]
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _, _, irq, softirq, stolen = (int(field) for field in fields[:8])
            ticks += user + nice + system + irq + softirq + stolen
    return ticks / os.sysconf("SC_CLK_TCK")


def _waits() -> dict[str, float]:
    """Seconds that each thread of this process was ready without a core, since its start."""
    counts = {}
    for folder in (PROC / "self" / "task").glob("*"):
        try:
            counts[folder.name] = int((folder / "schedstat").read_text().split()[1]) * 1e-9
        except (OSError, ValueError, IndexError):
            continue  # The thread has ended, or the kernel has no such counter.
    return counts


def control_groups(controller: str) -> list[Path]:
    """The folders of this process's control group for a controller, and of the enclosing groups, innermost first."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controller if controllers else CGROUPS
        inner = root / path.lstrip("/")
        # Inside a container the path may be that of the host, with the container's limits at the root.
        folders += [folder for folder in (inner, *inner.parents) if folder == root or root in folder.parents]
    return folders


def _quota() -> float | None:
    """The smallest quota of the control groups in cores; None without a limit."""
    quotas = [quota for folder in control_groups("cpu") if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").is_file():
            granted, period = (folder / "cpu.max").read_text().split()
        else:
            granted = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(granted) / int(period) if int(granted) > 0 else None
    except (OSError, ValueError):
        return None  # No such file, or `max`.
