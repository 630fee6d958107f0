"""The uplink that LLM4MAC's nodes share."""

from __future__ import annotations

from hocket.core.keys import Key
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


def test_nodes_that_may_ask_are_heard_by_all_in_the_next_slot() -> None:
    channel = Uplinks(3, 3, signals=True).make(Scenario("s"))
    assert channel.observe("node_1").actions == ("send", "wait", "ask")
    assert channel.observe("node_1").text.endswith("Asking: nobody.")
    channel.act({"node_1": "send", "node_2": "ask", "node_3": "Ask"})
    assert all(channel.observe(agent).text.endswith("Heard: received. Asking: 2, 3.") for agent in channel.agents)
    assert channel.buffers == [1, 2, 2]
    channel.reset(Key.of(0))
    assert channel.observe("node_3").text.endswith("Asking: nobody.")
    assert channel.illegal == dict.fromkeys(channel.agents, 0)
    plain = Uplinks(2, 3).make(Scenario("s"))
    plain.act({"node_1": "ask", "node_2": "wait"})
    assert plain.illegal == {"node_1": 1, "node_2": 0}
