"""An agent beside a partner who wants something of its own, as arrays: what both get is exact, and how likely it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily

LEFT, RIGHT, PULL = range(3)
SLIP, WALK, LUCK = 0.1, 0.8, 0.05
"""How likely a step of the agent's fails, how likely the partner takes its next step, and how likely the door opens by
itself in a step."""
LANE = 3
"""Cells of the partner's lane: its door is before the last."""


@dataclass(frozen=True, eq=False)
class Companion:
    """A process whose rewards are the agent's task, in which a partner walks by rules of its own.

    An answer is a policy of the agent, `[H, S, A]`; its value is what the task pays and what the partner reaches.

    Attributes:
        process: with a horizon. goals: `[S]` whole numbers, what the partner reaches in a state, each time.

    Raises:
        ConfigurationError: where goals are no whole numbers of at least 0, or there is no horizon.
    """

    process: TabularMDP
    goals: Array

    def __post_init__(self) -> None:
        whole = self.goals.shape == (self.process.states,) and bool((self.goals == np.floor(self.goals)).all())
        if not whole or self.goals.min() < 0 or self.process.horizon is None:
            raise ConfigurationError(
                f"{self.process.name}: a partner's goals are whole numbers of at least 0, one for every state, and "
                "episodes have a horizon"
            )

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def horizon(self) -> int:
        assert self.process.horizon is not None
        return self.process.horizon

    def rewarded(self, reward: Array) -> TabularMDP:
        """The process with other rewards, `[S, A]`."""
        old = self.process
        return TabularMDP(old.transition, reward, old.start, old.horizon, old.discount, old.name)

    @cached_property
    def partner(self) -> TabularMDP:
        """The process with what the partner reaches as reward."""
        return self.rewarded(np.repeat(self.goals[:, None], self.process.actions, 1))

    @cached_property
    def optimum(self) -> float:
        return self.rewarded(self.process.reward + self.goals[:, None]).optimum

    def value(self, policy: Array) -> float:
        return self.process.value(policy) + self.partner.value(policy)

    def reached(self, policy: Array) -> Array:
        """`[H, S, A, K]`: how likely the partner reaches k in all from a state and action at a step on."""
        most = int(self.goals.max()) * self.horizon + 1
        found = np.zeros((self.horizon, self.process.states, self.process.actions, most))
        later = np.zeros((self.process.states, most))
        later[:, 0] = 1.0
        for step in reversed(range(self.horizon)):
            after = np.einsum("sat,tk->sak", self.process.transition, later)
            for goal in np.unique(self.goals).astype(int).tolist():
                here = self.goals == goal
                found[step, here, :, goal:] = after[here, :, : most - goal]
            later = np.einsum("sa,sak->sk", policy[step], found[step])
        return found


def companion(way: int, steps: int, *, shut: bool = True) -> Companion:
    """The agent has `way` steps to its goal, which pays 1; behind it is a lever that opens the partner's door.

    The partner walks its lane to the end, where it reaches 1 and begins anew; it has the same goals whether the agent
    wins or not. A shut door stops it, which opens by the lever, or by itself one step in twenty, and stays open.
    An episode has so many `steps`: with more than `way` and 3 there is time for the lever, but less for slips.

    Args:
        shut: else the door is open from the beginning, and the agent can do nothing for the partner.
    """
    cells = way + 2  # The lever, the start, and on to the goal.
    states = cells * 2 * LANE
    transition, reward, goals = np.zeros((states, 3, states)), np.zeros((states, 3)), np.zeros(states)
    for state in range(states):
        own, door, place = np.unravel_index(state, (cells, 2, LANE))
        goals[state] = place == LANE - 1
        for action in range(3):
            for onto, chance in _moved(int(own), action, cells):
                opened = bool(door) or (action == PULL and own == 0)
                for now, luck in ((opened, 1 - LUCK), (True, LUCK)):
                    for walked, odds in _walked(int(place), bool(door)):
                        after = np.ravel_multi_index((onto, int(now), walked), (cells, 2, LANE))
                        transition[state, action, after] += chance * luck * odds
            if own == cells - 2 and action == RIGHT:
                reward[state, action] = 1 - SLIP
    start = np.zeros(states)
    start[np.ravel_multi_index((1, int(not shut), 0), (cells, 2, LANE))] = 1
    return Companion(TabularMDP(transition, reward, start, steps, name=f"companion:{way}x{steps}"), goals)


def _moved(own: int, action: int, cells: int) -> list[tuple[int, float]]:
    """Where a move of the agent's leads, and how likely; it stays where it has won."""
    if own == cells - 1 or action == PULL:
        return [(own, 1.0)]
    onto = max(own - 1, 0) if action == LEFT else own + 1
    return [(onto, 1 - SLIP), (own, SLIP)]


def _walked(place: int, door: bool) -> list[tuple[int, float]]:
    """Where the partner is next."""
    if place == LANE - 1:
        return [(0, 1.0)]
    if place == LANE - 2 and not door:
        return [(place, 1.0)]
    return [(place + 1, WALK), (place, 1 - WALK)]


COMPANION = WorldFamily(
    name="companion", description="a goal ahead, and a lever behind that helps a partner", make=companion, size=(4, 10)
)
