"""One slotted channel that several nodes send over, in words: who sends in the same slot as another is not heard.

All nodes decide at once. In a slot with one sender its packet is delivered, and the whole team earns; what happened is
the base station's message to all, the same for everybody. Nobody hears the others, so who sends when is a protocol
that the nodes must find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

SEND, WAIT = MOVES = ("send", "wait")
ASK = "ask"
"""Waiting with a message to the base station, which passes it on to all: who asked in the slot before."""
IDLE, RECEIVED, COLLISION = HEARD = ("idle", "received", "collision")
"""What the base station says of the slot before."""

NODES = (2, 8)
"""Bounds of how many nodes share a channel."""


@dataclass(frozen=True)
class Uplinks:
    """Channels that nodes share.

    Attributes:
        nodes: how many. slots: of an episode. buffer: packets that a node holds at most, with which it begins.
        arrivals: the chance that a node with room gets a packet after a slot; at 0 it has those that it begins with, at
            1 there is always one to send, and one node that always sends is the best that the channel can do.
        identified: whether a node is told its number. signals: whether nodes may ask, a third move.
    """

    nodes: int = 2
    slots: int = 4
    buffer: int = 2
    arrivals: float = 0.0
    identified: bool = True
    signals: bool = False

    cooperative = True

    def __post_init__(self) -> None:
        if not NODES[0] <= self.nodes <= NODES[1] or self.slots < 1 or self.buffer < 1 or not 0 <= self.arrivals <= 1:
            raise ConfigurationError(
                f"uplink: {NODES[0]} to {NODES[1]} nodes, slots and buffer from 1 and arrivals in [0, 1], not "
                f"{self.nodes}, {self.slots}, {self.buffer} and {self.arrivals}"
            )

    @property
    def name(self) -> str:
        return f"uplink?nodes={self.nodes}&slots={self.slots}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"node_{number}" for number in range(1, self.nodes + 1))

    @property
    def moves(self) -> tuple[str, ...]:
        """What a node may do in a slot."""
        return (*MOVES, ASK) if self.signals else MOVES

    @property
    def limit(self) -> int:
        """Moves of an episode, those of all nodes together."""
        return self.nodes * self.slots

    def make(self, scenario: Scenario) -> Uplink:
        return Uplink(self)


class Uplink(Environment):
    """One episode. Each delivered packet earns every node `1 / slots`, so a return is the channel's throughput.

    A move that is not legal, and sending with an empty buffer, is waiting.

    Attributes:
        slot: how many are over. buffers: packets of each node. heard: the base station's message. asked: the numbers of
            the nodes that asked in the slot before.
    """

    def __init__(self, world: Uplinks) -> None:
        self.world, self.agents = world, world.agents
        self.reset(Key.of(0))

    def reset(self, key: Key) -> None:
        self.slot, self.heard = 0, IDLE
        self.asked: list[int] = []
        self.buffers = [self.world.buffer] * self.world.nodes
        self._rng = key.numpy()
        self._wrong = dict.fromkeys(self.agents, 0)

    @property
    def acting(self) -> tuple[str, ...]:
        return self.agents if self.slot < self.world.slots else ()

    @property
    def illegal(self) -> Mapping[str, int]:
        return self._wrong

    def observe(self, agent: str) -> Observation:
        number = self.agents.index(agent)
        who = (
            f"Node {number + 1} of {self.world.nodes}" if self.world.identified else f"One of {self.world.nodes} nodes"
        )
        text = f"{who}. Slot {self.slot + 1}. Packets {self.buffers[number]}. Heard: {self.heard}."
        if self.world.signals:
            text += f" Asking: {', '.join(map(str, self.asked)) or 'nobody'}."
        return Observation(text, self.world.moves if self.acting else (), state=text)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        choices = {agent: same_move(moves[agent], self.world.moves) for agent in self.agents}
        for agent, move in choices.items():
            self._wrong[agent] += move is None
        senders = [n for n, agent in enumerate(self.agents) if choices[agent] == SEND and self.buffers[n]]
        self.heard = HEARD[min(len(senders), 2)]
        self.asked = [number for number, agent in enumerate(self.agents, start=1) if choices[agent] == ASK]
        if len(senders) == 1:
            self.buffers[senders[0]] -= 1
        arrived = self._rng.random(self.world.nodes) < self.world.arrivals
        self.buffers = [min(self.world.buffer, n + int(new)) for n, new in zip(self.buffers, arrived, strict=True)]
        self.slot += 1
        return dict.fromkeys(self.agents, float(len(senders) == 1) / self.world.slots)


def aloha(nodes: int, sends: float | None = None) -> float:
    """The throughput of nodes that always have a packet and send independently, each with a chance; at best `1/n`.

    `n p (1 - p)^(n - 1)`, whose largest value, at p = 1/n, falls to 1/e as nodes become many.
    """
    chance = 1.0 / nodes if sends is None else sends
    return float(nodes * chance * np.power(1.0 - chance, nodes - 1))
