"""Episodes: the record of an attempt in progress, and its limits."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from hocket.agents.tools.outside_answers import Answers
from hocket.agents.workflows.candidates import Candidate
from hocket.agents.workflows.ending import ended
from hocket.core.columns import CALL, CONVERSATION
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.waits import Wait
from hocket.engine.requests import Engine, Request, Sample
from hocket.types import PAUSED, Assignment, Message, Turn

T = TypeVar("T")


class LimitReached(HocketError):
    """An episode has reached a limit. Raised inside the workflow; uncaught, it ends the episode as truncated."""


@dataclass(frozen=True)
class Limits:
    """The limits of one episode; None is no limit.

    Limits of time make results depend on the machine. Concurrent calls may each spend the remaining tokens.

    Attributes:
        turns: agent calls.
        tokens: response tokens of all calls.
        seconds: wall-clock time of the episode.
        call_seconds: wall-clock time of one call.
        idle_seconds: wall-clock time without an open call, after which the workflow counts as hung.
    """

    turns: int | None = 64
    tokens: int | None = None
    seconds: float | None = None
    call_seconds: float | None = None
    idle_seconds: float | None = 600.0

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"limits.{setting.name} must be above 0 (or null for no limit), not {value}")

    def over(self, other: Limits) -> Limits:
        """These limits, with the other's for those that have their default."""
        usual = Limits()
        chosen = {name: value for name, value in vars(self).items() if value != getattr(usual, name)}
        return replace(other, **chosen)


CLOCKS = ("limits.seconds", "limits.call_seconds", "limits.idle_seconds")
"""Words that show that a time limit ended an episode."""

OWN = "a workflow that calls no agent"
"""The name of the wait for a workflow that is busy without an open call."""

REFUSALS = 100
"""The number of refused calls after which a workflow that continues to call is ended."""


class Episode:
    """One attempt at a scenario: its turns in call order, its keys, and the rest of its limits.

    Attributes:
        key: that of this attempt. common: that of all samples of the scenario. draws: that of the workflow's own draws;
            the attempt's, unless another attempt is replayed.

    Args:
        answers: the calls of its tools, which show the tools that it waits for.
    """

    def __init__(
        self,
        assignment: Assignment,
        limits: Limits,
        key: Key,
        common: Key | None = None,
        draws: Key | None = None,
        answers: Answers | None = None,
    ) -> None:
        self.assignment = assignment
        self.key = key
        self.common = common or key
        self.draws = draws or key
        self._answers = answers
        self._limits = limits
        budgets = [limit for limit in (limits.tokens, assignment.budget) if limit is not None]
        self._tokens = min(budgets, default=None)
        horizons = [limit for limit in (limits.turns, assignment.turns) if limit is not None]
        self._most = min(horizons, default=None)
        self._turns: list[Turn | None] = []
        self.candidates: list[Candidate] = []
        self._conversations: Counter[str] = Counter()
        self._calls: set[asyncio.Task[object]] = set()
        self._given: list[tuple[str, Coroutine[Any, Any, Any]]] = []
        self._spent = self._refused = 0
        self._active = time.monotonic()
        self._closed = False
        self._own: Wait | None = None
        replay = assignment.replay
        self._again = {} if replay is None else {_call(turn): turn for turn in replay.turns}
        more = None if replay is None else replay.more
        self._pause = None if more is None else len(self._again) + more

    @property
    def turns(self) -> list[Turn]:
        """The recorded turns, in the order of the calls."""
        return [turn for turn in self._turns if turn is not None]

    def conversation(self, role: str) -> int:
        """The number of a new conversation of `role`."""
        self._conversations[role] += 1
        return self._conversations[role] - 1

    def given(self, role: str, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Registers a call of an agent, which the workflow must await; see `forgotten`."""
        self._given.append((role, call))
        return call

    def forgotten(self) -> list[str]:
        """The roles with calls that were never awaited, after the end of the episode. The calls are closed."""
        calls = [(role, call) for role, call in self._given if inspect.getcoroutinestate(call) == inspect.CORO_CREATED]
        for _, call in calls:
            call.close()
        self._given.clear()
        return [role for role, _ in calls]

    def begin(self, role: str, longest: int) -> tuple[int, int]:
        """The position of a new call among all calls, and its limit of tokens, at most `longest`.

        Raises:
            LimitReached: when no turn or no token is left.
        """
        if self._closed:
            raise HocketError(f"agent {role!r} was called after its episode had ended; await every call in play()")
        if self._most is not None and len(self._turns) >= self._most:
            setting = "limits.turns" if self._most == self._limits.turns else "the recipe's horizon"
            raise self._refusal(f"the episode has used its {self._most} turns; raise {setting} to allow more")
        left = longest
        if self._tokens is not None:
            left = (
                self._tokens
                - self._spent
                - sum(len(candidate.turn) for candidate in self.candidates if not candidate.taken)
            )
        if left <= 0:
            raise self._refusal(f"the episode has used its {self._tokens} tokens; raise limits.tokens to allow more")
        self._turns.append(None)
        return len(self._turns) - 1, min(left, longest)

    def again(self, call: tuple[str, int, int], place: int, prompt: tuple[Message, ...]) -> Turn | None:
        """The replayed answer to a call (agent, conversation, number) at position `place`; None if it must be sampled.

        Raises:
            HocketError: when the call differs from the replayed one.
            LimitReached: when the episode must be set aside.
        """
        turn = self._again.get(call)
        if turn is None:
            if self._pause is not None and place >= self._pause:
                raise LimitReached(PAUSED)
            return None
        if turn.prompt != prompt:
            raise HocketError(
                f"call {call[2] + 1} of agent {call[0]!r} asks otherwise than before; an episode that is replayed may "
                "depend on nothing but replies and team.key"
            )
        return turn

    def _refusal(self, reason: str) -> BaseException:
        """The error of a call after the episode has reached a limit."""
        self._refused += 1
        if self._refused <= REFUSALS:
            return LimitReached(reason)
        # Whoever catches limits and asks again would never end; this, `except Exception` does not catch.
        return asyncio.CancelledError(f"the workflow went on calling agents although {reason}")

    async def sample(self, engine: Engine, request: Request) -> Sample:
        """Waits for one continuation, within the limit of a call."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        if self._own is not None:
            self._own.over()
        try:
            if self._limits.call_seconds is None:
                return await engine.submit(request)
            return await self._bounded(engine, request, self._limits.call_seconds)
        finally:
            self._calls.discard(task)
            self._active = time.monotonic()
            if self._own is not None and not self._calls:
                self._own = Wait(OWN)

    async def _bounded(self, engine: Engine, request: Request, seconds: float) -> Sample:
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                return await engine.submit(request)
        except TimeoutError:
            if not clock.expired():
                raise
            raise LimitReached(f"a call took more than limits.call_seconds = {seconds} s") from None

    def record(self, place: int, turn: Turn) -> None:
        """Records a finished turn at its position."""
        if not self._closed:
            self._turns[place] = turn
            self._spent += len(turn)

    async def watch(self, playing: asyncio.Task[Any]) -> str | None:
        """Waits until the workflow has ended; the limit of time that ended it, in words, or None if it ended itself.

        Raises:
            HocketError: when it continues after its cancellation.
        """
        self._own = Wait(OWN)
        try:
            reason = await self._outlasted(playing)
        finally:
            self._own.over()
            self._own = None
        if reason is None:
            return None
        self._closed = True
        if not await ended([playing]):
            raise HocketError(f"{reason}, and the workflow did not end when cancelled: it catches CancelledError")
        return reason

    async def _outlasted(self, playing: asyncio.Task[Any]) -> str | None:
        most, idle, begun = self._limits.seconds, self._limits.idle_seconds, time.monotonic()
        while True:
            current = time.monotonic()
            if most is not None and current - begun >= most:
                return f"the episode took more than limits.seconds = {most} s{self._held_up}"
            active = current if self._calls else self._active
            if idle is not None and current - active >= idle:
                return f"the workflow called no agent for more than limits.idle_seconds = {idle} s{self._held_up}"
            waits = [begun + most] if most is not None else []
            waits += [active + idle] if idle is not None else []
            done, _ = await asyncio.wait([playing], timeout=min(waits) - current if waits else None)
            if done:
                return None

    @property
    def _held_up(self) -> str:
        """The tools that it waits for, in words."""
        waiting = [] if self._answers is None else list(dict.fromkeys(self._answers.waiting))
        return f", and waits for {', '.join(waiting)}" if waiting else ""

    async def close(self) -> None:
        """Ends the episode: calls still pending (siblings of one that failed) are cancelled."""
        self._closed = True
        await ended([task for task in self._calls if task is not asyncio.current_task()])


def _call(turn: Turn) -> tuple[str, int, int]:
    """The call of a turn: its role (its agent may have the name of a seat), conversation, and number."""
    return turn.role, int(CONVERSATION.get(turn)), int(CALL.get(turn))
