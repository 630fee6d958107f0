"""The loop that turns a session's logits into finished samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.engine.requests import Request, Sample
from hocket.engine.sampling import Plan, draw
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings

LEAVE_SHARE = 0.75
"""Finished rows leave the batch once no more than this share of its rows is alive."""


class Decoding:
    """Decodes requests in lockstep until each has ended.

    Args:
        requests: one per row of the session, by number.
        limits: the most response tokens of each, forced prefix included.
        stop_ids: tokens that end a response.
        stops: finds stop strings.
    """

    def __init__(
        self, requests: Sequence[Request], limits: Sequence[int], stop_ids: Sequence[int], stops: StopStrings
    ) -> None:
        self._requests = requests
        self._stops = stops
        self._stop_ids = stop_ids
        total = len(requests)
        # One more row than requests: where the rows write that only fill a place.
        self._tokens = torch.zeros(total + 1, max(limits), dtype=torch.long)
        self._logp = torch.zeros(total + 1, max(limits))
        self._length = torch.zeros(total + 1, dtype=torch.long)
        self._stopped = torch.zeros(total + 1, dtype=torch.bool)
        self._done = torch.zeros(total + 1, dtype=torch.bool)
        self._done[total] = True
        self._limits = torch.tensor([*limits, 1])
        self._imposed = torch.tensor([*(len(request.prefix) for request in requests), 0])
        self._prefix = torch.full((total + 1, int(self._imposed.max())), -1, dtype=torch.long)
        for row, request in enumerate(requests):
            self._prefix[row, : len(request.prefix)] = torch.tensor(request.prefix, dtype=torch.long)
        self._texts = [row for row, request in enumerate(requests) if request.decoding.stop]

    def run(self, session: Session, version: int) -> list[Sample]:
        """The samples, by number of request."""
        vocabulary, device = session.logits.shape[1], session.logits.device
        ends = torch.zeros(vocabulary, dtype=torch.bool)
        ends[[token for token in self._stop_ids if token < vocabulary]] = True
        everyone = Plan.of([*self._requests, self._requests[0]], vocabulary, device)
        rows = session.rows.cpu()
        plan = everyone.rows(rows)
        for counter in range(self._tokens.shape[1]):
            forced = self._prefix[rows, counter] if counter < self._prefix.shape[1] else None
            token, logp = draw(session.logits, plan, counter, None if forced is None else forced.to(device))
            self._record(rows, counter, token.cpu(), logp.cpu(), ends)
            alive = ~self._done[rows]
            living = int(alive.sum())
            if not living:
                break
            if living <= LEAVE_SHARE * len(rows):
                session.keep(alive.to(device))
                rows = session.rows.cpu()
                plan = everyone.rows(rows)
            session.step(self._tokens[rows, counter].to(device))
        return [self._sample(row, version) for row in range(len(self._requests))]

    def _record(self, rows: Tensor, counter: int, token: Tensor, logp: Tensor, ends: Tensor) -> None:
        """Writes token number `counter` of each row and ends the rows it completes."""
        self._tokens[rows, counter] = token
        self._logp[rows, counter] = logp
        # What was imposed does not end a response, except with its last token.
        stopped = ends[token] & (counter + 1 >= self._imposed[rows])
        if self._texts:
            stopped |= self._find_stops(rows, counter)
        ended = (stopped | (counter + 1 >= self._limits[rows])) & ~self._done[rows]
        finished = rows[ended]
        self._length[finished] = counter + 1
        self._stopped[finished] = stopped[ended]
        self._done[finished] = True

    def _find_stops(self, rows: Tensor, counter: int) -> Tensor:
        found = torch.zeros(len(rows), dtype=torch.bool)
        place = {row: number for number, row in enumerate(rows.tolist())}
        for row in self._texts:
            if row in place and not self._done[row] and counter >= self._imposed[row]:
                written = self._tokens[row, : counter + 1].tolist()
                stop = self._requests[row].decoding.stop
                found[place[row]] = self._stops.completed(written, stop, int(self._imposed[row]))
        return found

    def _sample(self, row: int, version: int) -> Sample:
        length = int(self._length[row])
        return Sample(
            tokens=self._tokens[row, :length].numpy().copy(),
            logp=self._logp[row, :length].numpy().copy(),
            finish="stop" if bool(self._stopped[row]) else "length",
            version=version,
            forced=np.arange(length) < int(self._imposed[row]),
        )


SessionFactory = Callable[[Sequence[tuple[int, ...]]], Session]
"""Opens a session over contexts, one row each."""


def decode(
    requests: Sequence[Request], limits: Sequence[int], open_session: SessionFactory, stops: StopStrings, policy: Any
) -> list[Sample]:
    """Samples all requests together, in the order given."""
    session = open_session([request.tokens for request in requests])
    return Decoding(requests, limits, policy.stop_ids, stops).run(session, policy.version)
