"""A process that learns together with the first one: it holds the same policies and computes some of the leaves.

It is told batches that have their credit already, and makes the same step as all others of its group. It collects
nothing and reads neither rewards nor data, and ends as soon as the first process is gone.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hocket.core.keys import Key
from hocket.distributed.cluster.connection import serve
from hocket.distributed.cluster.leaves import SingleProcess
from hocket.distributed.cluster.setup import Setup, built
from hocket.distributed.cluster.sharded_problem import MomentsQuestion
from hocket.distributed.cluster.sharding import Share, divide, restore, take
from hocket.distributed.cluster.shards import Lend, Meeting
from hocket.distributed.cluster.weights import PackedWeights, digest, packed, put, taken
from hocket.policies.family import Checkpointing
from hocket.stages import State
from hocket.train.memory import return_blocks

if TYPE_CHECKING:
    from hocket.core.batch import Batch
    from hocket.distributed.cluster.ranks import RankProcess, Rendezvous
    from hocket.stages import Metrics, Policy
    from hocket.train.learner import Learner
    from hocket.train.settings import Config


@dataclass(frozen=True)
class Meet:
    """Join the others, who meet there, as this rank."""

    rank: int
    size: int
    where: Rendezvous


@dataclass(frozen=True)
class Stand:
    """Stand in a phase with these weights, and what each learner keeps beside them. Answered by None.

    The policies that are named are those that the process learns.
    """

    phase: int
    weights: Mapping[str, State]
    references: Mapping[str, State]
    learners: Mapping[str, State]


@dataclass(frozen=True)
class Divide:
    """Stand in a phase with these shares of what each learner holds. Answered by None."""

    phase: int
    shares: Mapping[str, Share]


@dataclass(frozen=True)
class OutcomeQuestion:
    """What came of the latest update of a policy. Answered by `hocket.train.learner.UpdateResult`."""

    policy: str


Question = Lend | MomentsQuestion | OutcomeQuestion
"""What the first process may ask of what others hold."""


@dataclass(frozen=True)
class Learn:
    """One update of a policy. Answered by a digest of the weights after it.

    Attributes:
        changed: the weights to begin with, where something else has changed them since the update before.
    """

    policy: str
    batch: Batch
    key: Key
    step: int
    token_budget: int | None
    checkpointing: Checkpointing | None
    changed: PackedWeights | None = None


def main(handle: int) -> None:
    """Serves the connection at a file descriptor until its other end is closed."""
    worker = Worker()
    serve(handle, worker.answered, lambda: worker.failed)  # Whoever waits for this rank is to notice at once.


class Worker:
    """The learners of a run, once it was told of it."""

    def __init__(self) -> None:
        self._learners: dict[str, Learner] = {}
        self._metrics: dict[str, Metrics] = {}
        self._ranks: SingleProcess | RankProcess = SingleProcess()
        self._phase = -1
        self.failed = False

    def answered(self, message: bytes) -> bytes:
        """Does what a message says; an error is the last answer."""
        answer = self.answer(pickle.loads(message))
        self.failed = isinstance(answer, BaseException)
        return pickle.dumps(answer)

    def answer(self, message: Setup | Meet | Stand | Divide | Question | Learn) -> Any:
        from hocket.train.sampler_worker import portable

        try:
            if isinstance(message, Setup):
                return self._set_up(message)
            if isinstance(message, Meet):
                return self._meet(message)
            if isinstance(message, Stand):
                return self._stand(message)
            if isinstance(message, Divide):
                return self._divide(message)
            if isinstance(message, Lend):
                return self._meeting.lent(message)
            if isinstance(message, MomentsQuestion):
                return self._learners[message.policy].optimiser.state_dict()
            if isinstance(message, OutcomeQuestion):
                return self._learners[message.policy].update_result(self._metrics[message.policy])
            return self._learn(message)
        except Exception as error:
            return portable(error)

    def _set_up(self, message: Setup) -> str:
        """Builds what the run has; where this process is."""
        self._config: Config
        self._policies: Mapping[str, Policy]
        self._config, _, self._policies, _ = built(message)
        return f"process {os.getpid()} on {socket.gethostname()}"

    def _meet(self, message: Meet) -> None:
        from hocket.distributed.cluster.ranks import joined
        from hocket.train.machine import device_of

        device = device_of(self._config)
        self._ranks = joined(message.rank, message.size, message.where, device=device)

    def _build(self, phase: int, names: Collection[str]) -> None:
        """Learners of a process's own policies; it lets go of the others."""
        from hocket.train.assemble import build_learners

        self._phase, config = phase, self._config
        self._policies = {name: policy for name, policy in self._policies.items() if name in names}
        self._learners = build_learners(config, self._policies, config.phases[phase][0], some=True)
        for learner in self._learners.values():
            learner.ranks = self._ranks

    def _stand(self, message: Stand) -> None:
        if message.phase != self._phase:
            self._build(message.phase, message.weights)
        for name, learner in self._learners.items():
            learner.policy.module.load_state_dict(message.weights[name])
            if learner.reference is not None and name in message.references:
                learner.reference.module.load_state_dict(message.references[name])
            learner.restore(message.learners[name])

    def _divide(self, message: Divide) -> None:
        if message.phase != self._phase:
            restore(self._learners, filled=False)
            self._build(message.phase, message.shares)
        assert not isinstance(self._ranks, SingleProcess)
        self._meeting = Meeting(self._ranks)
        divide(self._learners, self._meeting)
        for name, learner in self._learners.items():
            take(learner, message.shares[name])

    def _learn(self, message: Learn) -> str:
        learner = self._learners[message.policy]
        fit(learner, message.token_budget, message.checkpointing)
        if message.changed is not None:
            put(learner.policy.module, message.changed)
        with nullcontext() if learner.meeting is None else learner.meeting.jointly():
            self._metrics[message.policy] = learner.learn(message.batch, message.key, message.step)
        return held(learner)


def fit(learner: Learner, token_budget: int | None, checkpointing: Checkpointing | None) -> None:
    """Micro-batches as the first rank makes them: rounding depends on them."""
    if checkpointing:
        return_blocks()
    policies: list[Any] = [learner.policy, learner.reference]
    for policy in policies:
        if token_budget is not None and hasattr(policy, "token_budget"):
            policy.token_budget, policy.checkpointing = token_budget, checkpointing


def held(learner: Learner) -> str:
    """The digest of the trained weights; of shares, which no two ranks have in common, none."""
    if learner.meeting is not None:
        return ""
    return digest({learner.policy.name: packed(taken(learner.policy, whole=False))})
