"""Nodes that train alone for some steps and then take the mean of what they have become.

What travels is each node's change since all had the same weights, in few bits (`hocket.core.compression.Blocks`). What
the bits leave out the node keeps and adds to its next change (error feedback), so nothing is lost for good; a change
that did not arrive is kept whole.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
import torch
from msgspec import Meta, Struct
from torch import Tensor

from hocket.core.compression import Blocks, Unreadable
from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.weights import taken
from hocket.distributed.swarm.messages import Malformed
from hocket.distributed.swarm.swarm import Deliver, whole
from hocket.stages import Metrics, Policy
from hocket.update.outer import OuterStep

FEDERATED, EIGHT_BITS = OuterStep(), Blocks()

SERVER = "average"
"""Who receives changes."""


class WeightChange(Struct, frozen=True, kw_only=True):
    """A node's change on its way.

    Attributes:
        node: who sends it. since: a digest of the weights it is a change of. count: the examples it was learnt from.
        data: by policy, all its weights one after the other.
    """

    version: Literal[1] = 1
    node: Annotated[str, Meta(min_length=1, max_length=100)]
    since: Annotated[str, Meta(min_length=32, max_length=32)]
    count: Annotated[int, Meta(ge=0, lt=2**53)]
    data: dict[str, bytes]


_READER = msgspec.msgpack.Decoder(WeightChange)


class CommonWeights:
    """Weights that nodes have in common, as one vector per policy.

    Attributes:
        values: by policy, `[weights]`. velocity: of the outer step, likewise.
    """

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self.values = {name: flat(policy) for name, policy in policies.items()}
        self.velocity = {name: torch.zeros_like(values) for name, values in self.values.items()}

    @property
    def digest(self) -> str:
        """Tells these weights from any others."""
        state = hashlib.blake2b(digest_size=16)
        for name, values in sorted(self.values.items()):
            state.update(repr((name, len(values), values.dtype)).encode())
            state.update(values.numpy().tobytes())
        return state.hexdigest()

    def move(self, changes: Mapping[str, Tensor], outer: OuterStep) -> None:
        """Makes the outer step."""
        for name, change in changes.items():
            self.values[name], self.velocity[name] = outer(self.values[name], change, self.velocity[name])


def trained(policy: Policy) -> list[Tensor]:
    """What of a policy is trained."""
    return list(taken(policy, whole=False).values())


def flat(policy: Policy) -> Tensor:
    """A copy of it as one vector, in float32, or float64 where it is that."""
    parts = [weight.reshape(-1) for weight in trained(policy)]
    kind = torch.float64 if any(weight.dtype == torch.float64 for weight in parts) else torch.float32
    return torch.cat([weight.to("cpu", kind) for weight in parts]) if parts else torch.zeros(0)


def set_flat(policy: Policy, values: Tensor) -> None:
    """The inverse of `flat`; a new version of the policy."""
    start = 0
    with torch.no_grad():
        for weight in trained(policy):
            weight.copy_(values[start : start + weight.numel()].reshape(weight.shape))
            start += weight.numel()
    policy.version += 1


@dataclass
class AverageResult:
    """A node whose weights are averaged.

    Attributes:
        policies: its own, by name. left: of its change, what others have not heard yet.
    """

    name: str
    policies: Mapping[str, Policy]
    left: dict[str, Tensor] = field(default_factory=dict)

    def change(self, shared: CommonWeights) -> dict[str, Tensor]:
        """How far it has come from the shared weights, and what was left the last time."""
        every = {name: flat(policy) - shared.values[name] for name, policy in self.policies.items()}
        return {name: average + self.left[name] if name in self.left else average for name, average in every.items()}

    def take(self, shared: CommonWeights) -> None:
        """Goes on from the shared weights."""
        for name, policy in self.policies.items():
            set_flat(policy, shared.values[name])


class Averaging:
    """Brings the weights of nodes together.

    Args:
        nodes: their policies, by node and name. Those of the first are everybody's to begin with.
        outer: the step that the shared weights make. blocks: how changes are written.
        deliver: what of a message arrives, see `hocket.distributed.swarm.swarm`.

    Attributes:
        shared: the weights in common. counts: messages by what became of them, as in `Pool.counts`, and the bytes sent.

    Raises:
        ConfigurationError: when nodes train weights of other shapes, or none.
    """

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, Policy]],
        *,
        outer: OuterStep = FEDERATED,
        blocks: Blocks = EIGHT_BITS,
        deliver: Deliver = whole,
    ) -> None:
        self.nodes = {name: AverageResult(name, policies) for name, policies in nodes.items()}
        first = next(iter(self.nodes.values()))
        shapes = {name: layout(node.policies) for name, node in self.nodes.items()}
        for name, shape in shapes.items():
            if shape != shapes[first.name]:
                raise ConfigurationError(
                    f"{name} trains other weights than {first.name}; only equal models have a mean"
                )
        self.shared, self.outer, self.blocks = CommonWeights(first.policies), outer, blocks
        self.counts: Counter[str] = Counter()
        self._deliver = deliver
        if not any(len(values) for values in self.shared.values.values()):
            raise ConfigurationError("nodes train no weights, so that there is nothing to average")
        for node in self.nodes.values():
            node.take(self.shared)

    def exchange(self, examples: Mapping[str, int]) -> Metrics:
        """Every node of `examples` tells its change, learnt from so many; then all have the same weights again.

        Changes count by their examples. Nothing changes for nodes that are not in it, nor for any when none arrives.
        Metrics: `average/apart`, the mean length of changes by that of the shared weights; `average/bytes`, a node's
        message; `average/nodes`, whose changes arrived.
        """
        apart, since = [], self.shared.digest
        changes, heard = dict[str, dict[str, Tensor]](), dict[str, tuple[int, dict[str, Tensor]]]()
        size = 0
        for name, count in examples.items():
            changes[name] = change = self.nodes[name].change(self.shared)
            data = self._written(name, since, count, change)
            if data is None:  # Its weights are no numbers any more; it starts again from the others'.
                changes[name] = {policy: torch.zeros_like(values) for policy, values in change.items()}
                continue
            apart.append(length(change.values()) / max(length(self.shared.values.values()), 1e-30))
            size = max(size, len(data))
            for arrived in self._deliver(name, SERVER, data):
                self._receive(name, since, arrived, heard)
        moved = mean(list(heard.values()))
        if moved is not None:
            self.shared.move(moved, self.outer)
        for name, change in changes.items():
            sent = heard[name][1] if name in heard else {}
            self.nodes[name].left = {p: values - sent[p] if p in sent else values for p, values in change.items()}
            self.nodes[name].take(self.shared)
        return {
            "average/apart": sum(apart) / len(apart) if apart else 0.0,
            "average/bytes": float(size),
            "average/nodes": float(len(heard)),
        }

    def _written(self, name: str, since: str, count: int, change: Mapping[str, Tensor]) -> bytes | None:
        try:
            data = {policy: self.blocks.encoded(values) for policy, values in change.items()}
        except Unreadable:
            self.counts["unsendable"] += 1
            return None
        message = msgspec.msgpack.encode(WeightChange(node=name, since=since, count=count, data=data))
        self.counts["bytes"] += len(message)
        return message

    def _receive(self, sender: str, since: str, data: bytes, heard: dict[str, tuple[int, dict[str, Tensor]]]) -> None:
        """Takes a message, once; what cannot be used is dropped and counted."""
        try:
            message, values = self._read(data)
        except Malformed:
            self.counts["malformed"] += 1
            return
        if message.node != sender:
            self.counts["forged"] += 1
        elif message.since != since:
            self.counts["late"] += 1
        elif sender in heard:
            self.counts["duplicate"] += 1
        else:
            self.counts["received"] += 1
            heard[sender] = message.count, values

    def _read(self, data: bytes) -> tuple[WeightChange, dict[str, Tensor]]:
        room = sum(self.blocks.size(len(values), values.dtype) + 1000 for values in self.shared.values.values()) + 1000
        if len(data) > room:
            raise Malformed(f"a change of {len(data)} bytes; at most {room} are read")
        try:
            message = _READER.decode(data)
            return message, self._values(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Unreadable) as error:
            raise Malformed(f"no change: {error}") from error

    def _values(self, message: WeightChange) -> dict[str, Tensor]:
        if message.data.keys() != self.shared.values.keys():
            raise Unreadable(f"weights of {', '.join(message.data)}")
        every = self.shared.values.items()
        return {name: self.blocks.decoded(message.data[name], len(values), values.dtype) for name, values in every}


def mean(changes: Sequence[tuple[int, Mapping[str, Tensor]]]) -> dict[str, Tensor] | None:
    """The mean of changes weighted by their examples, `[weights]` by policy; None where they rest on none."""
    total = sum(count for count, _ in changes)
    if not total:
        return None
    names = changes[0][1]
    return {name: torch.stack([change[name] * (count / total) for count, change in changes]).sum(0) for name in names}


def length(vectors: Iterable[Tensor]) -> float:
    """The Euclidean length of vectors put together."""
    return math.sqrt(sum(float(vector.double().square().sum()) for vector in vectors))


def layout(policies: Mapping[str, Policy]) -> dict[str, list[tuple[int, ...]]]:
    """The shapes of what is trained, by policy."""
    return {name: [tuple(weight.shape) for weight in trained(policy)] for name, policy in policies.items()}
