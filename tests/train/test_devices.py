"""Which accelerator each process of a run is given. Nothing here needs one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from hocket.distributed.cluster import connection
from hocket.distributed.cluster.place import devices_of
from hocket.tasks.sums import Sums
from hocket.train.config import configure


def test_processes_are_dealt_devices_in_turn_and_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, str | None]] = []

    def child(name: str, module: str, environment: Mapping[str, str] | None = None) -> None:
        given.append((name, (environment or {}).get("CUDA_VISIBLE_DEVICES")))

    monkeypatch.setattr(connection, "ChildProcess", child)
    names = ["learner 1", "sampler 1", "sampler 2", "sampler 1"]
    place = connection.ThisMachine(["4", "6"])
    for name in names:
        place.line(name, "a module")
    assert given == [("learner 1", "6"), ("sampler 1", "4"), ("sampler 2", "6"), ("sampler 1", "4")]
    given.clear()
    connection.ThisMachine().line("learner 1", "a module")
    assert given == [("learner 1", None)]


@pytest.mark.parametrize(
    ("device", "visible", "dealt"),
    [
        ("auto", None, ["0", "1", "2"]),
        ("cuda", None, ["0", "1", "2"]),
        ("auto", "5,7", ["5", "7"]),
        ("cuda:1", None, ()),
        ("cpu", None, ()),
    ],
)
def test_devices_are_dealt_where_none_is_named(
    device: str, visible: str | None, dealt: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices_of(configure([("device", device)], Sums())) == dealt


def test_without_an_accelerator_none_is_dealt() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert devices_of(configure([], Sums())) == ()
