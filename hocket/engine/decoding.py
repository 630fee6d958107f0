"""What responses consist of while they grow, and the loop that turns a lockstep session's logits into samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.engine.requests import Request, Sample
from hocket.engine.sampling import Plan, draw
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings

LEAVE_SHARE = 0.75
"""Finished rows leave the batch once no more than this share of its rows is alive."""

Rows = NDArray[np.int64]
"""Numbers of requests, one per row of a batch, `[R]`."""


class Responses:
    """The tokens written so far for N requests.

    Attributes:
        tokens, logp: `[N, L]`; L is the largest limit. length: of each response, `[N]`.

    Args:
        requests: by number.
        limits: the most response tokens of each, forced prefix included.
        stop_ids: tokens that end a response.
        stops: finds stop strings.
        vocabulary: number of tokens there are.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        limits: Sequence[int],
        stop_ids: Sequence[int],
        stops: StopStrings,
        vocabulary: int,
    ) -> None:
        self._requests = requests
        self._stops = stops
        total = len(requests)
        self.tokens = np.zeros((total, max(limits)), np.int64)
        self.logp = np.zeros((total, max(limits)), np.float32)
        self.length = np.zeros(total, np.int64)
        self._limits = np.array(limits)
        self._ends = np.zeros(vocabulary, np.bool_)
        self._ends[[token for token in stop_ids if token < vocabulary]] = True
        self._stopped = np.zeros(total, np.bool_)
        self._imposed = np.array([len(request.prefix) for request in requests])
        self._prefix = np.full((total, int(self._imposed.max())), -1, np.int64)
        for row, request in enumerate(requests):
            self._prefix[row, : len(request.prefix)] = request.prefix
        self._texts = np.array([bool(request.decoding.stop) for request in requests])
        self._any_text = bool(self._texts.any())

    def forced(self, rows: Rows) -> Rows | None:
        """The imposed next tokens, -1 where a row is sampled; None where nothing is imposed."""
        width = self._prefix.shape[1]
        if not width:
            return None
        at = self.length[rows]
        if int(at.min()) >= width:
            return None
        return np.where(at < width, self._prefix[rows, np.minimum(at, width - 1)], -1)

    def record(self, rows: Rows, token: Rows, logp: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Writes the next token of each row, all different; says which responses it completes."""
        at = self.length[rows]
        self.tokens[rows, at] = token
        self.logp[rows, at] = logp
        at += 1
        self.length[rows] = at
        # What was imposed does not end a response, except with its last token.
        stopped: NDArray[np.bool_] = self._ends[token] & (at >= self._imposed[rows])
        if self._any_text:
            self._find_stops(rows, stopped)
        self._stopped[rows] = stopped
        ended: NDArray[np.bool_] = stopped | (at >= self._limits[rows])
        return ended

    def _find_stops(self, rows: Rows, stopped: NDArray[np.bool_]) -> None:
        """Marks rows whose last token completes a stop string."""
        for place in np.flatnonzero(self._texts[rows] & (self.length[rows] > self._imposed[rows])).tolist():
            row = int(rows[place])
            written = self.tokens[row, : self.length[row]]
            stop = self._requests[row].decoding.stop
            if self._stops.may_complete(int(written[-1]), stop):
                stopped[place] |= self._stops.completed(written.tolist(), stop, int(self._imposed[row]))

    def sample(self, row: int, version: int) -> Sample:
        """What a completed response has become."""
        length = int(self.length[row])
        return Sample(
            tokens=self.tokens[row, :length].copy(),
            logp=self.logp[row, :length].copy(),
            finish="stop" if bool(self._stopped[row]) else "length",
            version=version,
            forced=np.arange(length) < int(self._imposed[row]),
        )


class Decoding:
    """Decodes requests in lockstep until each has ended.

    Args:
        requests: one per row of the session, by number.
        limits, stop_ids, stops: see `Responses`.
    """

    def __init__(
        self, requests: Sequence[Request], limits: Sequence[int], stop_ids: Sequence[int], stops: StopStrings
    ) -> None:
        self._requests = requests
        self._told = (limits, stop_ids, stops)

    def run(self, session: Session, version: int) -> list[Sample]:
        """The samples, by number of request."""
        vocabulary, device = session.logits.shape[1], session.logits.device
        written = Responses(self._requests, *self._told, vocabulary)
        total = len(self._requests)
        everyone = Plan.of([*self._requests, self._requests[0]], vocabulary, device)
        # One more than requests: what rows belong to that only fill a place.
        alive = np.arange(total + 1) < total
        rows = session.rows.cpu()
        plan = everyone.rows(rows)
        for counter in range(written.tokens.shape[1]):
            going = alive[rows.numpy()]
            live = rows.numpy()[going]
            imposed = written.forced(live)
            forced = None
            if imposed is not None:
                forced = torch.full((len(rows),), -1)
                forced[torch.from_numpy(going)] = torch.from_numpy(imposed)
                forced = forced.to(device)
            token, logp = draw(session.logits, plan, counter, forced)
            ended = written.record(live, token.cpu().numpy()[going], logp.cpu().numpy()[going])
            alive[live[ended]] = False
            if not alive.any():
                break
            staying = torch.from_numpy(alive[rows.numpy()])
            if int(staying.sum()) <= LEAVE_SHARE * len(rows):
                session.keep(staying.to(device))
                rows = session.rows.cpu()
                plan = everyone.rows(rows)
                token = torch.from_numpy(written.tokens[rows.clamp(max=total - 1).numpy(), counter]).to(device)
            session.step(token)
        return [written.sample(row, version) for row in range(total)]


SessionFactory = Callable[[Sequence[tuple[int, ...]]], Session]
"""Opens a session over contexts, one row each."""


def decode(
    requests: Sequence[Request], limits: Sequence[int], open_session: SessionFactory, stops: StopStrings, policy: Any
) -> list[Sample]:
    """Samples all requests together, in the order given."""
    session = open_session([request.tokens for request in requests])
    return Decoding(requests, limits, policy.stop_ids, stops).run(session, policy.version)
