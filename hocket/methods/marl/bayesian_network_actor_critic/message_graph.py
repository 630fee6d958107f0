"""A joint world whose agents decide along a network within a step: each is told the moves of its parents alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.core.wrappers import WorldWrapper
from hocket.methods.marl.bayesian_network_actor_critic.networks import Layout, Networks

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Networked(WrappedWorld):
    """`world`, in every step of which `networks` draws an order of the agents and edges between them.

    Agents decide one after the other in that order, each told, after what it sees, the moves of those before it (see
    `Layout` for all that it sees), and the world moves when the last has decided. What an edge that is not open would
    tell is there as well, so that whoever learns may open it: it is for the network of the policy to leave it out. Each
    pair keeps its edge in a step with probability `left`; where it does not, nothing is told. Without `networks` all
    move at once, and nobody is told anything. Chance is of the episode's seed. Networks are drawn from the joint state,
    or where there is none from what all agents see.

    Attributes:
        networks: what draws them. left: the share of edges that remain.
    """

    networks: Networks | None = field(default=None, compare=False)
    left: float = 1.0

    def __post_init__(self) -> None:
        first = self.world.seats[0]
        if len(self.world.seats) < 2 or not first.discrete or any(seat != first for seat in self.world.seats):
            raise ConfigurationError(
                f"task {self.world.name}: a network is of two agents or more who see and do alike, with discrete "
                "moves; drop networked"
            )
        if not 0 <= self.left <= 1:
            raise ConfigurationError(f"task {self.world.name}: left = {self.left}; it is a share of all edges")

    @property
    def layout(self) -> Layout:
        """Of what each agent sees."""
        seats = self.world.seats
        context = self.world.joint or sum(seat.observations for seat in seats)
        return Layout(seats[0].observations, context, len(seats), seats[0].actions)

    @property
    def seats(self) -> tuple[Seat, ...]:
        layout = self.layout
        own = replace(self.world.seats[0], observations=sum(layout.parts), sight_form=layout)
        return (own,) * layout.agents

    def open(self, width: int) -> JointEnvironment:
        return _AlongNetworks(self, width)


class _AlongNetworks(WrappedCourse):
    """The copies.

    `turn`: how many have decided in a copy's step, `[B]`; `place`: everybody's in the order, `[B, n]`; `parents`,
    `chance` and what is `kept` of them: of edges, from the first of a pair, `[B, n, n]`.
    """

    def __init__(self, world: Networked, width: int) -> None:
        super().__init__(world.world.open(width))
        self.world, self.layout, count = world, world.layout, world.layout.agents
        self.words, self.time = np.zeros((width, 1), np.uint64), np.zeros(width, np.int64)
        self.turn, self.place = np.zeros(width, np.int64), np.zeros((width, count), np.int64)
        self.chosen = np.zeros((width, count), np.int64)
        self.order = np.zeros((width, count), np.float32)
        self.chance = np.zeros((width, count, count), np.float32)
        self.parents = np.zeros((width, count, count), bool)
        self.kept = np.zeros((width, count, count), bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.words[slot], self.time[slot], self.turn[slot] = Key.of(seed).derive("network").word, 0, 0
        failed = self._course.reset(slots, seeds)
        self._draw(np.isin(np.arange(len(self.turn)), slots))
        return failed

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        if self.world.networks is None:
            return self._course.step(actions, live)
        count = self.layout.agents
        mine = self._next() & live[:, None]
        self.chosen = np.where(mine, np.stack(actions, 1), self.chosen)
        ready = live & (self.turn == count - 1)
        self.turn = np.where(live, (self.turn + 1) % count, self.turn)
        if not ready.any():
            nothing = np.zeros((len(live), count), bool)
            return Moved(np.zeros((len(live), count)), nothing, nothing)
        moved = self._course.step(list(self.chosen.T), ready)
        self.time = self.time + ready
        self._draw(ready)
        here = ready[:, None]
        return Moved(
            np.where(here, moved.rewards, 0.0), moved.terminated & here, moved.truncated & here, moved.failures
        )

    def acting(self) -> NDArray[np.bool_] | None:
        return self._course.acting() if self.world.networks is None else self._next()

    def _next(self) -> NDArray[np.bool_]:
        """Whose place in the order it is, `[B, n]`."""
        turn: NDArray[np.bool_] = self.place == self.turn[:, None]
        return turn

    def _draw(self, fresh: NDArray[np.bool_]) -> None:
        """Networks for the step that begins in these copies."""
        if self.world.networks is None:
            return
        count = self.layout.agents
        size = count + 2 * count**2
        counters = (self.time[:, None] * size + np.arange(size)).astype(np.uint64)
        drawn = uniforms(self.words, counters)
        first, second, third = np.split(drawn, (count, count + count**2), 1)
        square = (len(drawn), count, count)
        now = fresh[:, None, None]
        self.order = np.where(fresh[:, None], -np.log(-np.log(first)), self.order).astype(np.float32)
        self.chance = np.where(now, np.log(second / (1 - second)).reshape(square), self.chance).astype(np.float32)
        self.kept = np.where(now, (third < self.world.left).reshape(square), self.kept)
        # Of all copies, so that a row's numbers do not depend on how many are new.
        place, parents = self.world.networks(self._context(), self.order, self.chance)
        self.place = np.where(fresh[:, None], place, self.place)
        self.parents = np.where(now, parents, self.parents)

    def _context(self) -> Floats:
        state = self._course.state()
        return np.concatenate(self._course.seen(), 1) if state is None else np.asarray(state, np.float32)

    def seen(self) -> list[Floats]:
        width, count, moves = len(self.turn), self.layout.agents, self.layout.moves
        who = np.eye(count, dtype=np.float32)
        made = (self.place < self.turn[:, None])[..., None] * np.eye(moves, dtype=np.float32)[self.chosen]
        context, blank = self._context(), np.zeros((width, count * (2 + moves) + count), np.float32)
        found = []
        for agent, sight in enumerate(self._course.seen()):
            me = np.broadcast_to(who[agent], (width, count))
            if self.world.networks is None:
                chance, told = blank[:, : 3 * count], blank[:, 3 * count :]
            else:
                open_edges = self.parents[:, :, agent].astype(np.float32)
                chance = np.concatenate([self.order, self.chance[:, :, agent], open_edges], 1)
                told = (made * self.kept[:, :, agent, None]).reshape(width, -1)
            found.append(np.concatenate([sight, context, chance, me, told], 1).astype(np.float32))
        return found


def _clash(settings: Mapping[str, Any]) -> str | None:
    others = settings.get("sequenced") or settings.keys() & {"messages", "attack", "budget", "collected"}
    if settings.get("networked") and others:
        return "networked=true says who is told of whose moves; drop sequenced, messages and attack"
    return None


NETWORKED = WorldWrapper(
    name="networked=BOOL",
    description="agents decide along a network, which says who knows of whose moves",
    settings={"networked": bool},
    layer=2,
    wrap=lambda world, networked: Networked(world) if networked else world,
    clash=_clash,
)
