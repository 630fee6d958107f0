"""Claims of nodes without a coordinator. All processes are of one machine: lines are TCP over the loopback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hocket.core.keys import Key
from hocket.distributed.swarm.blobs import MissingPiece, address, nearest, taken_apart
from hocket.distributed.swarm.mesh import COPIES, Mesh
from hocket.distributed.swarm.registry import Entry, EntryMessage, EntryRegistry
from hocket.lab.claims.harness import Claims, Finding, say

claim = Claims("lattica", "abstract")

KEY = b"a key of this claim"


@contextmanager
def meshes(count: int) -> Iterator[list[Mesh]]:
    """Nodes that know each other."""
    with ExitStack() as stack:
        made = list[Mesh]()
        for number in range(count):
            made.append(Mesh(f"node-{number}", key=KEY))
            stack.callback(made[-1].vanish)
            made[-1].join(*(one.where for one in made[:-1][-1:]))
        for one in made:
            one.gossip()
        yield made


@claim("Whatever order, company and number of times entries are heard in, some lost on the way: copies end equal.")
def whatever_order_company_and_number_of_times_entries_are_heard_in() -> Finding:
    """Six nodes write; random pairs tell each other random parts, doubled and unordered; at the end each hears all."""
    draw, equal, apart = Key.of(0).derive("registry").numpy(), 0, 0
    for _ in range(40):
        copies = [EntryRegistry(f"n{i}") for i in range(6)]
        for _ in range(60):
            one, other = (int(i) for i in draw.choice(6, 2, replace=False))
            copies[one].write(f"name {draw.integers(3)}", str(draw.integers(4)))
            told = copies[one].entries()
            part = [told[int(i)] for i in draw.integers(len(told), size=draw.integers(2 * len(told) + 1))]
            copies[other].merge(part)
        apart += copies[0].entries() != copies[1].entries()
        everything = [copy.entries() for copy in copies]
        for copy in copies:
            for place in draw.permutation(6):
                copy.merge(everything[int(place)])
        equal += all(copy.entries() == copies[0].entries() for copy in copies)
    return Finding(equal == 40 and apart > 20, say(of_40_equal=equal, apart_before=apart))


@claim("Merging is commutative, associative and idempotent; a later entry stays, of equally late ones the larger.")
def merging_is_commutative_associative_and_idempotent_a_later_entry() -> Finding:
    draw, holds = Key.of(1).derive("laws").numpy(), True

    def some() -> list[EntryMessage]:
        rows = draw.integers(3, size=(5, 4)).tolist()
        return [EntryMessage(f"n{a}", f"x{b}", Entry(c, str(d))) for a, b, c, d in rows]

    def merged(*parts: Sequence[EntryMessage]) -> list[EntryMessage]:
        copy = EntryRegistry("me")
        for part in parts:
            copy.merge(part)
        return copy.entries()

    for _ in range(300):
        a, b, c = some(), some(), some()
        holds &= merged(a, b) == merged(b, a) and merged(a, a) == merged(a)
        holds &= merged(merged(a, b), c) == merged(a, merged(b, c)) == merged(a, b, c)
        best: dict[tuple[str, str], Entry] = {}
        for one in (*a, *b):
            place = one.node, one.name
            best[place] = max(best.get(place, one.entry), one.entry)
        holds &= merged(a, b) == sorted(EntryMessage(*place, entry) for place, entry in best.items())
    return Finding(bool(holds), "900 triples")


@claim("Eight nodes, and half of them vanish, the publisher among them: a new node puts the weights together again.")
def eight_nodes_and_half_of_them_vanish_the_publisher_among_them_a() -> Finding:
    data = Key.of(2).derive("weights").numpy().bytes(3_000_000)
    with meshes(8) as every:
        name = every[0].publish("weights", data)
        manifest, _ = taken_apart(data)
        held = [sum(piece in one.pieces for one in every[1:]) for piece in manifest.pieces]
        new = Mesh("new", key=KEY)
        new.join(every[7].where)
        # Three of four copies may be anywhere: the four that go leave one of each piece.
        gone = _spared(manifest.pieces, every)
        for one in gone:
            one.vanish()
        found, begun = new.newest("weights"), time.perf_counter()
        whole = new.fetch(found[0][1]) == data
        seconds = time.perf_counter() - begun
        new.vanish()
    return Finding(
        whole and found == [("node-0", name)] and min(held) == COPIES and len(gone) == 4,
        say(pieces=len(manifest.pieces), copies=COPIES, vanished=len(gone), seconds=round(seconds, 2)),
    )


def _spared(pieces: Sequence[str], every: Sequence[Mesh]) -> list[Mesh]:
    """Four nodes, the first among them, without which each piece still is somewhere."""
    gone = [every[0]]
    for one in every[1:]:
        left = [other for other in every if other not in (*gone, one)]
        if len(gone) < 4 and all(any(piece in other.pieces for other in left) for piece in pieces):
            gone.append(one)
    return gone


@claim(
    "A damaged piece is refused and asked of the next; where all are damaged, in a sentence; a wrong key is refused."
)
def a_damaged_piece_is_refused_and_asked_of_the_next_where_all_are() -> Finding:
    data = Key.of(3).derive("weights").numpy().bytes(700_000)

    def damage(one: Mesh) -> None:
        for name, piece in one.pieces.items():
            one.pieces[name] = bytes([piece[0] ^ 1]) + piece[1:]

    with meshes(5) as every:
        name = every[0].publish("weights", data)
        for one in every[:3]:
            damage(one)
        new = Mesh("new", key=KEY)
        new.join(every[1].where)
        whole, damaged = new.fetch(name) == data, new.counts["damaged"]
        new.vanish()
        for one in every[3:]:
            damage(one)
        other = Mesh("other", key=KEY)
        other.join(every[1].where)
        try:
            other.fetch(name)
            said = "taken"
        except MissingPiece as error:
            said = str(error)
        stranger = Mesh("stranger", key=b"another key")
        try:
            stranger.join(every[1].where)
            refused = "let in"
        except Exception as error:
            refused = str(error)
        for one in (other, stranger):
            one.vanish()
    return Finding(
        whole and damaged > 0 and "is with none of" in said and "another key" in refused,
        say(damaged_pieces_refused=damaged) + f"; {said}; {refused}",
    )


@claim("Pieces have equal shares of the nodes, and when a node leaves only those that it kept have a new place.")
def pieces_have_equal_shares_of_the_nodes_and_when_a_node_leaves() -> Finding:
    names = [address(str(number).encode()) for number in range(2000)]
    nodes = [f"node-{number}" for number in range(20)]
    before = {name: set(nearest(name, nodes, COPIES)) for name in names}
    after = {name: set(nearest(name, nodes[1:], COPIES)) for name in names}
    kept = all(before[name] - {"node-0"} <= after[name] for name in names)
    same = all(before[name] == after[name] for name in names if "node-0" not in before[name])
    shares = [sum(node in held for held in before.values()) / len(names) for node in nodes]
    return Finding(kept and same and max(shares) < 0.5, say(least=min(shares), most=max(shares), even=COPIES / 20))


@claim(
    "`hocket swarm --listen`: three processes learn from each other; one that comes later takes a node's weights.",
    slow=True,
)
def hocket_swarm_listen_three_processes_learn_from_each_other_one() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        common = [
            "--own",
            "1",
            "--shared",
            "1",
            "--rollout.samples",
            "2",
            "--rollout.drop",
            "false",
            "--evaluation.n",
            "4",
        ]
        common += ["--decoding.max_tokens", "8", "--out", folder, "--quiet", "--json"]

        def begun(number: int, *more: str) -> subprocess.Popen[str]:
            where = ["--listen", f"127.0.0.1:{port}" if number == 0 else "127.0.0.1", "--number", str(number)]
            command = [sys.executable, "-m", "hocket", "swarm", *where, *common, *more]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        port = _free_port()
        nodes = [begun(0, "--steps", "2000", "--publish", "1")]
        _await(lambda: _steps(folder, 0) >= 1)
        join = ["--join", f"127.0.0.1:{port}", "--steps", "6", "--adopt"]
        nodes += [begun(number, *join) for number in (1, 2)]
        told = [_told(*node.communicate(timeout=300)) for node in nodes[1:]]
        nodes[0].send_signal(signal.SIGINT)
        told.insert(0, _told(*nodes[0].communicate(timeout=60)))
    every = {name: node for one in told for name, node in one.items()}
    shared = [every[f"node-{number}"]["shared_groups"] for number in range(3)]
    adopted = [every[f"node-{number}"]["adopted"] for number in range(3)]
    heard = all(node["messages"].get("received", 0) for node in every.values())
    return Finding(min(shared) > 0 and heard and adopted[1] == "node-0", say(shared=shared) + f", adopted {adopted}")


def _told(out: str, err: str) -> dict[str, Any]:
    """What a process says of its node."""
    if not out:
        raise RuntimeError(err)
    found: dict[str, Any] = json.loads(out)["nodes"]
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _steps(folder: str, number: int) -> int:
    file = Path(folder) / f"node-{number}" / "metrics.jsonl"
    return len(file.read_text().splitlines()) - 1 if file.is_file() else 0


def _await(done: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the first node makes no step")
        time.sleep(0.1)
