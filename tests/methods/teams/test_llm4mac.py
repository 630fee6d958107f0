"""The uplink that LLM4MAC's nodes share."""

from __future__ import annotations

from hocket.methods.teams.claims.llm4mac import throughput
from hocket.methods.teams.llm4mac.world import Uplinks
from hocket.types import Scenario


def test_an_empty_buffer_sends_nothing_and_arrivals_fill_it() -> None:
    assert throughput(Uplinks(2, 4, buffer=1, arrivals=0.0), lambda node, slot: node == 0) == 0.25
    assert throughput(Uplinks(2, 4, buffer=1, arrivals=1.0), lambda node, slot: node == 0) == 1.0


def test_a_move_that_is_none_waits_and_is_counted() -> None:
    channel, told = Uplinks(2, 3, arrivals=0.0).make(Scenario("s")), []
    for moves in ({"node_1": "shout", "node_2": "send"}, {"node_1": "Send", "node_2": "send"}):
        channel.act(moves)
        told.append(channel.heard)
    assert told == ["received", "collision"]
    assert channel.buffers == [2, 1]
    assert channel.illegal == {"node_1": 1, "node_2": 0}
