"""What a process may use of the processor, and what it notices of other programs, read from made-up systems."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.train import cores


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `/proc` and no control groups, on four cores."""
    monkeypatch.setattr(cores, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cores, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cores, "_affinity", lambda: frozenset(range(4)))
    (tmp_path / "proc" / "self" / "task" / "7").mkdir(parents=True)
    (tmp_path / "cgroup").mkdir()
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_system_that_tells_nothing(system: Path) -> None:
    watch = cores.CoreWatch()
    time.sleep(0.01)
    assert (cores.available_cores(), watch.others(), watch.waited()) == (4, 0.0, 0.0)
    assert cores.control_groups("cpu") == []


@given(granted=st.integers(1, 10_000_000), period=st.integers(1000, 1_000_000))
def test_a_quota_bounds_the_cores(granted: int, period: int) -> None:
    assert cores.cores_of(4, granted / period) == max(1, min(4, int(granted / period + 0.01)))


@pytest.mark.parametrize("inner", ["job", "gone"])
def test_quotas_of_both_kinds_of_control_groups(system: Path, inner: str) -> None:
    write(system / "proc/self/cgroup", f"3:cpu,cpuacct:/{inner}\n0::/{inner}/deeper\n")
    assert cores.available_cores() == 4
    write(system / "cgroup/cpu/cpu.cfs_quota_us", "300000\n")  # Found at the root, wherever the group itself is.
    write(system / "cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert cores.available_cores() == 3
    write(system / "cgroup/job/cpu.max", "200000 100000\n")
    assert cores.available_cores() == (2 if inner == "job" else 3)
    write(system / "cgroup/job/cpu.max", "max 100000\n")
    write(system / "cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert cores.available_cores() == 4


def stat(*ticks: int) -> str:
    lines = [f"cpu{core} {busy} 0 0 500 60 0 0 0 0 0" for core, busy in enumerate(ticks)]
    return "\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *lines, "intr 5"])


def test_what_others_take_is_not_what_this_process_takes(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"wall": 100.0, "own": 50.0}
    monkeypatch.setattr(cores.time, "monotonic", lambda: clock["wall"])
    monkeypatch.setattr(cores.time, "process_time", lambda: clock["own"])
    monkeypatch.setattr(cores.os, "sysconf", lambda name: 100)
    write(system / "proc/stat", stat(0, 0, 0, 0, 0))
    write(system / "proc/self/task/7/schedstat", "5 1000000000 3")
    watch = cores.CoreWatch()
    clock.update(wall=110.0, own=58.0)  # Ten seconds, of which 8 on a core.
    write(system / "proc/stat", stat(1000, 600, 0, 0, 999))  # A fifth core is not this process's.
    write(system / "proc/self/task/7/schedstat", "5 1000000000 3")
    write(system / "proc/self/task/8/schedstat", "5 2500000000 3")
    assert watch.others() == pytest.approx((16 - 8) / 40)
    assert watch.waited() == pytest.approx(0.25)


def test_the_real_system_is_read() -> None:
    watch = cores.CoreWatch()
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert cores.available_cores() >= 1
    assert 0 <= watch.others() <= 1
    assert 0 <= watch.waited() <= 1
