"""What one attempt records while it is played, and what it may spend."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, fields

from hocket.engine.requests import Engine, Request, Sample
from hocket.errors import ConfigurationError, HocketError
from hocket.keys import Key
from hocket.types import Assignment, Turn


class LimitReached(HocketError):
    """An episode has spent what it may. Raised inside the workflow; uncaught, it ends the episode as truncated."""


@dataclass(frozen=True)
class Limits:
    """What one episode may spend; None is no limit.

    Limits of time make results depend on the machine. Calls made together may each spend the tokens that were left.

    Attributes:
        turns: agent calls.
        tokens: response tokens of all calls.
        seconds: wall-clock time of the episode.
        call_seconds: wall-clock time of one call.
    """

    turns: int | None = 64
    tokens: int | None = None
    seconds: float | None = None
    call_seconds: float | None = None

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"limits.{setting.name} must be above 0 (or null for no limit), not {value}")


class Episode:
    """One attempt at a scenario: its turns in call order, its key, and what is left of its limits."""

    def __init__(self, assignment: Assignment, limits: Limits, key: Key) -> None:
        self.assignment = assignment
        self.key = key
        self._limits = limits
        budgets = [limit for limit in (limits.tokens, assignment.budget) if limit is not None]
        self._tokens = min(budgets, default=None)
        self._turns: list[Turn | None] = []
        self._conversations: Counter[str] = Counter()
        self._calls: set[asyncio.Task[object]] = set()
        self._closed = False

    @property
    def turns(self) -> list[Turn]:
        """The recorded turns, in the order in which they were asked for."""
        return [turn for turn in self._turns if turn is not None]

    def conversation(self, role: str) -> int:
        """The number of a new conversation of `role`."""
        self._conversations[role] += 1
        return self._conversations[role] - 1

    def begin(self, role: str, longest: int) -> tuple[int, int]:
        """The place of a new call among all calls, and how many tokens (at most `longest`) it may use.

        Raises:
            LimitReached: when no turn or no token is left.
        """
        if self._closed:
            raise HocketError(f"agent {role!r} was called after its episode had ended; await every call in play()")
        if self._limits.turns is not None and len(self._turns) >= self._limits.turns:
            raise LimitReached(f"the episode has used its {self._limits.turns} turns; raise limits.turns to allow more")
        left = longest if self._tokens is None else self._tokens - sum(len(turn) for turn in self.turns)
        if left <= 0:
            raise LimitReached(f"the episode has used its {self._tokens} tokens; raise limits.tokens to allow more")
        self._turns.append(None)
        return len(self._turns) - 1, min(left, longest)

    async def sample(self, engine: Engine, request: Request) -> Sample:
        """Waits for one continuation, at most as long as a call may take."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        clock = asyncio.timeout(self._limits.call_seconds)
        try:
            async with clock:
                return await engine.submit(request)
        except TimeoutError:
            if not clock.expired():
                raise
            raise LimitReached(f"a call took more than limits.call_seconds = {self._limits.call_seconds} s") from None
        finally:
            self._calls.discard(task)

    def record(self, place: int, turn: Turn) -> None:
        """Puts a finished turn at its place."""
        if not self._closed:
            self._turns[place] = turn

    async def close(self) -> None:
        """Ends the episode: calls still pending (siblings of one that failed) are cancelled."""
        self._closed = True
        pending = [task for task in self._calls if task is not asyncio.current_task()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
