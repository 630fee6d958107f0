"""A cache of the reference's log-probs of recorded answers: a reference does not change, and answers recur."""

from __future__ import annotations

import hashlib
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.evaluating import evaluate_detached
from hocket.stages import Policy, State
from hocket.types import Quantity

LIMIT = 2**22
"""Decisions kept at most, 16 MiB of log-probs; what is met after that is evaluated each time."""


@runtime_checkable
class FingerprintedPolicy(Protocol):
    """A policy whose log-probs depend only on the tokens before a decision, and that reports changes of its weights."""

    def fingerprint(self) -> tuple[int, ...]: ...


class ReferenceCache:
    """Remembers, by the tokens up to the end of a turn and its temperature, what the reference says of the turn.

    Only turns that nobody sampled are kept: those of recorded answers come back in every epoch and evaluation, samples
    do not. Nothing is kept of a reference that cannot tell when its weights change, and all is forgotten when they do.
    A checkpoint holds what is kept, so that a resumed run evaluates what the run would have.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept: dict[bytes, Tensor] = {}
        self._size = 0
        self._weights: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def logp(self, batch: Batch, reference: Policy, decisions: Tensor, given: Tensor) -> Tensor:
        """Log-probs under `reference` of `decisions` `[K]`, without gradient, scattered into `[T]`.

        Those in `given` `[G]` were not sampled.
        """
        if not isinstance(reference, FingerprintedPolicy) or not len(given):
            return evaluate_detached(reference, batch, {Quantity.LOGP}, decisions).logp
        weights = reference.fingerprint()
        if self._weights not in (None, weights):
            self._kept, self._size = {}, 0
        self._weights = weights
        turns = _turns(batch, decisions, given)
        known = {turn: self._kept[name] for turn, name in turns.items() if name in self._kept}
        left = ~torch.isin(batch.turn[decisions], torch.tensor(sorted(known), dtype=torch.long))
        logp = evaluate_detached(reference, batch, {Quantity.LOGP}, decisions[left]).logp
        places = _places(batch)
        for turn, name in turns.items():
            if turn in known:
                logp[places[turn]] = known[turn].to(logp.dtype)
            elif self._size + len(places[turn]) <= self._limit:
                self._kept[name] = logp[places[turn]].clone()
                self._size += len(places[turn])
        return logp

    def state(self) -> State:
        """What is kept."""
        values = list(self._kept.values())
        return {
            "names": np.frombuffer(b"".join(self._kept), np.uint8),
            "lengths": np.array([len(value) for value in values], np.int64),
            "logp": torch.cat(values) if values else torch.zeros(0),
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        names = np.asarray(state["names"], np.uint8).tobytes()
        values = torch.split(state["logp"], [int(length) for length in state["lengths"]])
        keys = [names[start : start + _NAME] for start in range(0, len(names), _NAME)]
        self._kept = dict(zip(keys, values, strict=True)) if keys else {}
        self._size = len(state["logp"])
        # The reference may be read after this, and is the one that these are of.
        self._weights = None


_NAME = 16


def _turns(batch: Batch, decisions: Tensor, prompted: Tensor) -> dict[int, bytes]:
    """The turns whose decisions are all asked and given, by number, with the name under which they are kept."""
    sizes = torch.bincount(batch.turn, minlength=batch.turns)
    complete = (torch.bincount(batch.turn[prompted], minlength=batch.turns) == sizes) & (sizes > 0)
    complete &= torch.bincount(batch.turn[decisions], minlength=batch.turns) == sizes
    chosen = torch.nonzero(complete).flatten().tolist()
    actions, places, parent = batch.tokens(), _places(batch), batch.parent.tolist()
    heard: dict[int, bytes] = {}

    def name(turn: int) -> bytes:
        """Of all tokens up to the turn's end."""
        if turn not in heard:
            digest = hashlib.blake2b(name(parent[turn]) if parent[turn] >= 0 else b"", digest_size=_NAME)
            for part in (np.asarray(batch.observation[turn], np.int64), actions[places[turn]]):
                digest.update(len(part).to_bytes(8, "little") + part.tobytes())
            heard[turn] = digest.digest()
        return heard[turn]

    def kept_as(turn: int) -> bytes:
        temperature = 1.0 if batch.temperature is None else float(batch.temperature[turn])
        return hashlib.blake2b(name(turn) + np.float64(temperature).tobytes(), digest_size=_NAME).digest()

    return {turn: kept_as(turn) for turn in chosen}


def _places(batch: Batch) -> list[np.ndarray]:
    """The decisions of each turn in time order."""
    turn = batch.turn.cpu().numpy()
    ends = np.cumsum(np.bincount(turn, minlength=batch.turns))
    return np.split(np.argsort(turn, kind="stable"), ends[:-1]) if batch.turns else []
