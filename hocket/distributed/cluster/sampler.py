"""One process that samples, and the weights that it is to have."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hocket.core.errors import ConfigurationError, HocketError
from hocket.distributed.cluster.connection import Connection, PeerLost
from hocket.distributed.cluster.messages import Roots, pack_question, unpack_answer
from hocket.distributed.cluster.sampler_worker import GoOn, Load, LoadRefusal, Plays
from hocket.distributed.cluster.weight_deltas import Difference, difference, products_of, used, weights_for
from hocket.distributed.cluster.weights import PackedWeights, digest, packed, packed_of
from hocket.stages import Policy, State
from hocket.types import Quantity

if TYPE_CHECKING:
    from hocket.train.learner import Learner

MOST = 0.75
"""Of the bytes of all weights: differences that are larger are not worth their making."""


@dataclass
class Account:
    """What a sampler, and whoever took its place, did so far.

    Attributes:
        name: its. where: the process. version: of the weights that it was given last.
        episodes: that it played. busy: seconds in which it was asked something. sent, received: bytes, to and from it.
        lost: how many processes were in this place before. wrong: how often this one's samples were others than those
            its keys and weights give.
    """

    name: str
    where: str = ""
    version: int = 0
    episodes: int = 0
    busy: float = 0.0
    sent: int = 0
    received: int = 0
    lost: int = 0
    wrong: int = 0


@dataclass(eq=False)
class Sampler:
    """One process that samples, and what it holds.

    Attributes:
        line: to it. account: of its place. begun: whether it has its models.
        weights: digest of those that it has shown to hold. versions: what it calls them.
        references: which ones it was given. goal: the weights that it holds, where it is sent differences to them.
        kept: what both sides know of what it plays.
    """

    line: Connection
    account: Account
    begun: bool = False
    weights: str | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    references: Mapping[str, Policy] = field(default_factory=dict)
    goal: TargetWeights | None = None
    kept: Roots = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, message: Any) -> Any:
        """The answer to a message.

        Raises:
            PeerLost: when there is none. HocketError: whatever else went wrong there.
        """
        assignments = message.assignments if isinstance(message, Plays) else ()
        data, beside, roots = pack_question(message, assignments)
        if isinstance(message, Plays):
            self.kept = roots
        started = time.monotonic()
        self.line.send(data, beside)
        answer = self.line.receive()
        self.account.busy += time.monotonic() - started
        self.account.sent += len(data) + sum(weights.data.nbytes for weights in beside)
        self.account.received += len(answer)
        reply = unpack_answer(answer, self.kept) if isinstance(message, (Plays, GoOn)) else pickle.loads(answer)
        if isinstance(reply, ConfigurationError):
            raise ConfigurationError(f"{self.line.name}: {reply}") from reply
        if isinstance(reply, BaseException):
            raise HocketError(f"{self.line.name} failed: {reply}") from reply
        return reply


class TargetWeights:
    """The weights that are to sample.

    Attributes:
        versions: of each policy. trained: the weights that are trained. digest: of these.
        references: of the policies whose references play, compared by identity: a new phase has new ones.

    Args:
        learners: by policy, whose weights are taken as they are now.
    """

    def __init__(self, learners: Mapping[str, Learner]) -> None:
        self._learners = learners
        self.versions = {name: learner.policy.version for name, learner in learners.items()}
        self.trained = {name: packed_of(learner.policy, whole=False) for name, learner in learners.items()}
        self.digest = digest(self.trained)
        plays = next(iter(learners.values())).recipe.plays_reference
        self.references = {
            name: learner.reference for name, learner in learners.items() if plays and learner.reference is not None
        }
        self._used: Mapping[str, PackedWeights] | None = None
        self._found: dict[str, Mapping[str, Difference] | None] = {}
        self._lock = threading.Lock()

    def reached(self, member: Sampler) -> bool:
        """Whether a sampler holds them."""
        held = member.weights == self.digest and member.versions == self.versions
        return held and member.references == self.references

    def load(self, member: Sampler, say: Callable[[str], None] | None = None) -> None:
        """Has a sampler take them, and sees that it did.

        Args:
            say: sends differences to what the sampler holds, and is told when they came damaged; None sends all.

        Raises:
            PeerLost: when it holds others then, or is gone.
        """
        before: dict[str, PackedWeights] = {}
        if member.references != self.references:
            before = {name: packed_of(reference, whole=True) for name, reference in self.references.items()}
        if say is None or not self._changed(member, before, say):
            sent, expected = self.trained, self.digest
            if member.weights is None:
                sent = {name: self._whole(name, learner.policy) for name, learner in self._learners.items()}
                expected = digest(sent)
            if member.ask(Load(sent, self.versions, self._needs, before)) != expected:
                raise PeerLost(f"{member.line.name} holds other weights than it was given")
        member.weights, member.versions, member.references = self.digest, self.versions, self.references
        member.goal = None if say is None else self
        member.account.version = next(iter(self.versions.values()))

    def _changed(self, member: Sampler, before: Mapping[str, PackedWeights], say: Callable[[str], None]) -> bool:
        """Whether a sampler could be told by what its weights are to differ, and now does sample with them."""
        changes = None if member.goal is None else self._since(member.goal)
        if changes is None:
            return False
        answer = member.ask(Load(changes, self.versions, self._needs, before))
        if isinstance(answer, LoadRefusal):
            say(f"{member.line.name} was sent {answer.why} and took nothing; it is sent all weights")
            return False
        if answer != digest(self.used):
            raise PeerLost(f"{member.line.name} holds other weights than it was given")
        return True

    @property
    def _needs(self) -> Mapping[str, frozenset[Quantity]]:
        return {name: learner.needs for name, learner in self._learners.items()}

    @property
    def used(self) -> Mapping[str, PackedWeights]:
        """What is sampled with."""
        with self._lock:
            if self._used is None:
                self._used = {name: self._made(name, weights) for name, weights in self.trained.items()}
            return self._used

    def _made(self, name: str, weights: PackedWeights) -> PackedWeights:
        return used(weights, products_of(self._learners[name].policy))

    def _since(self, earlier: TargetWeights) -> Mapping[str, Difference] | None:
        """What changed since other weights, made once for all samplers; None where all weights are better sent."""
        mine, its = self.used, earlier.used
        with self._lock:
            if earlier.digest not in self._found:
                self._found[earlier.digest] = self._compared(its, mine)
            return self._found[earlier.digest]

    def _compared(
        self, before: Mapping[str, PackedWeights], after: Mapping[str, PackedWeights]
    ) -> Mapping[str, Difference] | None:
        layouts = [{name: tensors.layout for name, tensors in weights.items()} for weights in (before, after)]
        if layouts[0] != layouts[1]:
            return None
        for name, tensors in after.items():
            if weights_for(tensors, products_of(self._learners[name].policy)) is None:
                return None
        changes = {name: difference(before[name], tensors) for name, tensors in after.items()}
        size = sum(tensors.data.nbytes for tensors in self.trained.values())
        return changes if sum(change.size for change in changes.values()) <= MOST * size else None

    def _whole(self, name: str, policy: Policy) -> PackedWeights:
        """All weights of a policy, those that are never trained too."""
        return packed(packed_of(policy, whole=True).tensors() | self.trained[name].tensors())

    def state(self) -> State:
        """The trained weights and their versions, for a checkpoint."""
        weights = {name: packed.tensors() for name, packed in self.trained.items()}
        return {"versions": self.versions, "weights": weights}

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        self.versions = {name: int(version) for name, version in state["versions"].items()}
        self.trained = {name: packed(weights) for name, weights in state["weights"].items()}
        self.digest = digest(self.trained)
        self._used, self._found = None, {}
