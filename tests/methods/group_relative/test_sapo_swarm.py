"""Messages of a swarm that come twice, late or broken."""

from __future__ import annotations

import msgspec
import pytest
import torch

from hocket.lab.toys.swarms import TableSwarm
from hocket.methods.group_relative.claims.sapo_swarm import EASY, _node, _weights


def twice(old: list[bytes], data: bytes) -> list[bytes]:
    return [data, data]


def faulty(old: list[bytes], data: bytes) -> list[bytes]:
    """Newer messages, then an old one again, half of one, one in another's name and one of a megabyte."""
    forged = msgspec.msgpack.encode({**msgspec.msgpack.decode(data), "node": "node-9"})
    late = [old[-7]] if len(old) > 6 else []
    return [data, *late, data[: len(data) // 2], forged, b"\x00" * (2**20 + 1)]


@pytest.mark.parametrize(
    ("delivered", "counted"), [(twice, ["duplicate"]), (faulty, ["late", "malformed", "forged", "oversized"])]
)
def test_messages_that_should_not_have_come_change_no_bit(delivered, counted):
    before: dict[tuple[str, str], list[bytes]] = {}

    def deliver(sender: str, receiver: str, data: bytes) -> list[bytes]:
        old = before.setdefault((sender, receiver), [])
        found = delivered(old, data)
        old.append(data)
        return found

    nodes = [_node(4, 4)] * 2
    bad, good = TableSwarm(EASY, nodes, lr=0.1, deliver=deliver).run(4), TableSwarm(EASY, nodes, lr=0.1).run(4)
    assert all(bad.counts(name) > 0 for name in counted)
    assert bad.counts("received") == good.counts("received") > 0
    assert good.mean("shared/groups") > 1
    assert torch.equal(_weights(bad), _weights(good))
