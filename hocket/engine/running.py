"""A batch under way: what enters it, and where its answers go."""

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
"""Seconds after which the event loop gets its turn although nothing was answered."""


class VersionedPolicy(Protocol):
    """A policy, as far as a sample must know it."""

    version: int


class Asker(Protocol):
    """Who waits for an answer."""

    @property
    def waits(self) -> bool:
        """Whether anybody still does."""
        ...

    def answer(self, sample: Sample) -> bool:
        """Takes the answer; whether somebody can go on now."""
        ...

    def fail(self, error: BaseException) -> None: ...


@dataclass(frozen=True, eq=False)
class Ticket:
    """A request under way.

    Attributes:
        request: what is asked. limit: the most response tokens. owner: the number of the policy that answers.
        policy: that policy, for the version of its weights. asker: who waits.
        live: the workflow that asks; None outside of any.
    """

    request: Request
    limit: int
    owner: int
    policy: VersionedPolicy
    asker: Asker
    live: Live | None = None


class Running:
    """Requests that are answered together, over the pages of one cache; others may enter at any time.

    Args:
        versions: of the weights that answer, by the number of the policy.
    """

    def __init__(self, scheduler: Scheduler, written: Responses, versions: Sequence[int] = ()) -> None:
        self._scheduler, self._written, self._versions = scheduler, written, versions
        self._tickets: dict[int, Ticket] = {}

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._tickets)

    @property
    def tickets(self) -> list[Ticket]:
        """Of requests that somebody waits for, in the order in which they came."""
        return [ticket for ticket in self._tickets.values() if ticket.asker.waits]

    def interrupted(self) -> list[Ticket]:
        """`tickets`, each with what was written for it so far."""
        rows = []
        for number, ticket in self._tickets.items():
            if ticket.asker.waits:
                begun = self._written.begun(number, self._versions[ticket.owner])
                going_on = ticket if begun is None else replace(ticket, request=replace(ticket.request, begun=begun))
                rows.append(going_on)
        return rows

    def enter(self, tickets: Sequence[Ticket]) -> None:
        """Lets requests in, in key order; those that could never be answered fail."""
        for ticket in sorted(tickets, key=lambda ticket: ticket.request.key):
            try:
                self._scheduler.check(ticket.request, ticket.limit)
            except Exception as error:
                ticket.asker.fail(error)
                continue
            self._tickets[self._scheduler.add(ticket.request, ticket.limit, ticket.owner)] = ticket

    def go_on(self) -> bool:
        """Until something is answered, or for a moment; says whether there was anything to do."""
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
        """Hands over an answer; whether somebody can go on now."""
        ticket = self._tickets[number]
        if ticket.live is not None:
            # Its next turn goes on from here; once it has ended, nobody may.
            ticket.live.at_end(partial(self._scheduler.unpin, self._scheduler.pin(number)))
        return ticket.asker.answer(self._written.sample(number, ticket.policy.version))

    def tidy(self) -> None:
        """Drops requests that nobody waits for any more."""
        self._drop([number for number, ticket in self._tickets.items() if not ticket.asker.waits])

    def _drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self._tickets[number]
        if numbers:
            self._scheduler.drop(numbers)
