"""Decoding under the masks of a policy's delayed copy: two models in lockstep, one to draw from and one to allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hocket.engine.requests import Request, Sample
from hocket.engine.session import Session
from hocket.policies.masking import ALLOWED, UNMASKED, masked, nucleus


class MaskedSession:
    """A session whose logits are cut to the nucleus of another session's; implements `hocket.engine.session.Session`.

    Args:
        policy, delayed: sessions of the policy and of its copy, over the same contexts.
        requests: one per row at the start, by number; `decoding.nucleus` is each one's mass.
    """

    def __init__(self, policy: Session, delayed: Session, requests: Sequence[Request]) -> None:
        self._policy, self._delayed = policy, delayed
        self._mass = [request.decoding.nucleus for request in requests]
        self._history: list[tuple[Tensor, Tensor, Tensor]] = []
        self.rows = policy.rows
        self._read()

    def step(self, tokens: Tensor) -> None:
        self._policy.step(tokens)
        self._delayed.step(tokens)
        self._read()

    def keep(self, alive: Tensor) -> None:
        self._policy.keep(alive)
        self._delayed.keep(alive)
        # Sessions of equal contexts arrange their rows alike.
        self.rows = self._policy.rows

    def _read(self) -> None:
        """Masks the logits of the next token, and remembers by what."""
        rows, whole = self.rows, self._policy.logits.float()
        logp = torch.log_softmax(self._delayed.logits.float(), 1)
        # Rows that only fill a place have a number beyond the requests.
        masses = [self._mass[row] if row < len(self._mass) else 1.0 for row in rows.tolist()]
        allowed = torch.stack([nucleus(one[None], mass)[0] for one, mass in zip(logp, masses, strict=True)])
        self.logits = masked(whole, allowed)
        self._history.append((rows.cpu(), allowed.cpu(), whole.cpu()))

    def completed(self, samples: Sequence[Sample], requests: Sequence[Request]) -> list[Sample]:
        """The samples, by number of request, with the masks and whole log-probs of their tokens in `extras`."""
        vocabulary = self._history[0][1].shape[1]
        allowed = [np.ones((len(sample.tokens), vocabulary), np.bool_) for sample in samples]
        whole = [np.zeros(len(sample.tokens), np.float32) for sample in samples]
        for at, (rows, kept, logits) in enumerate(self._history):
            for place, number in enumerate(rows.tolist()):
                if number >= len(samples) or at >= len(samples[number].tokens):
                    continue
                heat = requests[number].decoding.temperature or 1.0
                token = int(samples[number].tokens[at])
                whole[number][at] = float(torch.log_softmax(logits[place] / heat, 0)[token])
                if not samples[number].forced[at]:
                    allowed[number][at] = kept[place].numpy()
        return [
            replace(
                sample,
                logp=None if sample.logp is None else np.where(sample.forced, whole[number], sample.logp),
                extras={ALLOWED: allowed[number], UNMASKED: whole[number]},
            )
            for number, sample in enumerate(samples)
        ]
