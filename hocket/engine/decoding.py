"""Growing responses, and the loop that turns the logits of a lockstep session into samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.columns import ALTERNATIVES, ENTROPIES
from hocket.core.errors import HocketError
from hocket.engine.requests import Request, ResponseStart, Sample
from hocket.engine.sampling import Plan, draw
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings

LEAVE_SHARE = 0.75
"""Finished rows are removed from the batch when at most this share of its rows is alive."""

RowNumbers = NDArray[np.int64]
"""Numbers of requests, one per row of a batch, `[R]`."""


class Responses:
    """The tokens of responses so far, by request number: 0 to N-1 for the first N requests.

    Attributes:
        tokens, logp: `[N, L]`; L grows with the longest response. length: of each response, `[N]`.

    Args:
        requests: by number; more may be added.
        limits: the largest number of response tokens of each, forced prefix included.
        stop_ids: tokens that end a response.
        stops: finds stop strings.
        vocabulary: the number of tokens in the vocabulary.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        limits: Sequence[int],
        stop_ids: Sequence[int],
        stops: StopStrings,
        vocabulary: int,
    ) -> None:
        self._stops = stops
        self._ends = np.zeros(vocabulary, np.bool_)
        self._ends[[token for token in stop_ids if token < vocabulary]] = True
        self._requests: dict[int, Request] = {}
        self._unused: list[int] = []
        self.tokens = np.zeros((0, 0), np.int64)
        self.logp = np.zeros((0, 0), np.float32)
        self.length = np.zeros(0, np.int64)
        self._limits = np.zeros(0, np.int64)
        self._stopped = np.zeros(0, np.bool_)
        self._imposed = np.zeros(0, np.int64)
        self._prefix = np.zeros((0, 0), np.int64)
        self._texts = np.zeros(0, np.bool_)
        self._entropies: dict[int, list[float]] = {}
        self._temperature = np.zeros(0, np.float32)
        self._ranks = np.zeros(0, np.int64)
        self._best = np.zeros((0, 0, 0), np.int64)
        self._best_logp = np.zeros((0, 0, 0), np.float32)
        self._grow(len(requests), 64, 0)
        for request, limit in zip(requests, limits, strict=True):
            self.add(request, limit)

    def add(self, request: Request, limit: int) -> int:
        """Adds a response; returns its number, which may have belonged to a dropped one."""
        if not self._unused:
            self._grow(2 * len(self.length) + 1, 0, 0)
        self._grow(0, 0, len(request.prefix))
        number = self._unused.pop()
        self._requests[number] = request
        self.length[number] = 0
        self._limits[number] = limit
        self._stopped[number] = False
        self._imposed[number] = len(request.prefix)
        self._prefix[number] = -1
        self._prefix[number, : len(request.prefix)] = request.prefix
        self._texts[number] = bool(request.decoding.stop)
        if request.decoding.entropies:
            self._entropies[number] = []
        self._temperature[number] = request.decoding.temperature or 1.0
        self._ranks[number] = request.decoding.alternatives
        if request.begun is not None:
            self._go_on_from(number, request.begun)
        return number

    def _go_on_from(self, number: int, begun: ResponseStart) -> None:
        """Writes the given beginning of a response."""
        length, imposed = len(begun.tokens), int(self._imposed[number])
        self._grow(0, length, 0)
        self.tokens[number, :length], self.logp[number, :length] = begun.tokens, begun.logp
        self.length[number] = length
        if number in self._entropies:
            self._entropies[number].extend(begun.extras[ENTROPIES.name])
        if self._ranks[number] and length > imposed:
            token, logp = begun.extras[ALTERNATIVES.name]
            places = (len(self.length), max(self.tokens.shape[1], length), token.shape[1])
            self._best, self._best_logp = enlarged(self._best, places), enlarged(self._best_logp, places)
            place = (number, slice(imposed, length), slice(token.shape[1]))
            self._best[place], self._best_logp[place] = token, logp

    def drop(self, number: int) -> None:
        """Forgets a response; its number may be reused."""
        del self._requests[number]
        self._entropies.pop(number, None)
        self._ranks[number] = 0
        self._texts[number] = False
        self._unused.append(number)

    def _grow(self, rows: int, width: int, imposed: int) -> None:
        """Makes room for at least this many responses, tokens of each and imposed tokens."""
        before = len(self.length)
        if rows > before:
            for name in ("length", "_limits", "_stopped", "_imposed", "_texts", "_temperature", "_ranks"):
                setattr(self, name, enlarged(getattr(self, name), (rows,)))
            self._unused.extend(range(rows - 1, before - 1, -1))
        rows = len(self.length)
        self.tokens = enlarged(self.tokens, (rows, width))
        self.logp = enlarged(self.logp, (rows, width))
        self._prefix = enlarged(self._prefix, (rows, imposed), -1)

    def left(self, rows: RowNumbers) -> RowNumbers:
        """The most tokens that each response may still get."""
        return self._limits[rows] - self.length[rows]

    def forced(self, rows: RowNumbers) -> RowNumbers | None:
        """The imposed next tokens, -1 where a row is sampled; None if no row has an imposed token."""
        width = self._prefix.shape[1]
        if not width:
            return None
        at = self.length[rows]
        if int(at.min()) >= width:
            return None
        return np.where(at < width, self._prefix[rows, np.minimum(at, width - 1)], -1)

    def tell(self, rows: RowNumbers, logits: Tensor) -> None:
        """Records entropy and likeliest next tokens from the logits `[R, V]`, for rows whose request reads them."""
        if self._ranks.any():
            self._rank(rows, logits)
        if not self._entropies:
            return
        due = [place for place, row in enumerate(rows.tolist()) if self._tells(row)]
        if due:
            numbers = rows[due].tolist()
            logp = torch.log_softmax(self._scaled(rows[due], logits[due]), 1)
            entropies = -torch.where(logp > -torch.inf, logp.exp() * logp, 0.0).sum(1)
            for number, entropy in zip(numbers, entropies.tolist(), strict=True):
                self._entropies[number].append(entropy)

    def _rank(self, rows: RowNumbers, logits: Tensor) -> None:
        """Records the likeliest next tokens with their log-probs, for rows whose request reads them."""
        at = self.length[rows]
        due = np.flatnonzero((self._ranks[rows] > 0) & (at >= self._imposed[rows]))
        if not len(due):
            return
        if len(due) < len(rows):
            rows, at, logits = rows[due], at[due], logits[torch.from_numpy(due).to(logits.device)]
        logp = torch.log_softmax(self._scaled(rows, logits), 1)
        best, token = logp.topk(min(int(self._ranks.max()), logp.shape[1]), 1)
        places = (len(self.length), max(self.tokens.shape[1], int(at.max()) + 1), token.shape[1])
        self._best, self._best_logp = enlarged(self._best, places), enlarged(self._best_logp, places)
        self._best[rows, at, : token.shape[1]] = token.cpu().numpy()
        self._best_logp[rows, at, : token.shape[1]] = best.cpu().numpy()

    def _alternatives(self, row: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The tokens and log-probs that `_rank` recorded of a response, `[L, K]` for its L sampled tokens."""
        place = (row, slice(int(self._imposed[row]), length), slice(int(self._ranks[row])))
        return self._best[place].copy(), self._best_logp[place].copy()

    def _scaled(self, rows: RowNumbers, logits: Tensor) -> Tensor:
        """Logits `[R, V]` of rows at their temperatures."""
        ways = self._temperature[rows]
        plain = logits.float()
        return plain if (ways == 1).all() else plain / torch.from_numpy(ways).to(plain.device)[:, None]

    def _tells(self, number: int) -> bool:
        entropies = self._entropies.get(number)
        wanted = entropies is not None and len(entropies) < self._requests[number].decoding.entropies
        return wanted and bool(self.length[number] >= self._imposed[number])

    def record(self, rows: RowNumbers, token: RowNumbers, logp: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Writes the next token of each row, all different; returns which responses are complete, `[R]`."""
        at = self.length[rows]
        if int(at.max()) >= self.tokens.shape[1]:
            self._grow(0, 2 * self.tokens.shape[1], 0)
        self.tokens[rows, at] = token
        self.logp[rows, at] = logp
        at += 1
        self.length[rows] = at
        # An imposed token does not end a response, except the last one.
        stopped: NDArray[np.bool_] = self._ends[token] & (at >= self._imposed[rows])
        if self._texts.any():
            self._find_stops(rows, stopped)
        self._stopped[rows] = stopped
        ended: NDArray[np.bool_] = stopped | (at >= self._limits[rows])
        return ended

    def _find_stops(self, rows: RowNumbers, stopped: NDArray[np.bool_]) -> None:
        """Marks rows whose last token completes a stop string."""
        for place in np.flatnonzero(self._texts[rows] & (self.length[rows] > self._imposed[rows])).tolist():
            row = int(rows[place])
            written = self.tokens[row, : self.length[row]]
            stop = self._requests[row].decoding.stop
            if self._stops.may_complete(int(written[-1]), stop):
                stopped[place] |= self._stops.completed(written.tolist(), stop, int(self._imposed[row]))

    def sample(self, row: int, version: int) -> Sample:
        """The sample of a completed response."""
        length, begun, versions = int(self.length[row]), self._requests[row].begun, None
        if begun is not None and (begun.version != version).any():
            versions = np.concatenate([begun.version, np.full(length - len(begun.version), version, np.int64)])
        return Sample(
            tokens=self.tokens[row, :length].copy(),
            logp=self.logp[row, :length].copy(),
            finish="stop" if bool(self._stopped[row]) else "length",
            version=version,
            forced=np.arange(length) < int(self._imposed[row]),
            extras={
                **({ENTROPIES.name: self._entropies[row]} if row in self._entropies else {}),
                **({ALTERNATIVES.name: self._alternatives(row, length)} if self._ranks[row] else {}),
            },
            versions=versions,
        )

    def begun(self, row: int, version: int) -> ResponseStart | None:
        """The tokens of a response so far, for an engine that continues it; None if there are none."""
        return written(self.sample(row, version)) if self.length[row] else None


def written(sample: Sample) -> ResponseStart:
    """A response as the beginning of a longer response.

    Raises:
        HocketError: when its log-probs are not known.
    """
    if sample.logp is None:
        raise HocketError("a response without log-probs cannot be continued")
    return ResponseStart(sample.tokens, sample.logp, sample.written_by, sample.extras)


def enlarged(old: NDArray[Any], shape: tuple[int, ...], fill: int = 0) -> NDArray[Any]:
    """`old` if it is at least as large as `shape`, else a larger array with its entries and `fill` elsewhere."""
    if all(have >= want for have, want in zip(old.shape, shape, strict=True)):
        return old
    new = np.full([max(have, want) for have, want in zip(old.shape, shape, strict=True)], fill, old.dtype)
    new[tuple(slice(have) for have in old.shape)] = old
    return new


class LockstepDecoding:
    """Decodes requests in lockstep until each has ended.

    Args:
        requests: one per row of the session, by number.
        limits, stop_ids, stops: see `Responses`.
    """

    def __init__(
        self, requests: Sequence[Request], limits: Sequence[int], stop_ids: Sequence[int], stops: StopStrings
    ) -> None:
        self._requests = requests
        self._settings = (limits, stop_ids, stops)

    def run(self, session: Session, version: int) -> list[Sample]:
        """The samples, by number of request."""
        vocabulary, device = session.logits.shape[1], session.logits.device
        written = Responses(self._requests, *self._settings, vocabulary)
        total = len(self._requests)
        everyone = Plan.of([*self._requests, self._requests[0]], vocabulary, device)
        drawn = np.array([request.drawn for request in (*self._requests, self._requests[0])], np.uint64)
        # One more than there are requests: vacant rows belong to the last number.
        alive = np.arange(total + 1) < total
        rows = session.rows.cpu()
        plan = everyone.rows(rows)
        for counter in range(max(self._settings[0])):
            going = alive[rows.numpy()]
            live = rows.numpy()[going]
            imposed = written.forced(live)
            forced = None
            if imposed is not None:
                forced = torch.full((len(rows),), -1)
                forced[torch.from_numpy(going)] = torch.from_numpy(imposed)
                forced = forced.to(device)
            if len(live):
                written.tell(live, session.logits[torch.from_numpy(going).to(device)])
            token, logp = draw(session.logits, plan, drawn[rows.numpy()] + np.uint64(counter), forced)
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
    return LockstepDecoding(requests, limits, policy.stop_ids, stops).run(session, policy.version)
