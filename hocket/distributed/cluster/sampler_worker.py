"""A process that samples for a run: it holds copies of the policies and plays the episodes that it is asked for.

It reads neither rewards nor data, and serves no weights that the first process has not found to be its own.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hocket.agents.workflows.ending import ended
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.distributed.cluster.connection import serve
from hocket.distributed.cluster.messages import Roots, pack_answer, unpack_question
from hocket.distributed.cluster.setup import Setup, built
from hocket.distributed.cluster.weight_deltas import (
    Damaged,
    Difference,
    Products,
    applied,
    products_of,
    used,
    weights_for,
)
from hocket.distributed.cluster.weights import PackedWeights, digest, packed_of, put
from hocket.train.aio import run_async
from hocket.types import Assignment, Quantity, Scenario, Trajectory

if TYPE_CHECKING:
    from hocket.distributed.cluster.interruption import Plan, Plans
    from hocket.stages import Player, Policy


@dataclass(frozen=True)
class Load:
    """Sample from these weights from now on. Answered by the digest of what is held under their names then.

    Attributes:
        weights: of each policy, or how what it samples with differs from now. Of such differences all are taken or,
            where one is damaged, none, and the answer is `LoadRefusal`; the digest is then of what is sampled with.
        versions: of each policy. needs: what its objective asked of it, which decides what weights it has.
        references: the policies as they were before training, where they changed and the rollout plays them.
    """

    weights: Mapping[str, PackedWeights] | Mapping[str, Difference]
    versions: Mapping[str, int]
    needs: Mapping[str, frozenset[Quantity]]
    references: Mapping[str, PackedWeights]


@dataclass(frozen=True)
class LoadRefusal:
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
    """Play all these, side by side. Answered by `PlayResult`.

    Attributes:
        usual: the versions of the policies that the plays were begun for. With them weights may change on the way:
            what is not done after a `moment` of seconds is answered by `Underway`, and goes on with `GoOn`.
    """

    plays: Sequence[Play]
    usual: Mapping[str, int] | None = None
    moment: float = 0.0

    @property
    def assignments(self) -> list[Assignment]:
        return [assignment for play in self.plays for assignment in play.assignments]


@dataclass(frozen=True)
class Underway:
    """What was to be played is not done yet."""


@dataclass(frozen=True)
class GoOn:
    """Go on with what is under way. Answered as `Plays`."""


@dataclass(frozen=True)
class PlayResult:
    """Every sample of every assignment of every play, in order.

    Attributes:
        plans: of each play, what other versions than the usual ones wrote; nothing where these were not told.
        counts: what the engines did. peak: resident memory so far, MiB. where: the process that played.
    """

    trajectories: Sequence[Trajectory]
    counts: Mapping[str, int]
    peak: float
    where: str
    plans: Sequence[Plans] = ()


def main(handle: int) -> None:
    """Serves the connection at a file descriptor until its other end is closed."""
    serve(handle, Worker().answered)


class Worker:
    """The policies of a run and what plays them, once it was told of it."""

    def __init__(self) -> None:
        self._policies: Mapping[str, Policy] = {}
        self._references: dict[str, Policy] = {}
        self._playing: _Playing | None = None
        self._kept: Roots = ()

    def answered(self, message: bytes, *beside: PackedWeights) -> bytes:
        """Does what a message says; an error is an answer too."""
        from hocket.train.sampler_worker import portable

        try:
            question, roots = unpack_question(message, beside)
        except Exception as error:
            return pickle.dumps(portable(error))
        if isinstance(question, Plays):
            self._kept = roots
        try:
            if isinstance(question, (Plays, GoOn)):
                reply = self._play(question) if isinstance(question, Plays) else self._go_on()
                return pack_answer(reply, reply.trajectories if isinstance(reply, PlayResult) else (), self._kept)
            return pickle.dumps(self._set_up(question) if isinstance(question, Setup) else self._load(question))
        except Exception as error:
            if isinstance(question, (Plays, GoOn)):
                return pack_answer(portable(error), (), self._kept)
            return pickle.dumps(portable(error))

    def _set_up(self, message: Setup) -> list[Scenario]:
        """Some scenarios of the task, by which the first process sees whether it is the same."""
        self._built = built(message)
        self._policies, self._player = self._built.policies, self._built.player
        return samples_of(self._built.task)

    def _load(self, message: Load) -> str | LoadRefusal:
        from hocket.train.kinds import kind_of

        for name in message.weights:
            self._policies[name].require(message.needs[name])
        try:
            new = {name: self._undone(name, weights) for name, weights in message.weights.items()}
        except Damaged as error:
            return LoadRefusal(str(error))
        held = {}
        for name, (weights, products) in new.items():
            held[name] = put(self._policies[name].module, weights)
            if products is not None:
                held[name] = used(held[name], products)
            self._policies[name].version = message.versions[name]
        if self._playing is not None:
            _renew(self._player)
        for name, weights in message.references.items():
            self._references[name] = self._policies[name].frozen_copy()
            put(self._references[name].module, weights)
        if message.references:
            kind = kind_of(self._built.task, self._built.config)
            self._player = kind.with_references(self._built.config, self._player, self._references)
        return digest(held)

    def _undone(self, name: str, weights: PackedWeights | Difference) -> tuple[PackedWeights, Products | None]:
        """The weights that were sent, and of a difference what it is one of."""
        if isinstance(weights, PackedWeights):
            return weights, None
        products = products_of(self._policies[name])
        before = used(packed_of(self._policies[name], whole=False), products)
        restored = weights_for(applied(before, weights), products)
        if restored is None:
            raise Damaged("a difference that comes to no weights")
        return restored, products

    def _play(self, message: Plays) -> PlayResult | Underway:
        from hocket.agents.workflows.cast import seated

        before, players = _counts(self._player), [seated(self._player, play.seats) for play in message.plays]
        plans: list[dict[str, Plan]] = [{} for _ in message.plays]
        if message.usual is not None:
            together = zip(players, plans, strict=True)
            players = [_interrupted(player, message.usual, plan) for player, plan in together]

        async def side_by_side() -> list[list[Trajectory]]:
            together = zip(players, message.plays, strict=True)
            return await asyncio.gather(*(player.play(play.assignments, key=play.key) for player, play in together))

        if message.usual is None:
            return self._played(run_async(side_by_side()), before, ())
        self._playing = _Playing(side_by_side(), message.moment, before, plans)
        return self._go_on()

    def _go_on(self) -> PlayResult | Underway:
        """Plays for a moment."""
        playing = self._playing
        if playing is None:
            raise HocketError("nothing is under way that could go on")
        try:
            played = playing.on()
        except BaseException:
            self._playing = None
            raise
        if played is None:
            return Underway()
        self._playing = None
        return self._played(played, playing.before, playing.plans)

    def _played(
        self, found: Sequence[Sequence[Trajectory]], before: Mapping[str, int], plans: Sequence[Plans]
    ) -> PlayResult:
        from hocket.train.sampler_worker import peak

        done = Counter(_counts(self._player))
        done.subtract(before)
        trajectories = [trajectory for played in found for trajectory in played]
        return PlayResult(trajectories, dict(done), peak(), f"process {os.getpid()} on {socket.gethostname()}", plans)


class _Playing:
    """What is played a moment at a time, so that weights may change in between.

    Attributes:
        before: what engines had done before it. plans: of each play, as they are noted.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, list[list[Trajectory]]],
        moment: float,
        before: Mapping[str, int],
        plans: Sequence[Plans],
    ) -> None:
        self.before, self.plans, self._moment = before, plans, moment
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work)

    def on(self) -> list[list[Trajectory]] | None:
        """Goes on for a moment; what was played once all is, and None before."""
        self._loop.run_until_complete(asyncio.wait({self._task}, timeout=self._moment))
        if not self._task.done():
            return None
        self._loop.run_until_complete(ended(asyncio.all_tasks(self._loop)))
        self._loop.close()
        return self._task.result()


def _interrupted(player: Player, usual: Mapping[str, int], plans: dict[str, Plan]) -> Player:
    """The player whose answers go on when weights change."""
    from hocket.agents.workflows.player import TextPlayer
    from hocket.distributed.cluster.interruption import noted
    from hocket.engine.requests import Interruptible

    assert isinstance(player, TextPlayer)
    for actor in player.actors.values():
        if isinstance(actor.engine, Interruptible):
            actor.engine.interrupted = True
    return noted(player, usual, plans)


def _renew(player: Player) -> None:
    """Has servers break off what they write, so that it goes on under new weights."""
    from hocket.agents.workflows.player import TextPlayer

    assert isinstance(player, TextPlayer)
    for engine in {id(actor.engine): actor.engine for actor in player.actors.values()}.values():
        renew: Callable[[], None] | None = getattr(engine, "renew", None)
        if renew is not None:
            renew()


def _counts(player: Player) -> Mapping[str, int]:
    counted: Callable[[], Mapping[str, int]] = getattr(player, "counts", dict)
    return counted()


def samples_of(task: Any) -> list[Scenario]:
    """Some scenarios, by which two processes see whether they mean the same task."""
    return [task.scenario(split, 0) for split in ("train", "eval")]
