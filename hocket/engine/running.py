"""A batch in progress: requests enter it at any time, and answers go to those who wait."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from hocket.engine.barrier import LiveEpisode as Live
from hocket.engine.decoding import Responses
from hocket.engine.requests import Request, Sample
from hocket.engine.scheduler import Scheduler

BREATH = 0.05
"""Seconds after which the event loop continues although no request was answered."""


class VersionedPolicy(Protocol):
    """A policy with the version of its weights."""

    version: int


class Asker(Protocol):
    """The receiver of an answer."""

    @property
    def waits(self) -> bool:
        """Whether it still waits."""
        ...

    def answer(self, sample: Sample) -> bool:
        """Takes the answer; whether a task can continue."""
        ...

    def fail(self, error: BaseException) -> None: ...


@dataclass(frozen=True, eq=False)
class Ticket:
    """A request in progress.

    Attributes:
        request: the request. limit: the largest number of response tokens. owner: the number of the policy.
        policy: that policy, for the version of its weights. asker: receives the answer.
        live: the workflow of the call; None outside of workflows.
    """

    request: Request
    limit: int
    owner: int
    policy: VersionedPolicy
    asker: Asker
    live: Live | None = None


class Running:
    """Requests that are answered together, over the pages of one cache. Others may enter at any time.

    Args:
        versions: the version of the weights, by the number of the policy.
    """

    def __init__(self, scheduler: Scheduler, written: Responses, versions: Sequence[int] = ()) -> None:
        self._scheduler, self._written, self._versions = scheduler, written, versions
        self._tickets: dict[int, Ticket] = {}

    @property
    def busy(self) -> bool:
        """Whether there are requests in progress."""
        return bool(self._tickets)

    @property
    def tickets(self) -> list[Ticket]:
        """The tickets whose asker waits, in order of arrival."""
        return [ticket for ticket in self._tickets.values() if ticket.asker.waits]

    def interrupted(self) -> list[Ticket]:
        """`tickets`, each with its response so far."""
        rows = []
        for number, ticket in self._tickets.items():
            if ticket.asker.waits:
                begun = self._written.begun(number, self._versions[ticket.owner])
                going_on = ticket if begun is None else replace(ticket, request=replace(ticket.request, begun=begun))
                rows.append(going_on)
        return rows

    def enter(self, tickets: Sequence[Ticket]) -> None:
        """Adds requests in key order; those that cannot be answered fail."""
        for ticket in sorted(tickets, key=lambda ticket: ticket.request.key):
            try:
                self._scheduler.check(ticket.request, ticket.limit)
            except Exception as error:
                ticket.asker.fail(error)
                continue
            self._tickets[self._scheduler.add(ticket.request, ticket.limit, ticket.owner)] = ticket

    def go_on(self) -> bool:
        """Runs passes until a request is answered, or for a moment; whether there was any work."""
        if not self._scheduler.busy:
            return False
        until = time.monotonic() + BREATH
        while self._scheduler.busy:
            answered = [number for number in self._scheduler.step() if number in self._tickets]
            forwarded = [self._give(number) for number in answered]
            self._drop(answered)
            if any(forwarded) or time.monotonic() > until:
                break
        return True

    def _give(self, number: int) -> bool:
        """Delivers an answer; whether a task can continue."""
        ticket = self._tickets[number]
        if ticket.live is not None:
            # The workflow's next turn may continue here; the pin ends with the workflow.
            ticket.live.at_end(partial(self._scheduler.unpin, self._scheduler.pin(number)))
        return ticket.asker.answer(self._written.sample(number, ticket.policy.version))

    def tidy(self) -> None:
        """Drops requests whose asker no longer waits."""
        self._drop([number for number, ticket in self._tickets.items() if not ticket.asker.waits])

    def _drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self._tickets[number]
        if numbers:
            self._scheduler.drop(numbers)
