"""Strangers and hostile members at a node of a swarm: who is believed what, who is waited for, and what is held."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client
from typing import Any

import msgspec
import pytest
from swarm_members import KEY, LARGEST_COUNT, WAIT, Liar, frozen_places, liars, meshes, number, say, served, where

from hocket.core.errors import ConfigurationError
from hocket.distributed.swarm.blobs import MissingPiece, address, taken_apart
from hocket.distributed.swarm.frames import EntryList, Given, Hello, SentGroups
from hocket.distributed.swarm.inbox import OF_ALL, OF_ONE, Inbox
from hocket.distributed.swarm.lines import Line
from hocket.distributed.swarm.mesh import FORMER, Mesh
from hocket.distributed.swarm.messages import LARGEST
from hocket.distributed.swarm.peers import PEERS, Peers
from hocket.distributed.swarm.pool import PER_NODE
from hocket.distributed.swarm.registry import MOST, NAMES, Entry, EntryMessage, EntryRegistry

SLACK = 1.5
"""Seconds that a busy machine may add."""


def seconds(act: Callable[[], Any]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def refused(act: Callable[[], Any]) -> None:
    with pytest.raises(ConnectionError):
        act()


def until(true: Callable[[], bool], most: float = 5.0) -> bool:
    end = time.monotonic() + most
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def drip(line: socket.socket) -> None:
    """The beginning of a challenge, byte by byte."""
    for byte in struct.pack("!i", 31) + b"#CHALLENGE#" + b"x" * 20:
        line.sendall(bytes([byte]))
        time.sleep(0.1)


# ---------------------------------------------------------------- who is waited for


def test_a_member_that_froze_is_waited_for_once_and_the_others_hear_what_is_sent() -> None:
    with meshes("a", "b") as (a, b), liars("m") as (m,):
        m.member(a)
        assert a.others() == ["b", "m"]
        m.silent = True
        assert seconds(lambda: a.send(b"one")) < 2 * WAIT + SLACK
        assert seconds(lambda: [a.send(b"two"), a.send(b"three"), a.gossip()]) < WAIT  # It is left alone by now.
        assert b.drained() == [("a", b"one"), ("a", b"two"), ("a", b"three")]
        assert seconds(lambda: a.publish("weights", bytes(600_000))) < 2 * WAIT + SLACK
        assert seconds(a.close) < 2 * WAIT + SLACK
        assert b.others() == []


@pytest.mark.parametrize("how", ["silent", "byte by byte", "after the challenge"])
def test_nobody_waits_for_a_node_that_does_not_answer(how: str) -> None:
    with liars("m") as (m,), frozen_places(1) as (place,), served(drip) as slow, meshes("a") as (a,):
        m.silent = True
        at = {"silent": place, "byte by byte": slow, "after the challenge": m.where}[how]

        def joins() -> None:
            with pytest.raises(ConfigurationError, match="nobody answers there"):
                a.join(at)

        assert seconds(joins) < WAIT + SLACK


def test_who_does_not_take_what_it_asked_for_is_let_go() -> None:
    """Answers to a member that never reads them fill its line, and then its time is up."""
    with meshes("a") as (a,):
        a.pieces["0" * 40] = bytes(2**18)
        line = Client(("127.0.0.1", number(a.where)), authkey=KEY)
        line.send_bytes(msgspec.msgpack.encode(Hello("m")))

        def asks() -> None:
            for _ in range(100_000):
                line.send_bytes(msgspec.msgpack.encode({"type": "asked", "name": "0" * 40}))

        assert seconds(lambda: refused(asks)) < WAIT + 4 * SLACK


# ---------------------------------------------------------------- strangers


def test_silent_strangers_hold_few_threads_for_a_short_time_and_members_get_through() -> None:
    with meshes("a", "b", strangers=8) as (a, b):
        before = threading.active_count()
        idle = [socket.create_connection(("127.0.0.1", number(a.where))) for _ in range(100)]
        assert until(lambda: a.counts["strangers crowded out"] > 0)
        assert until(lambda: threading.active_count() - before <= 8)
        c = Mesh("c", key=KEY, wait=WAIT)
        c.join(a.where)
        c.send(b"hello")
        assert a.drained() == b.drained() == [("c", b"hello")]
        assert until(lambda: threading.active_count() - before <= 12)  # Its own threads, and the lines it has opened.
        assert until(lambda: not a._door._lines["stranger"], WAIT + SLACK)
        for one in idle:
            one.close()
        c.vanish()


def test_a_stranger_that_goes_on_byte_by_byte_has_no_more_time() -> None:
    with meshes("a") as (a,), socket.create_connection(("127.0.0.1", number(a.where))) as slow:

        def goes_on() -> None:
            for _ in range(200):
                slow.sendall(b"\0")
                time.sleep(0.05)

        assert seconds(lambda: refused(goes_on)) < WAIT + SLACK


def test_a_handshake_that_was_overheard_opens_nothing() -> None:
    """What a node has sent to get in is sent again, word for word."""
    sent, heard = bytearray(), threading.Event()
    with meshes("a") as (a,):

        def between(line: socket.socket) -> None:
            with socket.create_connection(("127.0.0.1", number(a.where))) as onward:

                def back() -> None:
                    with suppress(OSError):
                        while data := onward.recv(4096):
                            line.sendall(data)

                threading.Thread(target=back, daemon=True).start()
                while data := line.recv(4096):
                    sent.extend(data)
                    onward.sendall(data)
            heard.set()

        with served(between) as place:
            Client(("127.0.0.1", number(place)), authkey=KEY).close()
            assert heard.wait(5)
        assert sent
        refused = a.counts["refused"]
        with socket.create_connection(("127.0.0.1", number(a.where))) as again:
            again.sendall(bytes(sent) + struct.pack("!i", 7) + msgspec.msgpack.encode(Hello("m")))
            assert until(lambda: a.counts["refused"] == refused + 1)


def test_members_lines_are_bounded_and_who_was_crowded_out_opens_another() -> None:
    with meshes("a", "b", members=6) as (a, b), liars("m") as (m,):
        lines = [m.line(a) for _ in range(12)]
        assert until(lambda: a.counts["members crowded out"] >= 6)
        b.send(b"hello")
        assert a.drained() == [("b", b"hello")]
        assert until(lambda: len(a._door._lines["member"]) <= 6)
        for one in lines:
            one.close()


def test_lines_go_where_most_come_from() -> None:
    from hocket.distributed.swarm.lines import crowding

    class End:
        def __init__(self, there: str) -> None:
            self.there = there

    lines: Any = [End(there) for there in ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:2", "10.0.0.3:1")]
    assert crowding(lines).there == "10.0.0.2:1"


# ---------------------------------------------------------------- who may say what

WORDS = {
    "it has left": lambda a, b: where("b", "", LARGEST_COUNT),
    "it is elsewhere": lambda a, b: where("b", "127.0.0.1:1", LARGEST_COUNT),
    "it is here": lambda a, b: where("b", a.where, LARGEST_COUNT),
    "its weights": lambda a, b: EntryMessage("b", "weights", Entry(LARGEST_COUNT, "f" * 40)),
    "the hearer has left": lambda a, b: where("a", "", LARGEST_COUNT),
}


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("speaker", ["a member", "nobody", "b"])
def test_what_a_node_says_of_itself_nobody_else_can_say(speaker: str, words: str) -> None:
    with meshes("a", "b") as (a, b), liars("m") as (m,):
        b.registry.write("weights", "e" * 40)
        b.gossip()
        told = [WORDS[words](a, b)]
        line = m.member(a) if speaker == "a member" else m.line(a, "b" if speaker == "b" else "m", token="")
        say(line, EntryList(told, speaker, "two"))
        assert {"b"} <= set(a.others()) <= {"b", "m"}
        assert a.registry.read("a", "where") == a.where
        assert a.registry.read("b", "where") == b.where
        assert a.newest("weights")[0] == ("b", "e" * 40)
        b.registry.write("weights", "d" * 40)
        b.gossip()
        assert a.newest("weights")[0] == ("b", "d" * 40)
        a.send(b"hello")
        assert b.drained() == [("a", b"hello")]


def test_messages_are_from_the_node_they_name() -> None:
    """In b's name from a place of one's own, from b's, without any, with a token that b gave another; in a's name."""
    with meshes("a", "b") as (a, b), liars("m", "b") as (m, twin):
        given = m.member(b)
        b.gossip()
        token = next(one.token for one in m.greeted if one.node == "b" and one.token)
        lines = [
            m.line(a, "b", token=""),
            m.line(a, "b", ""),
            m.line(a, "b"),
            m.line(a, "b", b.where),
            m.line(a, "b", b.where, token),
            twin.line(a),
            m.line(a, "a", a.where),
            m.line(a, "x", b.where),
        ]
        for line in lines:
            assert say(line, SentGroups(b"not from b")) == Given(None)
        assert a.drained() == []
        assert a.others() == ["b"]
        assert a.counts["names refused"] == 1
        b.send(b"from b")
        assert a.drained() == [("b", b"from b")]
        given.close()


def test_a_frozen_node_keeps_its_name_and_one_that_is_gone_does_not() -> None:
    with meshes("a") as (a,), liars("b", "b", "b") as (first, second, third):
        first.member(a)
        first.silent = True
        say(second.line(a), EntryList([where("b", second.where)], "b", "two"))
        assert a.registry.read("b", "where") == first.where
        a.gossip()
        twin = Mesh("b", key=KEY, wait=WAIT)
        with pytest.raises(ConfigurationError, match=f"a node of that name is there already, at {first.where}"):
            twin.join(a.where)
        twin.vanish()
        first.close()
        until(lambda: not _taken(first.where))
        third.member(a)
        assert a.registry.read("b", "where") == third.where


def _taken(place: str) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", number(place))) == 0


def test_a_node_that_begins_again_is_heard_whatever_was_said_in_its_name_before() -> None:
    with meshes("a") as (a,), liars("b") as (before,):
        line = before.member(a)
        words = [where("b", before.where, LARGEST_COUNT), EntryMessage("b", "weights", Entry(LARGEST_COUNT, "f" * 40))]
        say(line, EntryList(words, "b", "one"))
        before.close()
        until(lambda: not _taken(before.where))
        b = Mesh("b", key=KEY, wait=WAIT)
        b.join(a.where)
        b.registry.write("weights", "e" * 40)
        b.gossip()
        assert a.registry.read("b", "where") == b.where
        assert a.newest("weights") == [("b", "e" * 40)]
        b.close()
        assert a.others() == []


# ---------------------------------------------------------------- nodes that are not there


@pytest.mark.parametrize("place", ["nobody", "frozen", "the liar's", "b's", "the hearer's", "no place"])
def test_ghosts_cost_little_and_keep_nobody_out(place: str) -> None:
    with meshes("a", "b") as (a, b), liars("m") as (m,), frozen_places(40) as frozen:
        named = {"nobody": "127.0.0.1:1", "the liar's": m.where, "b's": b.where, "the hearer's": a.where}
        at = (lambda n: frozen[n % 40]) if place == "frozen" else (lambda n: named.get(place, "localhost:99999"))
        m.tells = [where(f"ghost {n}", at(n), LARGEST_COUNT) for n in range(4000)]
        m.member(a)
        assert seconds(lambda: [a.gossip() for _ in range(5)]) < 4 * WAIT + SLACK
        d = Mesh("d", key=KEY, wait=WAIT)
        assert seconds(lambda: d.join(a.where)) < 4 * WAIT + SLACK
        assert {"a", "b"} <= set(d.others()) <= {"a", "b", "m"}
        assert "d" in a.others()
        assert a.registry.nodes("where").keys() == {"a", "b", "d", "m"}
        d.close()


def test_a_place_has_one_name() -> None:
    with meshes("a") as (a,), liars("m") as (m,):
        for n in range(5):
            m.name = f"m {n}"
            m.member(a)
        assert a.others() == ["m 4"]


def test_nodes_are_found_by_what_one_of_them_tells() -> None:
    with meshes("a", "b", "c") as (a, b, c):
        d = Mesh("d", key=KEY, wait=WAIT)
        d.join(c.where)
        assert d.others() == ["a", "b", "c"]
        assert [one.others().count("d") for one in (a, b, c)] == [1, 1, 1]
        d.close()


def test_no_node_is_told_of_more_than_a_message_holds() -> None:
    """A member's words are bounded, so that what a node passes on can be read."""
    with meshes("a", "b") as (a, b), liars("m") as (m,):
        line = m.member(a)
        long = [EntryMessage("m", f"name {n}", Entry(1, "é" * 1000)) for n in range(1000)]
        say(line, EntryList([where("m", m.where), *long], "m", "two"))
        assert sum(one.node == "m" for one in a.registry.entries()) == NAMES
        b.gossip()
        assert not b.counts["unanswered"]


def test_a_registry_keeps_its_own_words_and_has_room_for_who_comes_last() -> None:
    own = EntryRegistry("a")
    own.write("where", "here")
    own.merge(EntryMessage(f"ghost {n}", f"name {k}", Entry(1, "")) for n in range(MOST) for k in range(2))
    own.merge([where("a", "there", LARGEST_COUNT), where("b", "somewhere")])
    assert own.read("a", "where") == "here"
    assert own.read("b", "where") == "somewhere"
    assert len(own.entries()) <= MOST + 1
    assert own.read("ghost 0", "name 0") is None
    own.merge(EntryMessage("b", f"name {n}", Entry(1, "")) for n in range(100))
    assert sum(one.node == "b" for one in own.entries()) == NAMES
    assert (PEERS + FORMER) * NAMES <= MOST


def test_of_too_many_nodes_the_longest_silent_of_the_most_crowded_host_goes() -> None:
    dropped = list[Line]()
    peers = Peers(dropped.append)
    peers.add("alone", "10.0.0.1:1")
    for n in range(PEERS + 3):
        peers.add(f"n{n}", f"10.0.0.2:{n}")
        if n == 0 and (first := peers.get("n0")) is not None:
            first.heard += 3600
    names = set(peers.names())
    assert len(names) == PEERS
    assert {"alone", "n0", f"n{PEERS + 2}"} <= names
    assert not {"n1", "n2", "n3", "n4"} & names


# ---------------------------------------------------------------- what is held


def test_who_floods_crowds_out_itself() -> None:
    with meshes("a", "b") as (a, b), liars("m") as (m,):
        line = m.member(a)
        b.send(b"from b")
        for _ in range(PER_NODE + 50):
            say(line, SentGroups(b"noise"))
        heard = a.drained()
        assert heard[0] == ("b", b"from b")
        assert len(heard) == PER_NODE + 1
        assert a.counts["crowded out"] == 50


def test_an_inbox_holds_so_many_bytes_of_one_and_of_all() -> None:
    inbox = Inbox()
    large = bytes(LARGEST)
    assert inbox.put("m", large + b"x") == 1
    for _ in range(40):
        inbox.put("m", large)
    assert len(inbox.drained()) == OF_ONE // LARGEST
    assert inbox.drained() == []
    senders = OF_ALL // OF_ONE + 4
    shared = bytes(LARGEST)
    for n in range(senders):
        for _ in range(OF_ONE // LARGEST):
            inbox.put(f"m{n}", shared)
    inbox.put("b", b"hello")
    found = inbox.drained()
    assert sum(len(data) for _, data in found) <= OF_ALL
    assert ("b", b"hello") in found


def test_pieces_that_one_gives_in_heaps_are_not_kept_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hocket.distributed.swarm.mesh.HELD", 20)
    with meshes("a", "b") as (a, b), liars("m") as (m,):
        name = b.publish("weights", bytes(range(250)) * 3000)  # 3 pieces and how they are put together.
        kept = set(a.pieces)
        assert len(kept) == 4
        line = m.member(a)
        for n in range(60):
            say(line, Given(b"%d" % n))
        assert kept < set(a.pieces)
        assert len(a.pieces) == 20
        stranger = m.line(a, token="")
        say(stranger, Given(b"of nobody"))
        assert b"of nobody" not in a.pieces.values()
        assert a.fetch(name) == bytes(range(250)) * 3000


@pytest.mark.parametrize("announced", ["no name", "é" * 40, "g" * 40, "deep", "endless", "nowhere", "odd pieces"])
def test_what_is_announced_and_cannot_be_had_is_missed(announced: str) -> None:
    """A member announces what is no name, no manifest, larger than any thing, or made of pieces with no names."""
    contents = {
        "deep": b"\x81\xa1x" + b"\x91" * 100_000,
        "endless": msgspec.msgpack.encode({"size": 5_000, "pieces": [address(b"0")] * 5_000}),
        "odd pieces": msgspec.msgpack.encode({"size": 40, "pieces": ["x" * 40]}),
    }
    with meshes("a") as (a,), liars("m") as (m,):
        line = m.member(a)
        say(line, Given(b"0"))
        name = announced
        if announced in contents:
            say(line, Given(contents[announced]))
            name = address(contents[announced])
        elif announced == "nowhere":
            name = "0" * 40
        say(line, EntryList([where("m", m.where), EntryMessage("m", "weights", Entry(9, name))], "m", "one"))
        assert a.newest("weights") == [("m", name)]
        with pytest.raises(MissingPiece):
            a.fetch(name)


def test_who_is_always_late_is_not_fetched_from_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hocket.distributed.swarm.mesh.LATE", 3)
    data = random.Random(0).randbytes(2**21)  # 8 pieces
    manifest, pieces = taken_apart(data)
    with meshes("a") as (a,), liars("m") as (m,):
        m.member(a)
        m.pieces = {**pieces, address(manifest.written()): manifest.written()}
        m.delay = WAIT / 3
        with pytest.raises(MissingPiece):
            a.fetch(address(manifest.written()))
        m.delay = 0.0
        assert a.fetch(address(manifest.written())) == data


GARBAGE = {
    "nothing": b"",
    "noise": bytes(range(256)),
    "deep": b"\x91" * 100_000,
    "deep in a message": b"\x82\xa4type\xa4sent\xa1x" + b"\x91" * 100_000,
    "deep in maps": b"\x82\xa4type\xa5asked\xa1x" + b"\x81\xa1x" * 100_000,
    "unknown": msgspec.msgpack.encode({"type": "evil"}),
    "no text": b"\x82\xa4type\xa5asked\xa4name\xa2\xff\xff",
    "a count below 0": msgspec.msgpack.encode({"type": "told", "entries": [["x", "y", [-1, "z"]]]}),
    "too large a count": msgspec.msgpack.encode(
        {"type": "told", "entries": [{"node": "b", "name": "where", "entry": {"count": 2**53, "value": ""}}]}
    ),
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_message_ends_its_line_alone(garbage: str, caplog: pytest.LogCaptureFixture) -> None:
    with meshes("a", "b") as (a, b), liars("m") as (m,):
        line = m.member(a)
        line.send_bytes(GARBAGE[garbage])
        assert until(lambda: line.poll())
        with pytest.raises((EOFError, OSError)):
            line.recv_bytes()
        assert a.counts["malformed"] == 1
        b.send(b"hello")
        assert a.drained() == [("b", b"hello")]


@pytest.mark.parametrize("size", [-1, -2, 2**31 - 1, 2**24])
def test_a_message_that_is_too_large_is_not_read(size: int) -> None:
    with meshes("a") as (a,), liars("m") as (m,):
        line = m.member(a)
        os.write(line.fileno(), struct.pack("!i", size) + b"x" * 1000)
        with pytest.raises((EOFError, OSError)):
            line.recv_bytes()
        assert until(lambda: not any(one.there.endswith(_port(line)) for one in list(a._door._lines["member"])))


def _port(line: Any) -> str:
    with socket.socket(fileno=os.dup(line.fileno())) as found:
        return f":{found.getsockname()[1]}"


def test_lines_and_threads_end_with_the_node() -> None:
    before = set(threading.enumerate())
    a, b = Mesh("a", key=KEY, wait=WAIT), Mesh("b", key=KEY, wait=WAIT)
    b.join(a.where)
    stranger = socket.create_connection(("127.0.0.1", number(a.where)))
    places = a.where, b.where
    b.close()
    a.vanish()
    assert until(lambda: not [one for one in set(threading.enumerate()) - before if "line" in one.name.lower()])
    assert not any(map(_taken, places))
    assert not a._out
    assert not b._out
    with stranger:
        stranger.settimeout(2)
        while stranger.recv(100):
            pass


def test_a_node_listens_at_one_address() -> None:
    for host in ("0.0.0.0", ""):
        with pytest.raises(ConfigurationError, match="name the one by which the others reach this machine"):
            Mesh("a", host, key=KEY)
    a = Mesh("a", "localhost", key=KEY, wait=WAIT)
    assert a.where.startswith("127.0.0.1:")
    a.vanish()


def test_a_liar_is_a_member_like_any_other() -> None:
    """Else the tests above would prove nothing of members."""
    with meshes("a") as (a,), liars("m") as (m,):
        assert isinstance(m, Liar)
        say(m.member(a), SentGroups(b"hello"))
        assert a.drained() == [("m", b"hello")]
