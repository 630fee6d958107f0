"""Plays an environment: calls the seats that must act, and records the rewards with the turns that earned them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from hocket.agents.environments.protocol import UNREADABLE, Environment, Observation, World
from hocket.agents.environments.reading import LastLine, MoveParser, WholeText
from hocket.agents.workflows.episode import LimitReached, Limits
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import ACTIONS, ILLEGAL, LIMIT, RETURNS, InfoColumn
from hocket.core.errors import nearest
from hocket.core.keys import Key
from hocket.engine.barrier import aside
from hocket.types import Scenario

SEATS = InfoColumn("seats", "The seats of the environment, in their order.")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Asides:
    """A line under each question of an episode, in order, as a rollout may request (`Assignment.options`).

    Empty and missing lines add nothing.
    """

    lines: tuple[str, ...]


@dataclass(frozen=True)
class PlayEnvironment(Workflow):
    """One episode of an environment. Turns carry the seat as `agent`, and the situation's key as `state`.

    The score `reward` is per turn: the sum of a seat's rewards from its move until its next one. Rewards at the end of
    the episode belong to the seat's last turn. `Outcome.info` has `seats` (their order), `returns` (per seat),
    `illegal` (illegal or unreadable moves per seat), `actions` (the move read from each turn, None if the episode ended
    before it) and `limit`, if one was reached. A seat that never moved has a return only in `returns`. Named parts of
    an environment's reward are separate scores, per turn.

    Attributes:
        world: makes the environments.
        seats: the role that plays each seat, by seat; several may name the same role. A seat without an entry is a
            separate role; the only seat of a world is the role `policy`.
        reading: reads a reply as a move; None reads the last line if legal moves are listed, else all lines.
        memory: whether a seat's episode is one conversation, whose later turns contain only what is new; otherwise each
            turn opens a new conversation with the complete observation.
        turns: the limit of moves of all seats together; None has only the run's limits.
        own_chance: whether each sample has its own chance events. Otherwise the samples of a scenario share its draws
            (start, deals), so that their returns are comparable.
        instruct: whether the prompt states the form of an answer.
    """

    scores = True

    world: World
    seats: Mapping[str, str] = field(default_factory=dict)
    reading: MoveParser | None = None
    memory: bool = True
    turns: int | None = None
    own_chance: bool = False
    instruct: bool = True

    def __post_init__(self) -> None:
        agents = self.world.agents
        for seat in self.seats:
            if seat not in agents:
                raise ValueError(f"seats: {self.world.name} has no seat {seat!r}{nearest(seat, agents)}")
        if self.turns is not None and self.turns < 1:
            raise ValueError(f"turns must be at least 1, not {self.turns}")
        if self.turns is not None:
            object.__setattr__(self, "limits", Limits(turns=self.turns))
        object.__setattr__(self, "roles", tuple(dict.fromkeys(self.role(seat) for seat in agents)))

    def role(self, seat: str) -> str:
        """The agent that plays a seat."""
        return self.seats.get(seat, seat if len(self.world.agents) > 1 else "policy")

    def read(self, reply: str, observation: Observation) -> str:
        """The move in a reply, or `UNREADABLE`."""
        reading = self.reading_of(observation)(reply, observation.actions)
        return UNREADABLE if reading is None else reading

    def question(self, observation: Observation, first: bool, hint: str | None = None) -> str:
        """The messages for a seat; `first` is true at the beginning of its conversation."""
        lines = [observation.told(remembering=not first)]
        if first and hint:
            lines.append(hint)
        if first and self.instruct:
            lines.append(self.reading_of(observation).instruction)
        return "\n".join(lines)

    def reading_of(self, observation: Observation) -> MoveParser:
        """The reader of replies to an observation."""
        return self.reading or (WholeText() if observation.actions is None else LastLine())

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        key = team.key if self.own_chance else Key.of(scenario.seed)
        async with _place(self.world):
            environment = self.world.make(scenario)
            table = _Table(self, team, environment)
            try:
                await table.call(environment.reset, key.derive("environment"))
                while environment.acting and table.limit is None:
                    await table.round()
                return table.outcome()
            finally:
                await table.call(environment.close)


_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]] = WeakKeyDictionary()


@asynccontextmanager
async def _place(world: World) -> AsyncIterator[None]:
    """Waits until the world allows one more episode, if it has a limit (`concurrent`)."""
    most: int | None = getattr(world, "concurrent", None)
    if most is None:
        yield
        return
    known = _PLACES.setdefault(asyncio.get_running_loop(), {})
    places = known.setdefault(f"{world.name} {most}", asyncio.Semaphore(most))
    with aside():
        await places.acquire()
    try:
        yield
    finally:
        places.release()


class _Table:
    """An episode in progress: the seats' conversations, and the rewards of each turn."""

    def __init__(self, workflow: PlayEnvironment, team: Team, environment: Environment) -> None:
        self.workflow, self.team, self.environment = workflow, team, environment
        self.limit: str | None = None
        self._asides = getattr(team.assignment.option(Asides), "lines", ())
        self._agents: dict[str, Agent] = {}
        self._replies: list[Reply] = []
        self._values: list[float] = []
        self._moves: list[str] = []
        self._named: dict[str, dict[Reply, float]] = {}
        self._last: dict[str, int] = {}
        self._early = dict.fromkeys(environment.agents, 0.0)
        self._returns = dict.fromkeys(environment.agents, 0.0)

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Calls the environment, in a thread if it waits for an outside world."""
        if self.environment.blocking:
            return await asyncio.to_thread(function, *arguments)
        return function(*arguments)

    async def round(self) -> None:
        """Calls all seats that act now, concurrently, and makes their moves."""
        seats = self.environment.acting
        observations = [await self.call(self.environment.observe, seat) for seat in seats]
        replies = await self._asked(seats, observations)
        if self.limit is not None:
            return
        moves = {}
        for seat, observation, reply in zip(seats, observations, replies, strict=True):
            moves[seat] = self.workflow.read(reply.text, observation)
        self._moves += moves.values()
        self._credit(await self.call(self.environment.act, moves))
        self._name(self.environment.parts)

    async def _asked(self, seats: Sequence[str], observations: Sequence[Observation]) -> list[Reply]:
        """The replies of the seats; fewer after a limit, which `limit` records."""
        most = self.workflow.turns
        if most is not None and len(self._replies) + len(seats) > most:
            self.limit = f"the episode has used its {most} moves"
            return []
        calls: list[Any] = []
        try:
            for seat, observation in zip(seats, observations, strict=True):
                calls.append(self._ask(seat, observation, len(self._replies) + len(calls)))
        except LimitReached as reached:
            self.limit = str(reached)
        replies = list(await asyncio.gather(*calls))
        for seat, reply in zip(seats, replies, strict=False):
            reply.turn.agent = seat
            self._last[seat] = len(self._replies)
            self._replies.append(reply)
            self._values.append(self._early.pop(seat, 0.0))
        return replies

    def _ask(self, seat: str, observation: Observation, place: int) -> Any:
        agent = self._agents.get(seat)
        first = agent is None or not self.workflow.memory
        if agent is None or first:
            agent = self._agents[seat] = self.team[self.workflow.role(seat)].fresh()
        question = self.workflow.question(observation, first, self.team.assignment.hint)
        aside = self._asides[place] if place < len(self._asides) else ""
        words = f"{question}\n{aside}" if aside else question
        message = (
            {"role": "user", "content": observation.beside(words)}
            if observation.pictures or observation.sounds
            else words
        )
        return agent(message, state=observation.state)

    def _credit(self, earned: Mapping[str, float]) -> None:
        """Adds the seats' rewards to their latest turns; rewards before the first turn are added to it later."""
        for seat, amount in earned.items():
            reward = float(amount)
            self._returns[seat] += reward
            if seat in self._last:
                self._values[self._last[seat]] += reward
            else:
                self._early[seat] += reward

    def _name(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        """Writes named parts to the latest turns of the seats that earned them."""
        for name, earned in parts.items():
            names = self._named.setdefault(name, {})
            for seat, reward in earned.items():
                if seat in self._last:
                    reply = self._replies[self._last[seat]]
                    names[reply] = names.get(reply, 0.0) + reward

    def outcome(self) -> Outcome:
        """The outcome of the episode."""
        info: dict[str, Any] = {
            SEATS.name: list(self.environment.agents),
            RETURNS.name: dict(self._returns),
            ILLEGAL.name: {seat: self.environment.illegal.get(seat, 0) for seat in self.environment.agents},
            ACTIONS.name: self._moves + [None] * (len(self._replies) - len(self._moves)),
        }
        if self.limit is None and self.environment.truncated:
            self.limit = "the environment cut the episode short"
        if self.limit is not None:
            info[LIMIT.name] = self.limit
        values = dict(zip(self._replies, self._values, strict=True))
        named = {name: {reply: by.get(reply, 0.0) for reply in self._replies} for name, by in self._named.items()}
        return Outcome(turn_rewards={**named, "reward": values}, info=info)
