"""Players for environments: random legal moves drawn from keys, and small worlds of our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hocket.agents.environments.legal import IllegalMoves, LegalMoves
from hocket.agents.environments.protocol import Environment, Observation
from hocket.core.keys import Key
from hocket.engine.requests import Request
from hocket.types import Scenario

Mover = Callable[[Environment, str, Observation], str]


def legal(key: Key) -> Mover:
    """A random legal move; where any text is one, a random bracketed word of the observation."""
    count = 0

    def move(environment: Environment, agent: str, seen: Observation) -> str:
        nonlocal count
        count += 1
        options = seen.actions or tuple(re.findall(r"\[[^\[\]\n]{1,30}\]", seen.text)[-40:]) or ("[0]",)
        return options[int(key.derive(count).numpy().integers(len(options)))]

    return move


def episode(environment: Environment, mover: Mover, most: int = 1000) -> tuple[list[object], dict[str, float]]:
    """Plays to the end; everything that was seen, said and earned, and the returns."""
    log: list[object] = []
    returns = dict.fromkeys(environment.agents, 0.0)
    while environment.acting and len(log) < most:
        seen = {agent: environment.observe(agent) for agent in environment.acting}
        moves = {agent: mover(environment, agent, one) for agent, one in seen.items()}
        earned = environment.act(moves)
        log.append((seen, moves, dict(earned)))
        for agent, reward in earned.items():
            returns[agent] += reward
    return log, returns


def started(world: object, seed: int) -> Environment:
    environment: Environment = world.make(Scenario("s", seed=seed))  # type: ignore[attr-defined]
    environment.reset(Key.of(seed))
    return environment


def reply(request: Request) -> str:
    """A random legal move, read from the question: for scripted engines."""
    listed = re.findall(r"Legal moves: (.*)", str(request.messages[-1]["content"]))[-1]
    options = listed.split("; " if "; " in listed else ", ")
    return str(options[int(request.key.derive("script").numpy().integers(len(options)))])


@dataclass(frozen=True)
class Counting:
    """A world in which seats in turn say `up` (1 for the sayer, -1 for the next seat) or `end`."""

    agents: tuple[str, ...] = ("a", "b")
    together: bool = False
    length: int = 4
    rule: IllegalMoves = field(default_factory=IllegalMoves)
    name: str = "counting"
    concurrent: int | None = None
    opened: list[CountingEnvironment] = field(default_factory=list)

    def make(self, scenario: Scenario) -> CountingEnvironment:
        environment = CountingEnvironment(self)
        self.opened.append(environment)
        return environment


class CountingEnvironment(LegalMoves):
    zero_sum = True

    def __init__(self, world: Counting) -> None:
        super().__init__(world.agents, world.rule)
        self.world = world
        self.draw = 0.0
        self.said: list[str] = []
        self.closed = False

    def _begin(self, key: Key) -> None:
        self.draw = float(key.numpy().random())
        self.said = []

    def _movers(self) -> tuple[str, ...]:
        if len(self.said) >= self.world.length or "end" in self.said:
            return ()
        return self.agents if self.world.together else (self.agents[len(self.said) % len(self.agents)],)

    def _moves(self, agent: str) -> Mapping[str, str]:
        return {"up": "up", "end": "end"}

    def _seen(self, agent: str) -> Observation:
        said = " ".join(self.said) or "nothing"
        return Observation(f"You are {agent}. Drawn: {self.draw:.3f}. Said: {said}", state=said, news=f"Said: {said}")

    def _make(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        earned = dict.fromkeys(self.agents, 0.0)
        for agent, move in moves.items():
            self.said.append(move)
            if move == "up":
                earned[agent] += 1.0
                earned[self.agents[(self.agents.index(agent) + 1) % len(self.agents)]] -= 1.0
        return earned

    def close(self) -> None:
        self.closed = True
