"""Playing a workflow with a person in one of its seats.

The person is an engine like any other: asked with messages, answering in words. A move is taken back by playing the
episode again from its key with one answer fewer, which gives the same episode up to there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.plain import TextChat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.agents.workflows.workflow import Workflow
from hocket.apps.play.screen import TerminalScreen
from hocket.core.batch import Level
from hocket.core.columns import ANSWER, ILLEGAL, LIMIT, RETURNS
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.engine.requests import Engine, Request, Sample
from hocket.stages import Task
from hocket.types import Assignment, Decoding, Trajectory

PERSON = "you"
"""The role of the person."""

NOBODY = "none"
"""The seat of a person who only watches."""

COMMANDS = (
    ("/help", "this list"),
    ("/undo", "take back your last move"),
    ("/new", "begin another episode"),
    ("/show", "at the end: all messages"),
    ("/quit", "leave; so does the end of input"),
)


class Left(BaseException):
    """The person leaves. Nothing that plays an episode takes it for an error."""


class Undone(BaseException):
    """The person takes a move back."""


class Another(BaseException):
    """The person wants another episode."""


class PersonEngine:
    """An engine that asks a person; implements `hocket.engine.requests.Engine`.

    Args:
        screen: where to ask. chat: whose ids record what was said. known: answers given before, used first.

    Attributes:
        moves: all answers of this episode.
    """

    def __init__(self, screen: TerminalScreen, chat: TextChat, known: Sequence[str] = ()) -> None:
        self.moves: list[str] = []
        self._screen = screen
        self._chat = chat
        self._known = list(known)

    def episode(self) -> AbstractAsyncContextManager[None]:
        """A person waits for nobody's batch."""
        return nullcontext()

    async def submit(self, request: Request) -> Sample:
        return self._answer(request)

    def sample(self, requests: list[Request]) -> list[Sample]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Sample:
        text = self._known[len(self.moves)] if len(self.moves) < len(self._known) else self._asked(request)
        self.moves.append(text)
        tokens = np.array(self._chat.encode(text) or self._chat.encode(" "), np.int64)
        return Sample(tokens, None, "stop", 0, np.zeros(len(tokens), np.bool_), text)

    def _asked(self, request: Request) -> str:
        """Shows what is new since the person last spoke, and takes a line."""
        messages = list(request.messages)
        spoken = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        for message in messages[spoken[-1] + 1 if spoken else 0 :]:
            self._screen.tell(str(message["content"]))
        while True:
            line = self._screen.ask(PERSON)
            match None if line is None else line.strip():
                case None | "/quit" | "/exit":
                    raise Left
                case "":
                    continue
                case "/undo":
                    if self.moves:
                        raise Undone
                    self._screen.note("there is nothing to take back")
                case "/new":
                    raise Another
                case "/help":
                    self._screen.help(COMMANDS)
                case words if words.startswith("/"):
                    self._screen.wrong(f"there is no command {words.split()[0]}; /help lists them")
                case words:
                    return words


class DisplayEngine:
    """An engine whose answers are shown as they come; implements `hocket.engine.requests.Engine`.

    With `told` what it is asked is shown too.
    """

    def __init__(self, engine: Engine, seat: Actor, screen: TerminalScreen, who: str, *, told: bool) -> None:
        self._engine = engine
        self._actor = seat
        self._screen = screen
        self._who = who
        self._told = told

    @property
    def barrier(self) -> Any:
        """That of the engine itself."""
        return getattr(self._engine, "barrier", None)

    def episode(self) -> AbstractAsyncContextManager[None]:
        return self._engine.episode()

    async def submit(self, request: Request) -> Sample:
        sample = await self._engine.submit(request)
        if self._told and request.messages:
            self._screen.note(f"{request.messages[-1]['content']}")
        text = (
            sample.text
            if sample.text is not None
            else self._actor.chat.reply_text(sample.tokens.tolist(), request.tokens)
        )
        self._screen.quote(self._who, text)
        return sample

    def sample(self, requests: list[Request]) -> list[Sample]:
        return self._engine.sample(requests)


@dataclass
class PlayedEpisodes:
    """Episodes of a workflow with a person in a seat.

    Attributes:
        player: the run's own, with a seat for each role. task: where scenarios come from.
        seat: the person's: a seat of an environment or a role; `NOBODY` to watch.
        show: whether others' answers are shown as they come, which may give away what they hide.
    """

    screen: TerminalScreen
    player: TextPlayer
    task: Task
    seat: str
    decoding: Decoding
    key: Key
    show: bool = False

    def __post_init__(self) -> None:
        seats = seats_of(self.player.workflow)
        if self.seat not in (*seats, NOBODY):
            raise ConfigurationError(f"--seat {self.seat}: there is no such seat{nearest(self.seat, [*seats, NOBODY])}")
        chat = next(iter(self.player.actors.values())).chat
        self._speech = TextChat(cast(Any, chat).tokenizer)

    def run(self) -> None:
        """Until the person leaves."""
        number = 0
        while self._episode(number):
            number += 1

    def _episode(self, number: int) -> bool:
        """Plays one episode, as often as moves are taken back; whether another one may follow."""
        size = self.task.size("eval")
        scenario = self.task.scenario("eval", number if size is None else number % size)
        you = "you watch" if self.seat == NOBODY else f"you are {self.seat}"
        self.screen.note(f"episode {number + 1}: {scenario.id}, {you}")
        known: list[str] = []
        while True:
            person = PersonEngine(self.screen, self._speech, known)
            player = self._seated(person, quiet=bool(known))
            assignment = Assignment(scenario, decoding=self.decoding)
            try:
                (trajectory,) = asyncio.run(player.play([assignment], key=self.key.derive(number)))
                self._tell(trajectory)
                return self._goes_on(person, trajectory)
            except Undone:
                known = person.moves[:-1]
                self.screen.note(f"taken back: {person.moves[-1]}")
            except Another:
                return True
            except Left:
                return False

    def _seated(self, person: PersonEngine, *, quiet: bool) -> TextPlayer:
        """The run's player with the person in the seat. While moves are played again, others stay silent."""
        workflow, seats = self.player.workflow, dict(self.player.actors)
        if self.seat != NOBODY:
            human = Actor(PERSON, person, self._speech, learns=False)
            if isinstance(workflow, PlayEnvironment):
                workflow = replace(workflow, seats={**workflow.seats, self.seat: PERSON})
                seats = {PERSON: human, **seats}
            else:
                seats[self.seat] = human
        if (self.show or self.seat == NOBODY) and not quiet:
            seats = {role: self._shown(role, seat) for role, seat in seats.items()}
        return replace(self.player, workflow=workflow, actors={role: seats[role] for role in workflow.roles})

    def _shown(self, role: str, seat: Actor) -> Actor:
        if isinstance(seat.engine, PersonEngine):
            return seat
        shown = DisplayEngine(seat.engine, seat, self.screen, role, told=self.seat == NOBODY)
        return replace(seat, engine=shown)

    def _tell(self, trajectory: Trajectory) -> None:
        """How the episode came out."""
        self.screen.say("")
        if trajectory.failure is not None:
            self.screen.wrong(f"the episode failed: {trajectory.failure}")
            return
        limit = LIMIT.get(trajectory)
        self.screen.say(f"[bold]the episode is over[/]{'' if limit is None else ': ' + str(limit)}")
        for name, value in outcome(trajectory).items():
            self.screen.say(f"  {name}: [bold]{value:g}[/]")
        for name, count in ILLEGAL.get(trajectory, {}).items():
            if count:
                self.screen.note(f"  {name} made {count} move(s) that were not legal or could not be read")
        if ANSWER.present(trajectory):
            self.screen.note(f"  answer: {ANSWER.get(trajectory)}")

    def _goes_on(self, person: PersonEngine, trajectory: Trajectory) -> bool:
        """Whether the person wants another episode. Raises `Undone` when they want the end back."""
        while True:
            line = self.screen.ask("Enter for another, /quit")
            match None if line is None else line.strip():
                case None | "/quit" | "/exit":
                    return False
                case "" | "/new":
                    return True
                case "/help":
                    self.screen.help(COMMANDS)
                case "/show":
                    for turn in trajectory.turns:
                        self.screen.quote(turn.agent, turn.text)
                case "/undo" if person.moves:
                    raise Undone
                case words:
                    self.screen.wrong(f"the episode is over, so {words!r} has no effect")


def seats_of(workflow: Workflow) -> tuple[str, ...]:
    """Where a person can sit."""
    return workflow.world.agents if isinstance(workflow, PlayEnvironment) else workflow.roles


def outcome(trajectory: Trajectory) -> dict[str, float]:
    """What was earned: by seat in an environment, else by name of the reward."""
    returns: Mapping[str, float] | None = RETURNS.get(trajectory)
    if returns is not None:
        return {f"{name} earned": value for name, value in returns.items()}
    sums = {}
    for name, score in trajectory.scores.items():
        values: list[Any] = [score.value] if score.level is Level.TRAJECTORY else list(cast(Any, score.value))
        known = [float(value) for value in values if value is not None]
        if known:
            sums[name] = sum(known)
    return sums
