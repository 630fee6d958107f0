"""Nodes of several processes or machines that talk to each other directly, with nobody in charge.

Whoever knows one node finds the others: they tell each other their registries (`EntryRegistry`), in which each says
where it listens and what it has published. What is published is taken apart; each piece is kept by the few nodes
nearest to its name (`nearest`), and by those that fetched it. A piece that is not what its name says is asked of the
next.

Lines are those of `hocket.distributed.swarm.lines`: TCP, opened by a challenge on a key that all share. Messages are
checked data (`hocket.distributed.swarm.frames`). There is no way through address translation: nodes must reach each
other's addresses.

A node with the key may still lie, flood or fall silent. So

- a name belongs to a place, as long as a node answers there: who comes in a name is believed when the node at the place
  that it names says, asked over another line, that it has opened this one;
- what a node says of itself is taken from it alone. What it says of others is a hint where they may be, or what they
  had published; such a node counts once it has answered itself, and is passed on to others only then;
- nobody is waited for longer than an answer may take, several are asked at a time, and who was silent or slow is left
  alone for some time;
- what is held for a node is bounded, and beyond a bound what goes is that of whoever has the most.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address
from itertools import chain, islice, zip_longest
from multiprocessing import AuthenticationError

from hocket.core.errors import ConfigurationError, HocketError
from hocket.distributed.swarm.blobs import PIECE, MissingPiece, address, is_name, manifest_of, nearest, taken_apart
from hocket.distributed.swarm.frames import (
    FRAME,
    EntryList,
    Frame,
    Given,
    Hello,
    Mine,
    PieceRequest,
    SentGroups,
    Yours,
    encoded,
    greeting,
    read,
)
from hocket.distributed.swarm.inbox import Inbox
from hocket.distributed.swarm.lines import IDLE, MEMBERS, STRANGERS, Door, Line, dialled, is_address
from hocket.distributed.swarm.peers import PEERS, Peer, Peers, Speaker
from hocket.distributed.swarm.registry import MOST, NAMES, EntryMessage, EntryRegistry

COPIES = 3
"""How many nodes keep a piece besides its publisher."""

WAIT = 5.0
"""Seconds that an answer may take."""

HELD = 2**12
"""Pieces that are kept, at most."""

TOGETHER = 16
"""Nodes that are asked at the same time."""

LATE = 10
"""Late answers of one node, each over a fifth of what an answer may take, that fetching a thing waits for."""

HINTS = 32
"""Nodes heard of by one node that are looked for at a time; half as many after each in a row that was not there."""

AGAIN = 60.0
"""Seconds before a place where nobody was found is looked at again, and before who told of many such is heeded."""

FORMER = 128
"""Nodes that are no longer there whose words are kept."""

SILENT = "is silent"
"""Of a place: whoever listens there says nothing."""


class SameName(HocketError):
    """Another node answers by this node's name."""


class Mesh:
    """A node's place among the others.

    Args:
        node: its name, which no other has. host, port: where it listens; port 0 takes a free one.
        key: the secret that all nodes share. wait: seconds that an answer may take.
        strangers, members: lines at most that have not shown the key yet, and that have.

    Attributes:
        registry: what is known of all. inbox: what was sent and not read. pieces: that it keeps.
        counts: what happened on the lines. where: `HOST:PORT`.

    Raises:
        ConfigurationError: when it cannot listen there.
    """

    def __init__(
        self,
        node: str,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        key: bytes,
        wait: float = WAIT,
        strangers: int = STRANGERS,
        members: int = MEMBERS,
    ) -> None:
        self.node, self.registry, self.inbox = node, EntryRegistry(node), Inbox()
        self.pieces: dict[str, bytes] = {}
        self.counts: Counter[str] = Counter()
        self._key, self._wait, self._life = key, wait, secrets.token_hex(8)
        self._lock = threading.RLock()
        self._peers = Peers(self._drop)
        self._givers: dict[str, str] = {}
        self._heard: dict[str, list[EntryMessage]] = {}
        self._nobody: dict[str, float] = {}
        self._out: set[Line] = set()
        self._closed = False
        try:
            self._door = Door(
                (host, port), key, self._serve, seconds=wait, strangers=strangers, members=members, counts=self.counts
            )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"listen = {host}:{port}: {reason}; choose another port, or 0") from error
        self.where = self._door.where
        self._host = self.where.rpartition(":")[0]
        if IPv4Address(self._host).is_unspecified:
            self._door.close()
            raise ConfigurationError(
                f"listen = {host}: a node is found by one address; name the one by which the others reach this machine"
            )
        self.registry.write("where", self.where)
        self._door.open()

    # ------------------------------------------------------------ others

    def join(self, *places: str) -> None:
        """Makes itself known to the nodes that listen at `HOST:PORT`, and learns of all that they know.

        Raises:
            ConfigurationError: when none of them answers, or one has another key or this node's name.
        """
        answered = [self._greet(place) for place in places]
        if places and not any(answered):
            raise ConfigurationError(f"join = {', '.join(places)}: nobody answers there; start that node first")
        self.gossip()

    def gossip(self) -> None:
        """Tells all nodes what it knows, and learns what they know; looks for nodes that it has only heard of."""
        with self._lock:
            known = [partial(self._tell, node) for node, _ in self._peers.items()]
        self._together([*known, *(partial(self._look, *hint) for hint in self._hints())])

    def others(self) -> list[str]:
        """The nodes that have answered and have not left."""
        with self._lock:
            return self._peers.names()

    def lives(self) -> dict[str, str]:
        """What tells a node from an earlier one of its name, by name."""
        with self._lock:
            return {name: peer.life for name, peer in self._peers.items()}

    def send(self, data: bytes) -> None:
        """Sends something to all others; who does not answer misses it."""

        def sent(node: str) -> None:
            self._ask(node, SentGroups(data))
            self.counts["sent"] += 1

        self._together([partial(sent, node) for node in self.others()])

    def drained(self) -> list[tuple[str, bytes]]:
        """What has arrived since, with who sent it."""
        return self.inbox.drained()

    # ------------------------------------------------------------ what is published

    def publish(self, name: str, data: bytes) -> str:
        """Hands a thing's pieces to those that are to keep them, and announces it; its address.

        Raises:
            ConfigurationError: when it has more pieces than a node keeps.
        """
        manifest, pieces = taken_apart(data)
        if len(manifest.pieces) >= HELD:
            most = HELD * PIECE // 2**20
            raise ConfigurationError(
                f"publish: {name} of {len(data) // 2**20} MiB; nodes keep less than {most} MiB each"
            )
        written = manifest.written()
        pieces[address(written)] = written
        for piece, part in pieces.items():
            self._keep(piece, part, self.node)
            with self._lock:
                answering = [node for node, peer in self._peers.items() if not peer.failures]
            for node in nearest(piece, answering, COPIES):
                with suppress(HocketError):
                    self._ask(node, Given(part), patient=True)
        with self._lock:
            self.registry.write(name, address(written))
        return address(written)

    def fetch(self, name: str) -> bytes:
        """A thing by its address, from whoever has its pieces.

        Raises:
            MissingPiece: when a piece is nowhere, or it has more of them than a node keeps.
        """
        spent = Counter[str]()
        manifest = manifest_of(self._piece(name, spent))
        if len(manifest.pieces) >= HELD:
            raise MissingPiece(f"{name} has {len(manifest.pieces)} pieces; nodes keep less than {HELD}")
        return manifest.joined({piece: self._piece(piece, spent) for piece in manifest.pieces})

    def newest(self, name: str) -> list[tuple[str, str]]:
        """What others announce under a name: the node and the address, who announced most often first.

        What is only heard of them comes last.
        """
        with self._lock:
            entries = [entry for entry in self.registry.entries() if entry.name == name and entry.node != self.node]
            known = {entry.node for entry in entries}
            heard = {entry for every in self._heard.values() for entry in every if entry.name == name}
        parts = entries, [entry for entry in heard if entry.node not in known]
        ordered = (
            sorted(part, key=lambda entry: (-entry.entry.count, entry.node, entry.entry.value)) for part in parts
        )
        return [(entry.node, entry.entry.value) for entry in chain(*ordered)]

    def _piece(self, name: str, spent: Counter[str]) -> bytes:
        """A piece; what nodes have cost is `spent`, and who does not answer, or late too often, is left out."""
        if not is_name(name):
            raise MissingPiece(f"{name[:40]!r} is no name of a piece")
        if name in self.pieces:
            return self.pieces[name]
        everybody = self.others()
        for node in nearest(name, [peer for peer in everybody if spent[peer] < LATE], len(everybody)):
            begun = time.monotonic()
            try:
                answer = self._ask(node, PieceRequest(name), patient=True)
            except HocketError:
                spent[node] = LATE
                continue
            spent[node] += time.monotonic() - begun > self._wait / 5
            if isinstance(answer, Given) and answer.data is not None:
                if address(answer.data) == name:
                    self._keep(name, answer.data, self.node)
                    return answer.data
                self.counts["damaged"] += 1
        raise MissingPiece(f"piece {name} is with none of {len(everybody)} nodes")

    def _keep(self, name: str, data: bytes, giver: str) -> None:
        """Keeps a piece; where there are too many goes the oldest of whoever gave the most."""
        with self._lock:
            self.pieces[name], self._givers[name] = data, giver
            while len(self.pieces) > HELD:
                [(most, _)] = Counter(self._givers.values()).most_common(1)
                oldest = next(piece for piece, by in self._givers.items() if by == most)
                self.pieces.pop(oldest, None)
                self._givers.pop(oldest)

    # ------------------------------------------------------------ asking

    def close(self) -> None:
        """Says that it leaves, and ends all lines."""
        with self._lock:
            self.registry.write("where", "")
        self._together([partial(self._tell, node) for node in self.others()])
        self.vanish()

    def vanish(self) -> None:
        """Ends all lines without a word."""
        self._closed = True
        self._door.close()
        for line in list(self._out):
            self._drop(line)

    def _together(self, jobs: Sequence[Callable[[], object]]) -> None:
        """Does what asks others, several at a time; what has not begun within the time of an answer is left out."""
        end = time.monotonic() + self._wait

        def done(job: Callable[[], object]) -> None:
            if time.monotonic() < end:
                with suppress(HocketError):
                    job()

        if len(jobs) == 1:
            done(jobs[0])
        elif jobs:
            with ThreadPoolExecutor(min(TOGETHER, len(jobs))) as pool:
                list(pool.map(done, jobs))

    def _tell(self, node: str) -> None:
        answer = self._ask(node, self._all())
        if isinstance(answer, EntryList) and answer.node == node:
            self._learn(node, answer)
        else:  # Another listens there now.
            with self._lock:
                self._peers.remove(node)

    def _all(self, asking: str = "") -> EntryList:
        """What is told to others, as much as a message holds: of other nodes what they have said themselves.

        Where those that answer are, and the node of the name of who is `asking`, which may be another than that.
        """
        with self._lock:
            reachable = {self.node, asking, *(name for name, peer in self._peers.items() if not peer.failures)}
            every = [entry for entry in self.registry.entries() if entry.name != "where" or entry.node in reachable]
        size, entries = 1024, list[EntryMessage]()
        for entry in sorted(every, key=lambda entry: entry.node != self.node)[:MOST]:  # Its own first.
            size += 4 * (len(entry.node) + len(entry.name) + len(entry.entry.value)) + 64  # Bytes at most.
            if size > FRAME:
                break
            entries.append(entry)
        return EntryList(entries, self.node, self._life)

    def _ask(self, node: str, frame: Frame, *, patient: bool = False) -> Frame:
        """A node's answer. One that was silent or slow is asked again after some time only, unless one is `patient`.

        Raises:
            HocketError: when it does not answer in time; its line is opened anew the next time.
        """
        with self._lock:
            peer = self._peers.get(node)
        if peer is None:
            raise HocketError(f"{node} has left")
        if not patient and peer.resting:
            raise HocketError(f"{node} was silent or slow, and is left alone for a while")
        if not peer.lock.acquire(timeout=self._wait):
            raise HocketError(f"{node} has not answered another question yet")
        begun = time.monotonic()
        try:
            answer = self._over(peer, frame)
        except (OSError, EOFError, AuthenticationError, HocketError) as error:
            self.counts["unanswered"] += 1
            self._hang_up(peer)
            peer.failed(time.monotonic() - begun)
            raise HocketError(f"{node} does not answer: {error}") from error
        finally:
            peer.lock.release()
        peer.answered(time.monotonic() - begun, self._wait)
        return answer

    def _over(self, peer: Peer, frame: Frame) -> Frame:
        if peer.line is not None:
            try:
                return self._exchanged(peer.line, frame)
            except (EOFError, ConnectionError):  # It was closed meanwhile.
                self._hang_up(peer)
        peer.line = self._dialled(peer.place, self._wait)
        return self._exchanged(peer.line, frame)

    def _exchanged(self, line: Line, frame: Frame) -> Frame:
        line.within(self._wait)
        line.send_bytes(encoded(frame))
        return read(line)

    def _dialled(self, place: str, seconds: float) -> Line:
        """A line on which so much time is left as opening it has spared."""
        line = dialled(place, self._key, seconds, source=self._host, token=secrets.token_hex(16))
        self._out.add(line)
        try:
            line.send_bytes(encoded(Hello(self.node, self.where, line.token)))
        except BaseException:
            self._drop(line)
            raise
        return line

    def _quickly(self, place: str, question: Yours) -> Frame:
        """What a place answers while another waits for what comes of it."""
        line = self._dialled(place, self._wait / 4)
        try:
            line.send_bytes(encoded(question))
            return read(line)
        finally:
            self._drop(line)

    def _hang_up(self, peer: Peer) -> None:
        if peer.line is not None:
            self._drop(peer.line)
            peer.line = None

    def _drop(self, line: Line) -> None:
        self._out.discard(line)
        line.close()

    # ------------------------------------------------------------ who is there

    def _greet(self, place: str) -> bool:
        """Whether somebody answers at a place, from whom all is learnt."""
        try:
            reply = self._met(place)
        except AuthenticationError as error:
            raise ConfigurationError(f"join = {place}: that node has another key") from error
        except SameName as error:
            raise self._taken(place) from error
        except (OSError, EOFError, HocketError):
            return False
        claimed = next(
            (entry.entry.value for entry in reply.entries if (entry.node, entry.name) == (self.node, "where")), ""
        )
        if claimed and claimed != self.where and self._at(claimed) in (self.node, SILENT):
            raise self._taken(claimed)
        return True

    def _taken(self, place: str) -> ConfigurationError:
        return ConfigurationError(
            f"name = {self.node}: a node of that name is there already, at {place}; choose another"
        )

    def _look(self, place: str, by: str) -> None:
        """Looks for a node at a place that another has told of; who is there says itself who it is."""
        try:
            self._met(place)
            reached = True
        except (OSError, EOFError, AuthenticationError, HocketError):
            reached = False
        with self._lock:
            if not reached:
                self._nobody[place] = time.monotonic() + AGAIN
            while len(self._nobody) > HELD:
                self._nobody.pop(next(iter(self._nobody)))
            if (teller := self._peers.get(by)) is not None:
                teller.hinted(reached, time.monotonic() + AGAIN)

    def _hints(self) -> list[tuple[str, str]]:
        """Places to look at, with who has told of them; tellers take turns."""
        moment = time.monotonic()

        def of(teller: str) -> Iterator[tuple[str, str]]:
            for entry in self._heard.get(teller, ()):
                place = entry.entry.value
                if entry.name == "where" and entry.node not in self._peers and place not in known:
                    known.add(place)
                    if is_address(place) and self._nobody.get(place, moment) <= moment:
                        yield place, teller

        with self._lock:
            known = {self.where, *(peer.place for _, peer in self._peers.items())}
            rows = [list(islice(of(name), peer.heeded(HINTS))) for name, peer in self._peers.items()]
        return [hint for row in zip_longest(*rows) for hint in row if hint is not None][: 2 * HINTS]

    def _met(self, place: str) -> EntryList:
        """What the node at a place tells, which is one of the others from then on.

        Raises:
            HocketError: when its name belongs to another.
            OSError, EOFError, AuthenticationError: when it does not answer, or has another key.
        """
        line = self._dialled(place, self._wait)
        try:
            reply = self._exchanged(line, self._all())
            if not isinstance(reply, EntryList) or not reply.node:
                raise HocketError(f"{place}: no node answers")
            if reply.node == self.node:
                raise SameName(place)
            if not self._claimed(reply.node, line.there):
                raise HocketError(f"{reply.node} is at another place")
        finally:
            self._drop(line)
        self._learn(reply.node, reply)
        return reply

    def _learn(self, node: str, message: EntryList) -> None:
        """Takes from a node what it says of itself, and keeps apart what it says of others."""
        with self._lock:
            peer = self._peers.get(node)
            if peer is None:
                return
            if peer.life != message.life:
                peer.life = message.life
                self.registry.forget(node)
            entries = [entry for entry in message.entries if entry.node == node]
            self.registry.merge(
                entry for entry in entries if entry.name != "where" or entry.entry.value in ("", peer.place)
            )
            others = (entry for entry in message.entries if entry.node not in (node, self.node))
            self._heard[node] = list(islice(others, NAMES * PEERS))
            if self.registry.read(node, "where") == "":
                self._peers.remove(node)
            for gone in [teller for teller in self._heard if teller not in self._peers]:
                del self._heard[gone]

    def _claimed(self, node: str, place: str) -> bool:
        """Whether a name belongs to a place, as it does where it is free or nobody answers by it at its old place."""
        if node == self.node:
            return False
        with self._lock:
            peer = self._peers.get(node)
            if peer is not None and peer.place == place:
                return True
        if peer is not None and self._at(peer.place) in (node, SILENT) and not peer.forgotten:
            self.counts["names refused"] += 1
            return False
        with self._lock:
            if self._peers.get(node) is not peer:
                return False
            self._peers.add(node, place)
            former = [other for other in self.registry.known() if other not in self._peers]
            for other in (node, *former[:-FORMER]):
                self.registry.forget(other)
        return True

    def _at(self, place: str) -> str:
        """Who answers at a place: a name, "" where no node listens, or `SILENT`."""
        try:
            answer = self._quickly(place, Yours("", self.where))
        except (TimeoutError, EOFError, ConnectionResetError, BrokenPipeError):
            return SILENT
        except (OSError, AuthenticationError, HocketError):
            return ""
        return answer.node if isinstance(answer, Mine) else ""

    # ------------------------------------------------------------ answering

    def _serve(self, line: Line) -> None:
        """Answers one line until it ends; what is no message ends it."""
        try:
            speaker = Speaker(greeting(line), line)
            while not self._closed:
                line.wait(IDLE)
                line.within(self._wait)
                answer = self._answer(speaker, read(line))
                line.within(self._wait)
                line.send_bytes(encoded(answer))
                self._door.heard(line)
        except HocketError:
            self.counts["malformed"] += 1

    def _answer(self, speaker: Speaker, frame: Frame) -> Frame:
        if isinstance(frame, PieceRequest):
            return Given(self.pieces.get(frame.name))
        if isinstance(frame, Yours):
            opened = any((greeting.token, greeting.there) == (frame.token, frame.place) for greeting in list(self._out))
            return Mine(self.node, opened)
        known = self._known(speaker)
        if not known:
            self.counts["unknown"] += 1
        if isinstance(frame, EntryList):
            if known:
                self._learn(speaker.node, frame)
            return self._all(speaker.node)
        if known and isinstance(frame, SentGroups) and (gone := self.inbox.put(speaker.node, frame.data)):
            self.counts["crowded out"] += gone
        if known and isinstance(frame, Given) and frame.data is not None:
            self._keep(address(frame.data), frame.data, speaker.node)
        return Given(None)

    def _known(self, speaker: Speaker) -> bool:
        """Whether who speaks is who it says, as the node at its place says too. It is one of the others then."""
        with self._lock:
            peer = self._peers.get(speaker.node)
            if speaker.proven and peer is not None and peer.place == speaker.where:
                peer.present()
                return True
        if speaker.early(self._wait):
            return False
        speaker.proven = self._vouched(speaker) and self._claimed(speaker.node, speaker.where)
        return speaker.proven

    def _vouched(self, speaker: Speaker) -> bool:
        """Whether the node at a speaker's place has opened its line."""
        if not speaker.token or not is_address(speaker.where) or speaker.host != speaker.where.rpartition(":")[0]:
            return False
        try:
            return self._quickly(speaker.where, Yours(speaker.token, speaker.line.here)) == Mine(speaker.node, True)
        except (OSError, EOFError, AuthenticationError, HocketError):
            return False
