"""Decoding under action masks: the sampled policy, and in lockstep the copy whose log-probs the masks read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hocket.core.columns import ALLOWED, UNMASKED
from hocket.engine.requests import Request, Sample
from hocket.engine.session import Session
from hocket.policies.masking import masked


class MaskedSession:
    """A session whose logits are limited to the tokens that masks allow; a `hocket.engine.session.Session`.

    Args:
        policy, copied: sessions of the policy and of the copy that masks read, over the same contexts; None where they
            read the policy.
        requests: one per row at the start, by number, each with a `decoding.mask`.
    """

    def __init__(self, policy: Session, copied: Session | None, requests: Sequence[Request]) -> None:
        self._policy, self._copied = policy, copied
        self._masks = [request.decoding.mask for request in requests]
        self._history: list[tuple[Tensor, Tensor, Tensor]] = []
        self.rows = policy.rows
        self._read()

    def step(self, tokens: Tensor) -> None:
        self._policy.step(tokens)
        if self._copied is not None:
            self._copied.step(tokens)
        self._read()

    def keep(self, alive: Tensor) -> None:
        self._policy.keep(alive)
        if self._copied is not None:
            self._copied.keep(alive)
        # Sessions of equal contexts arrange their rows alike.
        self.rows = self._policy.rows

    def _read(self) -> None:
        """Masks the logits of the next token, and records the masks."""
        rows, full = self.rows, self._policy.logits.float()
        read = full if self._copied is None else self._copied.logits.float()
        logp = torch.log_softmax(read, 1)
        allowed = torch.stack([self._allowed(row, row_logp) for row, row_logp in zip(rows.tolist(), logp, strict=True)])
        self.logits = masked(full, allowed)
        self._history.append((rows.cpu(), allowed.cpu(), full.cpu()))

    def _allowed(self, row: int, logp: Tensor) -> Tensor:
        """The tokens allowed next for request number `row`, `[V]`. Vacant rows have a number beyond the requests."""
        mask = self._masks[row] if row < len(self._masks) else None
        return torch.ones_like(logp, dtype=torch.bool) if mask is None else mask.allowed(logp[None])[0]

    def completed(self, samples: Sequence[Sample], requests: Sequence[Request]) -> list[Sample]:
        """The samples, by number of request, with the masks and whole log-probs of their tokens in `extras`."""
        vocabulary = self._history[0][1].shape[1]
        allowed = [np.ones((len(sample.tokens), vocabulary), np.bool_) for sample in samples]
        columns = [np.zeros(len(sample.tokens), np.float32) for sample in samples]
        for at, (rows, inside, logits) in enumerate(self._history):
            for place, number in enumerate(rows.tolist()):
                if number >= len(samples) or at >= len(samples[number].tokens):
                    continue
                temperature = requests[number].decoding.temperature or 1.0
                token = int(samples[number].tokens[at])
                columns[number][at] = float(torch.log_softmax(logits[place] / temperature, 0)[token])
                if not samples[number].forced[at]:
                    allowed[number][at] = inside[place].numpy()
        return [
            replace(
                sample,
                logp=None if sample.logp is None else np.where(sample.forced, columns[number], sample.logp),
                extras={ALLOWED.name: allowed[number], UNMASKED.name: columns[number]},
            )
            for number, sample in enumerate(samples)
        ]
