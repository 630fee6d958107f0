"""A node that is a process of its own: what is refused, what hostile lines do, and weights that travel."""

from __future__ import annotations

import socket
import stat
import time
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from tiny_runs import call
from torch import nn

from hocket.core.errors import ConfigurationError
from hocket.distributed.swarm.blobs import MissingPiece
from hocket.distributed.swarm.frames import Hello
from hocket.distributed.swarm.mesh import Mesh
from hocket.distributed.swarm.pool import NodeInbox
from hocket.distributed.swarm.process import key_of, set_weights, weights_of
from hocket.tasks.sums import Sums

KEY = b"a key of this test"

REFUSED = {
    "a key for others": (["--listen", "0.0.0.0"], "name an environment variable with a secret"),
    "an empty key": (["--listen", "127.0.0.1", "--key-variable", "NO_SUCH_KEY"], "must hold a secret of 16 letters"),
    "nobody there": (["--listen", "127.0.0.1", "--join", "127.0.0.1:1"], "nobody answers there"),
    "no place": (["--listen", "127.0.0.1", "--join", "here"], "write HOST:PORT"),
    "alone": (["--join", "127.0.0.1:1"], "add --listen 127.0.0.1"),
    "averages": (["--listen", "127.0.0.1", "--average", "2"], "neither attack nor average"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("swarm", *more, "--out", tmp_path / "swarm")
    assert said.code == 2
    assert words in " ".join(said.err.split())
    assert not (tmp_path / "swarm").exists()


def test_a_port_that_is_taken_and_a_name_that_is_taken_are_refused() -> None:
    one = Mesh("node-0", key=KEY)
    with pytest.raises(ConfigurationError, match="choose another port"):
        Mesh("node-1", port=int(one.where.rpartition(":")[2]), key=KEY)
    again = Mesh("node-0", key=KEY)
    with pytest.raises(ConfigurationError, match="a node of that name is there already"):
        again.join(one.where)
    again.vanish()
    one.vanish()


def test_a_node_that_comes_back_takes_its_name_again() -> None:
    one, gone = Mesh("node-0", key=KEY), Mesh("node-1", key=KEY)
    gone.join(one.where)
    gone.vanish()
    back = Mesh("node-1", key=KEY)
    back.join(one.where)
    one.send(b"hello")
    assert back.drained() == [("node-0", b"hello")]
    for mesh in (one, back):
        mesh.close()


def test_hostile_lines_end_and_nothing_else() -> None:
    """Silence, noise before and after the challenge, and messages that are none; then a node joins as ever."""
    one = Mesh("node-0", key=KEY)
    host, port = "127.0.0.1", int(one.where.rpartition(":")[2])
    silent = socket.create_connection((host, port))
    with socket.create_connection((host, port)) as noisy:
        noisy.sendall(b"\x7f" * 64)
    line = Client((host, port), authkey=KEY)
    line.send_bytes(msgspec.msgpack.encode(Hello("liar")))
    line.send_bytes(b"\xc1 no message")
    with suppress(EOFError, OSError):
        line.recv_bytes()
    two = Mesh("node-1", key=KEY)
    two.join(one.where)
    two.send(b"hello")
    assert one.drained() == [("node-1", b"hello")]
    end = time.monotonic() + 5
    while not one.counts["malformed"] and time.monotonic() < end:
        time.sleep(0.01)
    assert one.counts["malformed"] == 1
    silent.close()
    for mesh in (one, two):
        mesh.close()


def test_who_leaves_is_no_longer_asked() -> None:
    one, two = Mesh("node-0", key=KEY), Mesh("node-1", key=KEY)
    two.join(one.where)
    assert one.others() == ["node-1"]
    two.close()
    assert one.others() == []
    one.send(b"hello")
    assert not one.counts["unanswered"]
    one.close()


def policies(width: int) -> dict[str, Any]:
    module = nn.Linear(width, 2, device="meta").to_empty(device="cpu")
    nn.init.zeros_(module.weight)
    nn.init.ones_(module.bias)
    return {"policy": SimpleNamespace(name="policy", module=module, version=0)}


def test_weights_travel_to_the_bit_and_those_of_another_model_are_refused() -> None:
    own, other = policies(3), policies(3)
    with torch.no_grad():
        own["policy"].module.weight.copy_(torch.arange(6.0).reshape(2, 3) / 7)
    set_weights(other, weights_of(own))
    assert torch.equal(other["policy"].module.weight, own["policy"].module.weight)
    with pytest.raises(MissingPiece, match="another model"):
        set_weights(policies(4), weights_of(own))
    with pytest.raises(MissingPiece, match="no weights"):
        set_weights(other, b"nothing of the kind")


def test_nodes_of_one_user_on_one_machine_share_a_key_that_nobody_else_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    for home in ("one", "other"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        keys.append(key_of("127.0.0.1", None))
        assert key_of("localhost", None) == keys[-1]
        assert stat.S_IMODE((tmp_path / home / "hocket" / "swarm" / "key").stat().st_mode) == 0o600
    assert len({*keys}) == 2
    assert min(map(len, keys)) >= 32
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="cannot be kept there"):
        key_of("127.0.0.1", None)


def message(step: int, **more: Any) -> bytes:
    told = {"node": "b", "step": step, "id": "i", "prompt": "p", "answers": ["a"]}
    return msgspec.msgpack.encode(told | more)


def test_a_node_that_begins_again_counts_its_steps_anew() -> None:
    pool = NodeInbox(Sums(), recompute=False)
    pool.receive("b", message(40))
    pool.receive("b", message(1))
    pool.forget("b")
    pool.receive("b", message(1))
    assert pool.counts == {"received": 2, "late": 1}
    assert [group.step for group in pool.groups()] == [40, 1]


@pytest.mark.parametrize("depth", [1, 30, 33, 900, 100_000])
@pytest.mark.parametrize("brackets", [(b"\x91", b""), (b"\x81\xa1x", b"")], ids=["lists", "maps"])
@pytest.mark.parametrize("field", ["answer", "metadata", "unheard of"])
def test_what_is_nested_deeper_than_a_scenario_is_no_message(
    field: str, brackets: tuple[bytes, bytes], depth: int
) -> None:
    """Elsewhere it would be met by code that goes down it."""
    deep = brackets[0] * depth + b"\x01"
    if field == "metadata":
        deep = b"\x81\xa1x" + deep
    data = bytearray(message(1))
    data[0] += 1  # One more in the map.
    pool = NodeInbox(Sums(), recompute=False)
    pool.receive("b", bytes(data) + msgspec.msgpack.encode(field) + deep)
    [became] = pool.counts
    if depth <= 30:
        assert became == "received"
    elif field != "unheard of":  # What nobody reads may be of any depth that the reader goes down.
        assert became == "malformed"
