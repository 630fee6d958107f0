"""The loop that turns a session's logits into finished samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.engine.requests import Request, Sample
from hocket.engine.sampling import Plan, draw
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings

LEAVE_SHARE = 0.75
"""Finished rows leave the batch once no more than this share of its rows is alive."""

Rows = NDArray[np.int64]
"""One number per row of the session, `[R]`."""


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
        self._tokens = np.zeros((total + 1, max(limits)), np.int64)
        self._logp = np.zeros((total + 1, max(limits)), np.float32)
        self._length = np.zeros(total + 1, np.int64)
        self._stopped = np.zeros(total + 1, np.bool_)
        self._done = np.zeros(total + 1, np.bool_)
        self._done[total] = True
        self._limits = np.array([*limits, 1])
        self._imposed = np.array([*(len(request.prefix) for request in requests), 0])
        self._prefix = np.full((total + 1, int(self._imposed.max())), -1, np.int64)
        for row, request in enumerate(requests):
            self._prefix[row, : len(request.prefix)] = request.prefix
        self._texts = [row for row, request in enumerate(requests) if request.decoding.stop]

    def run(self, session: Session, version: int) -> list[Sample]:
        """The samples, by number of request."""
        vocabulary, device = session.logits.shape[1], session.logits.device
        ends = np.zeros(vocabulary, np.bool_)
        ends[[token for token in self._stop_ids if token < vocabulary]] = True
        everyone = Plan.of([*self._requests, self._requests[0]], vocabulary, device)
        rows = session.rows.cpu()
        plan = everyone.rows(rows)
        for counter in range(self._tokens.shape[1]):
            token, logp = draw(session.logits, plan, counter, self._forced(rows.numpy(), counter, device))
            self._record(rows.numpy(), counter, token.cpu().numpy(), logp.cpu().numpy(), ends)
            alive = torch.from_numpy(~self._done[rows.numpy()])
            living = int(alive.sum())
            if not living:
                break
            if living <= LEAVE_SHARE * len(rows):
                session.keep(alive.to(device))
                rows = session.rows.cpu()
                plan = everyone.rows(rows)
                token = torch.from_numpy(self._tokens[rows.numpy(), counter]).to(device)
            session.step(token)
        return [self._sample(row, version) for row in range(len(self._requests))]

    def _forced(self, rows: Rows, counter: int, device: torch.device) -> Tensor | None:
        """The imposed tokens at this place, -1 where a row is sampled; None where nothing is imposed any more."""
        if counter >= self._prefix.shape[1]:
            return None
        return torch.from_numpy(self._prefix[rows, counter]).to(device)

    def _record(
        self, rows: Rows, counter: int, token: Rows, logp: NDArray[np.float32], ends: NDArray[np.bool_]
    ) -> None:
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

    def _find_stops(self, rows: Rows, counter: int) -> NDArray[np.bool_]:
        found = np.zeros(len(rows), np.bool_)
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
            tokens=self._tokens[row, :length].copy(),
            logp=self._logp[row, :length].copy(),
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
