"""What was recorded of a cooperative game and may be all that is known of it; and games to record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.cooperative import Cooperative
from hocket.lab.exact.mdp import Array, TabularMDP, drawn
from hocket.lab.exact.worlds import WorldFamily

COLUMNS = ("state", "action", "reward", "after")


@dataclass(frozen=True, eq=False)
class Records:
    """Counts of moments: a state, everybody's moves, what was paid and where it went on.

    Attributes:
        seen: how often each transition was recorded, `[S, A, S]`. paid: the sum of what was paid, `[S, A]`.
        low, high: between which every payment lies.
    """

    seen: Array
    paid: Array
    low: float
    high: float

    @property
    def times(self) -> Array:
        """How often each state and joint action was recorded, `[S, A]`."""
        found: Array = self.seen.sum(-1)
        return found

    @property
    def reward(self) -> Array:
        """The mean payment `[S, A]`; the middle of what is possible where nothing was recorded."""
        middle = np.full_like(self.paid, (self.low + self.high) / 2)
        found: Array = np.divide(self.paid, self.times, out=middle, where=self.times > 0)
        return found

    @property
    def transition(self) -> Array:
        """The shares seen `[S, A, S]`; even ones where nothing was recorded."""
        even = np.full_like(self.seen, 1 / len(self.seen))
        found: Array = np.divide(self.seen, self.times[..., None], out=even, where=self.times[..., None] > 0)
        return found


def recorded(world: Cooperative, policy: Array, count: int, key: Key) -> Records:
    """`count` moments of play by a joint policy `[S, A]`, each drawn from its discounted visits.

    What is paid is a lottery between the least and the most that the game ever pays, fair in the mean.
    """
    process = world.process
    low, high = float(process.reward.min()), float(process.reward.max())
    draws = key.numpy().random((count, 3))
    place = drawn(process.visits(policy).reshape(-1), draws[:, 0])
    won = draws[:, 1] * (high - low) < process.reward.reshape(-1)[place] - low
    after = drawn(process.transition.reshape(-1, process.states)[place], draws[:, 2])
    return _counted(process, place, np.where(won, high, low), after, low, high)


def read_records(path: Path, world: Cooperative) -> Records:
    """Records of one's own: an .npz with `state` `[N]`, `action` `[N, n]`, `reward` `[N]` and `after` `[N]`.

    Payments lie between the least and the most of the game and of the file.

    Raises:
        ConfigurationError: when it cannot be read, or does not fit the world.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise ConfigurationError(f"records {path} cannot be read as an .npz of numbers: {error}") from error
    if missing := [name for name in COLUMNS if name not in held]:
        raise ConfigurationError(f"records {path} have no {missing[0]}; they need {', '.join(COLUMNS)}")
    count, agents = len(held["state"]) if held["state"].ndim else 0, len(world.moves)
    shapes = {"state": (count,), "action": (count, agents), "reward": (count,), "after": (count,)}
    for name, shape in shapes.items():
        if not count or held[name].shape != shape:
            raise ConfigurationError(
                f"records {path}: {name} has the shape {held[name].shape}; state, reward and after are [N] and action "
                f"is [N, {agents}], and there is at least one record"
            )
    states = world.process.states
    for name, limit in (("state", states), ("action", np.array(world.moves)), ("after", states)):
        whole = np.issubdtype(held[name].dtype, np.integer)
        if not whole or (held[name] < 0).any() or (held[name] >= limit).any():
            raise ConfigurationError(f"records {path}: {name} holds what is no {name} of {world.name}, counted from 0")
    reward = held["reward"].astype(np.float64)
    if not np.isfinite(reward).all():
        raise ConfigurationError(f"records {path}: reward holds a number that is not finite")
    place = held["state"] * world.process.actions + np.ravel_multi_index(tuple(held["action"].T), world.moves)
    low, high = (float(of([of(world.process.reward), of(reward)])) for of in (np.min, np.max))
    return _counted(world.process, place, reward, held["after"], low, high)


def _counted(
    process: TabularMDP, place: NDArray[np.int64], paid: Array, after: NDArray[np.int64], low: float, high: float
) -> Records:
    seen, total = np.zeros((process.states * process.actions, process.states)), np.zeros(process.reward.size)
    np.add.at(seen, (place, after), 1)
    np.add.at(total, place, paid)
    return Records(seen.reshape(process.transition.shape), total.reshape(process.reward.shape), low, high)


def crew(states: int, moves: int, agents: int, *, seed: int = 0) -> Cooperative:
    """Agents with as many moves each; transitions from a Dirichlet distribution, rewards even in [0, 1]."""
    draw, actions = Key.of(seed).derive("crew", states, moves, agents).numpy(), moves**agents
    transition: Array = draw.dirichlet(np.full(states, 0.5), size=(states, actions))
    reward, start = draw.random((states, actions)), np.full(states, 1 / states)
    name = f"crew:{states}x{moves}x{agents}"
    return Cooperative(TabularMDP(transition, reward, start, discount=0.8, name=name), (moves,) * agents)


CREW = WorldFamily(
    name="crew", description="states, moves and agents who share a reward, drawn; endless", make=crew, size=(4, 3, 2)
)
