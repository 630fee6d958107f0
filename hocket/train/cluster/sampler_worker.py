"""A process that samples for a run: it holds copies of the policies and plays the episodes that it is asked for.

It reads neither rewards nor data, and serves no weights that the first process has not found to be its own.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hocket.core.keys import Key
from hocket.train.aio import run_async
from hocket.train.cluster.differences import Damaged, Difference, Products, applied, products_of, used, weights_for
from hocket.train.cluster.line import serve
from hocket.train.cluster.messages import answered, heard
from hocket.train.cluster.setup import Setup, built
from hocket.train.cluster.weights import Packed, digest, packed_of, put
from hocket.types import Assignment, Quantity, Scenario, Trajectory

if TYPE_CHECKING:
    from hocket.stages import Player, Policy


@dataclass(frozen=True)
class Load:
    """Sample from these weights from now on. Answered by the digest of what is held under their names then.

    Attributes:
        weights: of each policy, or how what it samples with differs from now. Of such differences all are taken or,
            where one is damaged, none, and the answer is `Refused`; the digest is then of what is sampled with.
        versions: of each policy. needs: what its objective asked of it, which decides what weights it has.
        references: the policies as they were before training, where they changed and the rollout plays them.
    """

    weights: Mapping[str, Packed] | Mapping[str, Difference]
    versions: Mapping[str, int]
    needs: Mapping[str, frozenset[Quantity]]
    references: Mapping[str, Packed]


@dataclass(frozen=True)
class Refused:
    """No weights were taken."""

    why: str


@dataclass(frozen=True)
class Play:
    """Assignments to be played by the policies that `seats` names for roles."""

    assignments: Sequence[Assignment]
    seats: Mapping[str, str]
    key: Key


@dataclass(frozen=True)
class Plays:
    """Play all these, side by side. Answered by `Played`."""

    plays: Sequence[Play]

    @property
    def assignments(self) -> list[Assignment]:
        return [one for play in self.plays for one in play.assignments]


@dataclass(frozen=True)
class Played:
    """Every sample of every assignment of every play, in order.

    Attributes:
        counts: what the engines did. peak: resident memory so far, MiB. where: the process that played.
    """

    trajectories: Sequence[Trajectory]
    counts: Mapping[str, int]
    peak: float
    where: str


def main(handle: int) -> None:
    """Serves the connection at a file descriptor until its other end is closed."""
    serve(handle, Worker().answered)


class Worker:
    """The policies of a run and what plays them, once it was told of it."""

    def __init__(self) -> None:
        self._policies: Mapping[str, Policy] = {}
        self._references: dict[str, Policy] = {}

    def answered(self, message: bytes) -> bytes:
        """Does what a message says; an error is an answer too."""
        from hocket.train.sampler_worker import portable

        try:
            question, kept = heard(message)
            if isinstance(question, Plays):
                found = self._play(question)
                return answered(found, found.trajectories, kept)
            return pickle.dumps(self._set_up(question) if isinstance(question, Setup) else self._load(question))
        except Exception as error:
            return pickle.dumps(portable(error))

    def _set_up(self, message: Setup) -> list[Scenario]:
        """Some scenarios of the task, by which the first process sees whether it is the same."""
        self._built = built(message)
        self._policies, self._player = self._built.policies, self._built.player
        return samples_of(self._built.task)

    def _load(self, message: Load) -> str | Refused:
        from hocket.train.kinds import kind_of

        for name in message.weights:
            self._policies[name].require(message.needs[name])
        try:
            new = {name: self._undone(name, weights) for name, weights in message.weights.items()}
        except Damaged as error:
            return Refused(str(error))
        held = {}
        for name, (weights, products) in new.items():
            held[name] = put(self._policies[name].module, weights)
            if products is not None:
                held[name] = used(held[name], products)
            self._policies[name].version = message.versions[name]
        for name, weights in message.references.items():
            self._references[name] = self._policies[name].frozen_copy()
            put(self._references[name].module, weights)
        if message.references:
            kind = kind_of(self._built.task)
            self._player = kind.with_references(self._built.config, self._player, self._references)
        return digest(held)

    def _undone(self, name: str, weights: Packed | Difference) -> tuple[Packed, Products | None]:
        """The weights that were sent, and of a difference what it is one of."""
        if isinstance(weights, Packed):
            return weights, None
        products = products_of(self._policies[name])
        before = used(packed_of(self._policies[name], whole=False), products)
        found = weights_for(applied(before, weights), products)
        if found is None:
            raise Damaged("a difference that comes to no weights")
        return found, products

    def _play(self, message: Plays) -> Played:
        from hocket.train.sampler_worker import peak
        from hocket.workflows.cast import seated

        before = _counts(self._player)
        players = [seated(self._player, play.seats) for play in message.plays]

        async def side_by_side() -> list[list[Trajectory]]:
            together = zip(players, message.plays, strict=True)
            return await asyncio.gather(*(player.play(play.assignments, key=play.key) for player, play in together))

        found = run_async(side_by_side())
        done = Counter(_counts(self._player))
        done.subtract(before)
        trajectories = [one for played in found for one in played]
        return Played(trajectories, dict(done), peak(), f"process {os.getpid()} on {socket.gethostname()}")


def _counts(player: Player) -> Mapping[str, int]:
    counted: Callable[[], Mapping[str, int]] = getattr(player, "counts", dict)
    return counted()


def samples_of(task: Any) -> list[Scenario]:
    """Some scenarios, by which two processes see whether they mean the same task."""
    return [task.scenario(split, 0) for split in ("train", "eval")]
