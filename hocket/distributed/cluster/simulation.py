"""`hocket simulate`: what asynchronous training does on many nodes, event by event under simulated time.

Admission, dropping and asking again are the real rule (`admission.GroupAdmission`); lengths, links and faults are drawn
from keys, so the same settings give the same result. Nothing is computed by a model.

Weights reach the nodes through two trees that carry half of them each, a node that passes on in one being a leaf of the
other (Sanders, Speck and Traeff, Parallel Computing 35, 2009): every link is used in full both ways, and what the depth
of the trees adds is a chunk and a delay per level. Without relays the first process sends to one node after the other.
A node takes one version at a time and, in order of arrival, only the newest there is when its link is free.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.distributed.cluster.admission import GroupAdmission, GroupTicket, Order


@dataclass(frozen=True)
class Fleet:
    """What is simulated. Times in seconds, sizes in bytes, links in bits a second.

    `places` are groups a node draws at a time; the tokens of a group's longest sample are log-normal with this `median`
    and `spread` (standard deviation of the logarithm). Of the nodes a share `die`, at a random step, for good, and a
    share `slow` draws ten times slower; a share `lost` of the results does not arrive, as large a share arrives twice.
    A lost result and a death are noticed after `notice` seconds.
    """

    nodes: int = 100
    places: int = 8
    batch: int = 1024
    steps: int = 100
    lag: int = 2
    order: Order = "arrival"
    link: float = 1e9
    delay: float = 0.08
    weights: float = 4.8e6
    relays: bool = True
    chunk: float = 4e6
    median: float = 500.0
    spread: float = 0.8
    speed: float = 50.0
    learn: float = 30.0
    die: float = 0.0
    slow: float = 0.0
    lost: float = 0.0
    notice: float = 30.0
    seed: int = 0

    def __post_init__(self) -> None:
        small = [n for n in ("nodes", "places", "batch", "steps") if getattr(self, n) < 1]
        small += [n for n in ("link", "weights", "chunk", "median", "speed", "learn") if not getattr(self, n) > 0]
        small += [n for n in ("delay", "spread", "notice", "lag") if not getattr(self, n) >= 0]
        small += [n for n in ("slow", "die", "lost") if not 0 <= getattr(self, n) <= 1]
        if small:
            raise ConfigurationError(f"{small[0]} cannot be {getattr(self, small[0])}")


def arrival(fleet: Fleet, node: int) -> float:
    """Seconds from publishing until a node holds the weights, where all links are free."""
    seconds = fleet.weights * 8 / fleet.link
    if not fleet.relays:
        return (node + 1) * seconds + fleet.delay
    chunk = min(fleet.chunk, fleet.weights / 2) * 8 / fleet.link
    # In the other tree it stands at the mirrored place; the deeper of the two is later.
    depth = max(math.floor(math.log2(n)) for n in (node + 1, fleet.nodes - node))
    return seconds + depth * 2 * chunk + (depth + 1) * fleet.delay


@dataclass
class SimulatedSampler:
    """A sampler: the versions it holds, what it draws, and whether it is alive."""

    held: list[int] = field(default_factory=lambda: [0])
    running: set[GroupTicket] = field(default_factory=set)
    coming: list[int] = field(default_factory=list)
    loading: bool = False
    slow: bool = False
    dies: int | None = None
    dead: bool = False


class Simulation:
    """A run of `fleet`; `run` gives its figures."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.admission = GroupAdmission(fleet.batch, fleet.lag, fleet.order)
        self.key = Key.of(fleet.seed).derive("simulation")
        self.now, self._events, self._count = 0.0, list[tuple[float, int, Callable[[], None]]](), 0
        self.nodes = [SimulatedSampler() for _ in range(fleet.nodes)]
        for n, node in enumerate(self.nodes):
            node.slow = self._chance("slow", n) < fleet.slow
            if self._chance("die", n) < fleet.die:
                node.dies = int(self._chance("when", n) * fleet.steps)
        self._learning = False
        self._waiting: dict[int, None] = {}
        self.lags: Counter[int] = Counter()
        self.sent = self.drawn = self.used = 0.0
        self._cost: dict[int, float] = {}

    def run(self) -> dict[str, Any]:
        """The figures of the run.

        Raises:
            ConfigurationError: every node died before the last step.
        """
        self._die()
        for n in range(len(self.nodes)):
            self._fill(n)
        while self.admission.version < self.fleet.steps:
            if not self._events:
                raise ConfigurationError(f"no node is left after {self.admission.version} steps")
            self.now, _, act = heapq.heappop(self._events)
            act()
        steps = self.fleet.steps
        return {
            "steps": steps,
            "hours": self.now / 3600,
            "steps/hour": steps / self.now * 3600,
            "learner/busy": steps * self.fleet.learn / self.now,
            "waste": 1 - self.used / self.drawn,
            "dropped": self.admission.dropped,
            "lag": {str(lag): count for lag, count in sorted(self.lags.items())},
            "bytes": self.sent,
            "alive": sum(not node.dead for node in self.nodes),
        }

    def _chance(self, *path: str | int) -> float:
        return ((self.key.derive(*path).word >> 12) + 0.5) * 2.0**-52

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, act))

    # ------------------------------------------------------------ sampling

    def _fill(self, n: int) -> None:
        node = self.nodes[n]
        while not node.dead and len(node.running) < self.fleet.places:
            ticket = self.admission.begin(node.held)
            if ticket is None:
                self._waiting[n] = None
                return
            self._draw(n, ticket)

    def _draw(self, n: int, ticket: GroupTicket) -> None:
        node, fleet = self.nodes[n], self.fleet
        normal = NormalDist().inv_cdf(self._chance("length", ticket.group, ticket.attempt))
        seconds = fleet.median * math.exp(fleet.spread * normal) / fleet.speed
        node.running.add(ticket)
        self._cost[ticket.group] = seconds
        self._after(seconds * (10 if node.slow else 1), lambda: self._drawn(n, ticket, seconds))

    def _drawn(self, n: int, ticket: GroupTicket, seconds: float) -> None:
        node, fleet = self.nodes[n], self.fleet
        if node.dead:
            return
        node.running.discard(ticket)
        self.drawn += seconds
        luck = self._chance("message", ticket.group, ticket.attempt) if fleet.lost else 1.0
        if luck < fleet.lost:
            self._after(fleet.notice, lambda: self._lose(ticket))
        else:
            for _ in range(2 if luck > 1 - fleet.lost else 1):
                self._after(fleet.delay, lambda: self._result(ticket))
        self._fill(n)

    def _result(self, ticket: GroupTicket) -> None:
        self.admission.finish(ticket)
        self._learn()

    def _lose(self, ticket: GroupTicket) -> None:
        self.admission.lose(ticket)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for n in waiting:
            self._fill(n)

    def _die(self) -> None:
        for node in self.nodes:
            if node.dies == self.admission.version and not node.dead:
                node.dead = True
                for ticket in sorted(node.running):
                    self._after(self.fleet.notice, lambda ticket=ticket: self._lose(ticket))  # type: ignore[misc]

    # ------------------------------------------------------------ learning and publishing

    def _learn(self) -> None:
        if self._learning or (taken := self.admission.take()) is None:
            return
        self._learning = True
        self._after(self.fleet.learn, lambda: self._learnt(taken))

    def _learnt(self, taken: tuple[GroupTicket, ...]) -> None:
        for ticket in taken:
            self.lags[self.admission.version - ticket.version] += 1
            self.used += self._cost.pop(ticket.group)
        self._learning = False
        self.admission.learnt(taken)
        self._die()
        for n, node in enumerate(self.nodes):
            if not node.dead:
                # In order of start every version is needed; else only the newest.
                if self.fleet.order == "arrival":
                    node.coming.clear()
                node.coming.append(self.admission.version)
                self._load(n)
        self._wake()
        self._learn()

    def _load(self, n: int) -> None:
        node = self.nodes[n]
        if node.dead or node.loading or not node.coming:
            return
        node.loading = True
        version = node.coming.pop(0)
        self.sent += self.fleet.weights
        self._after(arrival(self.fleet, n), lambda: self._loaded(n, version))

    def _loaded(self, n: int, version: int) -> None:
        node = self.nodes[n]
        node.loading = False
        keep = self.fleet.lag + 1 if self.fleet.order == "start" else 1
        node.held = [*node.held, version][-keep:]
        self._load(n)
        self._fill(n)
