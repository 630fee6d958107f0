"""Draws of the next tokens of decoding rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.keys import uniforms
from hocket.engine.decoding import Responses, enlarged
from hocket.engine.requests import Request
from hocket.engine.sampling import Plan, draw
from hocket.policies.operations import Functions


class TokenSampler:
    """Draws next tokens: plain rows in the kernel, rows with a truncated vocabulary by `hocket.engine.sampling`.

    Logits are on `device`, and so is what is drawn by; only the tokens and their log-probs come to the processor.
    """

    def __init__(self, written: Responses, kernels: Functions, vocabulary: int, device: torch.device) -> None:
        self._written, self._kernels, self._vocabulary, self._device = written, kernels, vocabulary, device
        self._words = np.zeros(0, np.uint64)
        self._drawn = np.zeros(0, np.uint64)
        self._temperature = np.zeros(0, np.float32)
        self._greedy = np.zeros(0, np.bool_)
        self._cut = np.zeros(0, np.bool_)
        self._chosen: dict[int, Request] = {}
        self._plan: Plan | None = None
        self._place: dict[int, int] = {}
        self.arrange(np.zeros(0, np.int64))

    def add(self, number: int, request: Request) -> None:
        """Adds the sampling settings of a request."""
        if number >= len(self._words):
            for name in ("_words", "_drawn", "_temperature", "_greedy", "_cut"):
                setattr(self, name, enlarged(getattr(self, name), (2 * number + 1,)))
        way = request.decoding
        self._words[number] = request.key.word
        self._drawn[number] = request.drawn
        self._temperature[number] = way.temperature or 1.0
        self._greedy[number] = way.greedy
        self._cut[number] = way.truncates or bool(way.banned)
        if self._cut[number]:
            self._chosen[number], self._plan = request, None

    def drop(self, number: int) -> None:
        """Forgets a request."""
        if self._chosen.pop(number, None) is not None:
            self._plan = None

    def arrange(self, rows: NDArray[np.int64]) -> None:
        """Sets the requests of the rows of logits."""
        self._rows = rows.copy()
        self._stream = self._words[rows]
        self._temperature_now = torch.from_numpy(self._temperature[rows]).to(self._device)
        self._greedy_now = torch.from_numpy(self._greedy[rows]).to(self._device)
        self._free = torch.full((len(rows),), -1, device=self._device)
        cut = self._cut[rows]
        self._parts: tuple[Tensor, Tensor, Plan] | None = None
        if cut.any():
            if self._plan is None:
                self._place = {number: place for place, number in enumerate(self._chosen)}
                self._plan = Plan.of(list(self._chosen.values()), self._vocabulary, self._device)
            special = np.flatnonzero(cut)
            places = [self._place[number] for number in rows[special].tolist()]
            plan = self._plan.rows(torch.tensor(places))
            self._parts = torch.from_numpy(np.flatnonzero(~cut)), torch.from_numpy(special), plan

    def __call__(self, logits: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The next token of each row and its log-prob, `[R]`; logits `[R, V]`."""
        counters = self._written.length[self._rows].astype(np.uint64) + self._drawn[self._rows]
        imposed = self._written.forced(self._rows)
        forced = self._free if imposed is None else torch.from_numpy(imposed).to(self._device)
        uniform = torch.from_numpy(uniforms(self._stream, counters)).to(self._device)
        if self._parts is None:
            token, logp = self._kernels.draw(logits, uniform, self._temperature_now, self._greedy_now, forced)
            return token.cpu().numpy(), logp.cpu().numpy()
        plain, cut, plan = self._parts
        token, logp = torch.empty_like(forced), torch.empty_like(self._temperature_now)
        arguments = (column[plain] for column in (logits, uniform, self._temperature_now, self._greedy_now, forced))
        token[plain], logp[plain] = self._kernels.draw(*arguments)
        token[cut], logp[cut] = draw(logits[cut], plan, counters[cut.numpy()], forced[cut])
        return token.cpu().numpy(), logp.cpu().numpy()
