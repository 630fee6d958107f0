"""Worlds by name: `lock:10` is the family `lock` at the size 10, `openspiel:kuhn_poker` a game, `FILE.npz` your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from hocket.core.discovery import Registry, constant
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.user_files import load_object
from hocket.lab.exact.mdp import Array, TabularMDP, read


class World(Protocol):
    """What a solver works in, and what says how good its answer is."""

    @property
    def name(self) -> str: ...

    @property
    def optimum(self) -> float:
        """The best value there is."""
        ...

    def value(self, policy: Array, /) -> float:
        """The exact value of a solver's answer; never above the optimum."""
        ...


WORLDS = Registry("world", ("hocket.lab.exact", "hocket.methods"), constant("WorldFamily"))
"""Families of worlds, of the library and of installed packages."""


@dataclass(frozen=True)
class WorldFamily:
    """Worlds of one kind.

    Attributes:
        make: of whole numbers, its size. size: what is taken where none is given. read: of files, where it can be.
    """

    name: str
    description: str
    make: Callable[..., World]
    size: tuple[int, ...]
    read: Callable[[Sequence[Path]], World] | None = None


def world(name: str) -> World:
    """What `lock:10`, `grid:4x4`, `panel:A.jsonl,B.jsonl`, `openspiel:kuhn_poker`, `FILE.npz` or `FILE.py:NAME` names.

    Raises:
        ConfigurationError: for an unknown name, a size that does not fit, or a file that holds no world.
    """
    if name.endswith(".npz"):
        return read(Path(name))
    if ".py:" in name:
        loaded = load_object(name, "world")
        made: World = loaded() if callable(loaded) else loaded
        return made
    kind, _, text = name.partition(":")
    if kind == "openspiel":
        from hocket.lab.exact.trees import of_openspiel

        return of_openspiel(text)
    family: WorldFamily = WORLDS.find(kind)
    if family.read is not None and ".json" in text:
        return family.read([Path(file) for file in text.split(",")])
    try:
        size = tuple(int(part) for part in text.split("x")) if text else family.size
    except ValueError:
        size = ()
    if len(size) != len(family.size) or min(size) < 1:
        example = "x".join(map(str, family.size))
        raise ConfigurationError(f"world = {name!r}: its size is written as in {kind}:{example}")
    return family.make(*size)


# ---------------------------------------------------------------- worlds of states and actions


def lock(length: int) -> TabularMDP:
    """A combination lock: the right one of two actions goes on, the other back to the start for 0.1/H.

    Which is right was drawn once for each place. Only the last right action earns 1, so without a reason to explore it
    is found by luck, once in 2^length episodes.
    """
    right = Key.of(0).derive("lock").numpy().integers(0, 2, length)
    states = length + 1  # The last one is open, and stays.
    transition, reward = np.zeros((states, 2, states)), np.zeros((states, 2))
    for place, action in enumerate(right):
        transition[place, action, place + 1] = transition[place, 1 - action, 0] = 1
        reward[place, 1 - action] = 0.1 / length
    transition[length, :, length] = 1
    reward[length - 1, right[-1]] = 1
    return TabularMDP(transition, reward, np.eye(states)[0], length, name=f"lock:{length}")


def river(length: int) -> TabularMDP:
    """A swimmer in a stream (Strehl and Littman 2008): with it all goes well for little; against it is slow, for 1."""
    transition, reward = np.zeros((length, 2, length)), np.zeros((length, 2))
    for place in range(length):
        transition[place, 0, max(place - 1, 0)] = 1
        up, down = (0.6 if place == 0 else 0.35), (0.0 if place == 0 else 0.05)
        transition[place, 1, min(place + 1, length - 1)] += up
        transition[place, 1, max(place - 1, 0)] += down
        transition[place, 1, place] += 1 - up - down
    reward[0, 0], reward[length - 1, 1] = 0.005, 1
    return TabularMDP(transition, reward, np.eye(length)[0], 4 * length, name=f"river:{length}")


def chain(length: int) -> TabularMDP:
    """Forward along a chain, which slips back to its start one time in ten, or home at once for 0.2; its end pays 1."""
    transition, reward = np.zeros((length, 2, length)), np.zeros((length, 2))
    for place in range(length):
        transition[place, 0, min(place + 1, length - 1)] += 0.9
        transition[place, 0, 0] += 0.1
        transition[place, 1, 0] = 1
    reward[:, 1], reward[-1, 0] = 0.2, 1
    return TabularMDP(transition, reward, np.eye(length)[0], discount=0.9, name=f"chain:{length}")


def shop(room: int, asked: float, order_cost: float, keep_cost: float, name: str) -> TabularMDP:
    """A shop with room for so many pieces: order some each day, sell what is asked for, pay for what is kept.

    A piece sells for 1; one more piece is asked for with the probability `asked`, up to the room.
    """
    transition, reward = np.zeros((room + 1, room + 1, room + 1)), np.zeros((room + 1, room + 1))
    demand = (1 - asked) * asked ** np.arange(room + 1)
    demand[-1] = asked**room
    for stock, order in np.ndindex(room + 1, room + 1):
        there = min(stock + order, room)
        sold = np.minimum(np.arange(room + 1), there)
        np.add.at(transition[stock, order], there - sold, demand)
        reward[stock, order] = demand @ sold - order_cost * order - keep_cost * there
    return TabularMDP(transition, reward, np.eye(room + 1)[0], discount=0.9, name=name)


def inventory(room: int) -> TabularMDP:
    """A shop where half of the days ask for one more piece."""
    return shop(room, 0.5, 0.5, 0.05, f"inventory:{room}")


def grid(rows: int, columns: int) -> TabularMDP:
    """From one corner to the other, four moves, one in ten of which goes another way; there it pays 1 a step."""
    cells = rows * columns
    transition, reward = np.zeros((cells, 4, cells)), np.zeros((cells, 4))
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    for cell in range(cells):
        row, column = divmod(cell, columns)
        ends = [
            min(max(row + down, 0), rows - 1) * columns + min(max(column + right, 0), columns - 1)
            for down, right in moves
        ]
        for action in range(4):
            for other, end in enumerate(ends):
                transition[cell, action, end] += 0.925 if other == action else 0.025
    reward[-1] = 1
    return TabularMDP(transition, reward, np.eye(cells)[0], 3 * (rows + columns), name=f"grid:{rows}x{columns}")


def random(states: int, actions: int, *, seed: int = 0, horizon: int | None = None) -> TabularMDP:
    """Transitions from a Dirichlet distribution, rewards even in [0, 1]."""
    noise = Key.of(seed).derive("random world", states, actions).numpy()
    transition: Array = noise.dirichlet(np.full(states, 0.5), size=(states, actions))
    made = TabularMDP(
        transition,
        noise.random((states, actions)),
        np.full(states, 1 / states),
        discount=0.9,
        name=f"random:{states}x{actions}",
    )
    return made if horizon is None else replace(made, horizon=horizon, discount=1.0)


def episodes(states: int, actions: int) -> TabularMDP:
    """A random world whose episodes have as many decisions as it has states."""
    return replace(random(states, actions, horizon=states), name=f"episodes:{states}x{actions}")


LOCK = WorldFamily(name="lock", description="a combination lock; a sum for its end alone", make=lock, size=(10,))
RIVER = WorldFamily(name="river", description="a swimmer in a stream", make=river, size=(6,))
CHAIN = WorldFamily(name="chain", description="a chain that slips; endless", make=chain, size=(8,))
INVENTORY = WorldFamily(name="inventory", description="a shop that orders stock; endless", make=inventory, size=(6,))
GRID = WorldFamily(name="grid", description="rows by columns, moves that slip", make=grid, size=(4, 4))
RANDOM = WorldFamily(name="random", description="states by actions, drawn; endless", make=random, size=(6, 4))
EPISODES = WorldFamily(name="episodes", description="the same, in episodes", make=episodes, size=(6, 3))
