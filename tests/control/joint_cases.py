"""A joint world whose every number is known, and helpers to play it."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.types import Assignment, Scenario


@dataclass(frozen=True)
class Relay:
    """Agent i sees (i, time, seed); at time t it earns 1 + 10 i + 100 t, whatever it does.

    `lasts[i]` is after how many steps it ends, terminated where `kinds[i]` is "t", truncated elsewhere. With `turns` it
    moves only every len(agents)-th step. `breaks` are seeds whose copy breaks at step 2, `poison` those whose agent 0
    then sees what is no number. `legal` is how many of the first actions are allowed.
    """

    lasts: tuple[int, ...] = (2, 4, 5)
    kinds: str = "tct"
    turns: bool = False
    breaks: tuple[int, ...] = ()
    poison: tuple[int, ...] = ()
    legal: int | None = None
    joint: int = 2
    name: str = field(default="relay:test")

    @property
    def agents(self):
        return tuple(f"runner_{number}" for number in range(len(self.lasts)))

    @property
    def seats(self):
        return (Seat(3, 4),) * len(self.lasts)

    def open(self, width):
        return _Running(self, width)


class _Running(JointEnvironment):
    def __init__(self, world, width):
        self.world, self.time, self.seeds = world, np.zeros(width, int), np.zeros(width, int)
        self.given = []

    def reset(self, slots, seeds):
        self.time[slots], self.seeds[slots] = 0, seeds
        return {slot: "no such track" for slot, seed in zip(slots, seeds, strict=True) if seed == 404}

    def step(self, actions, live):
        agents = np.arange(len(self.world.lasts))
        rewards = 1.0 + 10.0 * agents + 100.0 * self.time[:, None]
        self.time = self.time + live
        over = self.time[:, None] >= np.array(self.world.lasts)
        terminal = np.array([kind == "t" for kind in self.world.kinds])
        broken = np.isin(self.seeds, self.world.breaks) & (self.time == 2) & live
        failures = {int(slot): "the floor gave way" for slot in np.flatnonzero(broken)}
        return Moved(rewards, over & terminal, over & ~terminal, failures)

    def seen(self):
        poisoned = np.isin(self.seeds, self.world.poison) & (self.time == 2)
        columns = (
            np.stack([np.full_like(self.time, i), self.time, self.seeds], 1) for i in range(len(self.world.lasts))
        )
        found = [column.astype(np.float32) for column in columns]
        found[0][poisoned] = np.nan
        return found

    def acting(self):
        if not self.world.turns:
            return None
        return (self.time % len(self.world.lasts))[:, None] == np.arange(len(self.world.lasts))

    def allowed(self):
        if self.world.legal is None:
            return ()
        mask = np.arange(4)[None].repeat(len(self.time), 0) < self.world.legal
        return (mask,) * len(self.world.lasts)

    def state(self):
        return np.stack([self.time, self.seeds], 1).astype(np.float32) if self.world.joint else None


def asked(seed, samples=1, **settings):
    return Assignment(Scenario(id=f"relay/{seed}", seed=seed), samples, **settings)


def controller(world, agents=None, **settings):
    policy = ControlPolicy(JointTask(world).spaces(agents or world.agents), key=Key.of(3), **settings)
    policy.module.actor.weights[-1].data.mul_(50)
    return policy


def play(world, assignments, policy=None, *, width=8, key=None):
    policy = policy or controller(world)
    seats = dict.fromkeys(world.agents, "policy")
    player = JointPlayer(world, {"policy": policy}, seats, width=width)
    return asyncio.run(player.play(assignments, key=key or Key.of(11)))
