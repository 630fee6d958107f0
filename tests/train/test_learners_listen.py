"""What processes that learn together have open to others, and how they find each other."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TINY
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.distributed.cluster.connection import ChildProcess, ThisMachine
from hocket.distributed.cluster.ranks import FolderRendezvous, joined
from hocket.distributed.cluster.ray_store import Table, TableStore
from hocket.train.config import configure
from hocket.train.trainer import Trainer


def sockets(process: int | str) -> set[tuple[str, str]]:
    """Address and state of a process's TCP sockets, as the kernel has them; 0A listens."""
    held = set[str]()
    for handle in Path(f"/proc/{process}/fd").iterdir():
        try:
            held |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(handle)))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[9] in held:
                words = bytes.fromhex(columns[1].partition(":")[0])
                raw = b"".join(struct.pack("<I", word) for (word,) in struct.iter_unpack(">I", words))
                found.add((str(ipaddress.ip_address(raw)), columns[3]))
    return found


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's kernel what is open")


def loopback(found: set[tuple[str, str]]) -> bool:
    assert found, "learners without any socket would prove nothing"
    return all(ipaddress.ip_address(address).is_loopback for address, _ in found)


OTHER = """
import sys, torch
from hocket.distributed.cluster.ranks import FolderRendezvous, joined
ranks = joined(1, 2, FolderRendezvous(sys.argv[1]), device=torch.device("cpu"))
print(ranks.exchanged(torch.tensor([2.0]), 0).item(), flush=True)
sys.stdin.read()
"""


@needs_linux
def test_two_ranks_of_a_machine_are_open_to_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says of interfaces, and it says the same afterwards."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none-such")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    before = sockets("self")
    with ThisMachine().rendezvous() as where:
        assert isinstance(where, FolderRendezvous)
        command = [sys.executable, "-c", OTHER, where.path]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ranks = joined(0, 2, where, device=torch.device("cpu"))
        assert ranks.exchanged(torch.tensor([1.0]), 1).item() == 2.0
        assert other.stdout is not None
        assert other.stdout.readline() == "1.0\n"
        found = sockets("self") - before, sockets(other.pid)
        ranks.leave()
        other.communicate()
    assert all(map(loopback, found))
    assert os.environ["GLOO_SOCKET_IFNAME"] == "none-such"
    assert "NCCL_SOCKET_IFNAME" not in os.environ


@needs_linux
@pytest.mark.slow
def test_a_run_with_two_learners_is_open_to_its_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = sockets("self")
    more = ["--leaves", "2", "--cluster", "local", "--learners", "2", "--recipe", "grpo", "--steps", "1"]
    pairs: list[tuple[str, Any]] = list(split_settings([*TINY, *more], set())[1])
    task = tasks.find("sums")
    trainer = Trainer(configure([*pairs, ("runs", str(tmp_path)), ("run", "run")], task), task=task)
    trainer.step()
    assert trainer.groups.here is not None
    line = trainer.groups.here.lines[0]
    assert isinstance(line, ChildProcess)
    assert loopback(sockets("self") - before)
    assert loopback(sockets(line.process.pid))
    [folder] = tmp_path.glob("hocket-learners-*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    trainer.finish("interrupted")
    assert not list(tmp_path.glob("hocket-learners-*"))


def test_ranks_of_a_machine_meet_in_a_folder_of_this_user() -> None:
    with ThisMachine().rendezvous() as where:
        assert isinstance(where, FolderRendezvous)
        assert stat.S_IMODE(Path(where.path).stat().st_mode) == 0o700
        one, other = where.store(), where.store()
        one.set("name", "value")
        assert other.get("name") == b"value"
    assert not Path(where.path).exists()


# ---------------------------------------------------------------- at an actor


class Ray:
    """Asks at once."""

    @staticmethod
    def get(answer: Any) -> Any:
        return answer


class Actor:
    """An actor of this process."""

    def __init__(self, table: Table) -> None:
        self._table, self._lock = table, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        def remote(*given: Any) -> Any:
            with self._lock:
                return getattr(self._table, name)(*given)

        return type("Method", (), {"remote": staticmethod(remote)})


def test_torch_meets_at_an_actor() -> None:
    """That several do is tried on a cluster, in `test_ray_cluster.py`."""
    actor = Actor(Table())
    store = TableStore(Ray, actor)
    group = ProcessGroupGloo(PrefixStore("group", store), 0, 1, datetime.timedelta(seconds=20))
    given = torch.tensor([1.0, 10.0])
    group.allreduce([given]).wait()
    assert given.tolist() == [1.0, 10.0]
    assert store.num_keys() > 0


def test_who_waits_for_another_rank_finds_what_it_writes() -> None:
    actor = Actor(Table())
    later = threading.Timer(0.1, lambda: TableStore(Ray, actor).set("name", "value"))
    later.start()
    assert TableStore(Ray, actor).get("name") == b"value"
    later.join()


def test_an_actors_table_is_a_store() -> None:
    store = TableStore(Ray, Actor(Table()))
    assert [store.add("n", 2), store.add("n", 3)] == [2, 5]
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.num_keys() == 2
    assert [store.delete_key("k"), store.delete_key("k")] == [True, False]
    assert [store.check(["n"]), store.check(["n", "k"])] == [True, False]
    with pytest.raises(RuntimeError, match="no learner wrote n, k in time"):
        store.wait(["n", "k"], datetime.timedelta(seconds=0.05))
