"""Anybody against and beside anybody in one joint world: lineups that play the same episodes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.apps.play.operators import Operator, Place, joint_task, operator, places_of
from hocket.apps.play.worker import ProgramOperator, command_of
from hocket.core import sums
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.keys import Key
from hocket.rollout.joint import JointController, JointPlayer
from hocket.train.aio import run_async
from hocket.types import Assignment, Trajectory


def lineup_of(text: str, places: Mapping[str, Place]) -> dict[str, str]:
    """`AGENT=WHO,...` by agent; `WHO` alone sits everywhere, and agents that are not named are played by chance.

    Raises:
        ConfigurationError: for an agent that is not there.
    """
    seats = dict.fromkeys(places, "random")
    for part in filter(None, (part_text.strip() for part_text in text.split(","))):
        agent, equals, who = part.partition("=")
        if not equals:
            seats = dict.fromkeys(places, part)
        elif agent not in places:
            raise ConfigurationError(f"agents: there is no {agent!r}{nearest(agent, places)}")
        else:
            seats[agent] = who
    return seats


@dataclass(eq=False)
class SeatedOperator:
    """An operator as what a `JointPlayer` asks, in one copy of a world.

    Attributes:
        place, one: who sits where. player: asked whose turn it is.
    """

    place: Place
    one: Operator
    player: JointPlayer | None = None
    version: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.place.agent

    @property
    def draws(self) -> int:
        return max(1, self.one.draws)

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        *,
        carried: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """What the operator does; nothing where it is not its turn. Log-probs are not known, 0."""
        seat, logp = self.place.seat, np.zeros(1, np.float32)
        turn = None if self.player is None else self.player.environment().acting()
        if turn is not None and not turn[0, self.place.number]:
            return np.zeros(1, np.int64) if seat.discrete else np.zeros((1, seat.actions), np.float32), logp
        possible = None if allowed is None else allowed[0]
        action = self.one.act(observations[0].copy(), possible, uniforms[0, : self.one.draws])
        return self._checked(action, possible), logp

    def _checked(self, action: Any, allowed: NDArray[np.bool_] | None) -> NDArray[Any]:
        seat = self.place.seat
        if seat.discrete:
            legal = isinstance(action, (int, np.integer)) and 0 <= action < seat.actions
            if not legal or (allowed is not None and not allowed[action]):
                raise HocketError(f"{self.place.agent} does {action!r}, which is none of its actions now")
            return np.array([action], np.int64)
        vector = np.asarray(action, np.float32).reshape(-1)
        if vector.shape != (seat.actions,) or not np.isfinite(vector).all():
            raise HocketError(f"{self.place.agent} does {action!r}; its actions are {seat.actions} finite numbers")
        return vector[None]


@dataclass(frozen=True)
class ArenaEpisode:
    """What happened.

    Attributes:
        seed: of the world. actions: of each agent, in order. returns: of each, undiscounted. length: decisions of who
            decided most. failure: why it broke, if it did.
    """

    seed: int
    actions: Mapping[str, Sequence[Any]]
    returns: Mapping[str, float]
    length: int
    failure: str | None = None

    def to_json(self) -> str:
        """A line that is the same wherever its operators ran."""
        fields = {"seed": self.seed, "actions": self.actions, "returns": self.returns, "failure": self.failure}
        return json.dumps(fields, sort_keys=True)


@dataclass
class Lineup:
    """Who sits where, and what came of it.

    Attributes:
        who: by agent. episodes: played so far. unread: answers of language models that named no action.
    """

    who: Mapping[str, str]
    episodes: list[ArenaEpisode] = field(default_factory=list)
    unread: int = 0

    def mean(self, agent: str) -> tuple[float, float]:
        """The mean return of an agent, and half of its 95 % interval."""
        return interval([episode.returns[agent] for episode in self.episodes])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % interval by the normal approximation; NaN of fewer than two."""
    half = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return fmean(values) if values else math.nan, half


@contextmanager
def seated(
    task: str,
    who: Mapping[str, str],
    *,
    runs: str,
    temperature: float,
    workers: bool,
    screen: Any = None,
    trust: bool = False,
) -> Iterator[JointPlayer]:
    """A player with these operators, who leave at the end."""
    places, held = places_of(task), dict[str, JointController]()
    sitting = list[SeatedOperator]()
    try:
        for agent, spec in who.items():
            kind, _, command = spec.partition(":")
            member: Operator
            if kind == "exec":
                member = ProgramOperator(command, places[agent])
            elif workers and spec != "person":
                member = ProgramOperator(command_of(spec, places[agent], runs, temperature, trust=trust), places[agent])
            else:
                member = operator(spec, places[agent], runs=runs, temperature=temperature, screen=screen, trust=trust)
            sitting.append(SeatedOperator(places[agent], member))
            held[agent] = sitting[-1]
        world = joint_task(task).world
        player = JointPlayer(world, held, {agent: agent for agent in held}, identified=False, width=1)
        for seat in sitting:
            seat.player = player
        yield player
        player.close()
    finally:
        for seat in sitting:
            seat.one.close()


def played(player: JointPlayer, task: str, number: int, key: Key) -> ArenaEpisode:
    """Episode `number` of the evaluation's seeds."""
    scenario = joint_task(task).scenario("eval", number)
    for seat in player.policies.values():
        if isinstance(seat, SeatedOperator):
            seat.one.begin(scenario.seed)
    (trajectory,) = run_async(player.play([Assignment(scenario)], key=key.derive(number)))
    return episode_of(trajectory, scenario.seed)


def unread(player: JointPlayer) -> int:
    """How many answers of language models named no action that was allowed."""
    return sum(getattr(getattr(seat, "one", None), "unread", 0) for seat in player.policies.values())


def episode_of(trajectory: Trajectory, seed: int) -> ArenaEpisode:
    """What happened, from what a player recorded."""
    rewards = (
        iter(np.asarray(trajectory.scores["reward"].value, np.float64).tolist())
        if "reward" in trajectory.scores
        else iter(())
    )
    returns = {
        turn.agent: sums.total(reward for _, reward in zip(range(len(turn)), rewards, strict=False))
        for turn in trajectory.turns
    }
    actions = {turn.agent: np.asarray(turn.action).tolist() for turn in trajectory.turns}
    return ArenaEpisode(
        seed, actions, returns, max((len(turn) for turn in trajectory.turns), default=0), trajectory.failure
    )
