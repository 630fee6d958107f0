"""RELIEF: prompts for the nodes of a graph, by RL with actions that are a node and a vector (arXiv:2408.03195).

A graph network is frozen, and a graph is to be classified whose features are not those that it was trained for. A
policy changes the input instead: in each of `length` decisions it chooses a node and a vector, which is added to the
node's features. What a decision pays is by how much the classifier's loss falls,

    r_t = L_{t-1} - L_t,   so that a return is L_0 - L_T,

and so nodes have a prompt that need one. The density of an action is exact, a categorical of the node times a Gaussian
of the vector given the node, and that is what PPO asks for.

Here graphs are drawn. A two-layer network (Kipf and Welling) learns to tell two classes of clean graphs; then a
vector of a random direction is added to a few nodes of each graph. `shots` of these graphs are there to learn from. The
authors also train the head of the classifier, in turn with the policy; here it stays frozen. So the row is no recipe:
`hocket train --task prompts --recipe ppo`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.policies.control_heads import Categorical, DiagonalGaussian
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import Links, NetworkRequest
from hocket.policies.settings import NetworkSettings
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]

NODES, FEATURES, CORRUPTED = 12, 4, 3
"""Of a graph, of a node, and nodes of a graph whose features are corrupted."""

SIGNAL = 0.8
"""How far the mean of a node's features is from 0 in the class's direction; the deviation of each is 1."""

LENGTH = 9.0
"""Of the vector that is added to a corrupted node."""

SCALE = 4.0
"""The largest number that an action adds to a feature."""

ROW = 2 * FEATURES + 1
"""Numbers that are seen of a node: its features, the mean of those of its neighbours, and the share of time."""

# ---------------------------------------------------------------- the graphs and their network


@dataclass(frozen=True)
class Graph:
    """A graph: features `[N, F]` as they are found, links `[N, N]`, its class and its corrupted nodes `[N]`.

    `links` is D^-1/2 (A + 1) D^-1/2 of neighbours A and their counts D.
    """

    features: Array
    links: Array
    label: int
    corrupted: NDArray[np.bool_]


def drawn(key: Key, *, clean: bool = False) -> Graph:
    """A ring with chords, of either class."""
    draw = key.numpy()
    near = np.roll(np.eye(NODES), 1, 1) + np.triu(draw.random((NODES, NODES)) < 0.15, 1)
    joined = np.minimum(near + near.T + np.eye(NODES), 1)
    root = 1 / np.sqrt(joined.sum(1))
    label = int(draw.integers(2))
    features = draw.normal(size=(NODES, FEATURES)) + SIGNAL * (2 * label - 1) / math.sqrt(FEATURES)
    wrong = draw.normal(size=(NODES, FEATURES))
    corrupted = np.zeros(NODES, bool)
    if not clean:
        corrupted[draw.choice(NODES, CORRUPTED, replace=False)] = True
        features += LENGTH * corrupted[:, None] * wrong / np.linalg.norm(wrong, axis=1, keepdims=True)
    return Graph(features, root[:, None] * joined * root, label, corrupted)


class GraphNetwork(nn.Module):
    """Two layers of graph convolution with relu, a mean over nodes, and a score of the second class."""

    def __init__(self, units: int, key: Key) -> None:
        super().__init__()
        self.first = Perceptron((FEATURES, units), last_gain=1.0, key=key.derive("first"))
        self.second = Perceptron((units, units), last_gain=1.0, key=key.derive("second"))
        self.last = Perceptron((units, 1), last_gain=1.0, key=key.derive("last"))

    def forward(self, features: Tensor, links: Tensor) -> Tensor:
        """Scores `[B]` of features `[B, N, F]` and links `[B, N, N]`."""
        hidden = torch.relu(links @ self.first(features))
        hidden = torch.relu(links @ self.second(hidden))
        score: Tensor = self.last(hidden.mean(1)).squeeze(-1)
        return score


@functools.cache
def pretrained() -> GraphNetwork:
    """The network after 100 steps on 200 clean graphs, in float64 and frozen."""
    graphs = [drawn(Key.of(0).derive("clean", number), clean=True) for number in range(200)]
    features, links = (
        torch.from_numpy(np.stack([getattr(graph, name) for graph in graphs])) for name in ("features", "links")
    )
    label = torch.tensor([float(graph.label) for graph in graphs]).double()
    network = GraphNetwork(16, Key.of(0).derive("graph network")).double()
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-2, weight_decay=2e-2)
    for _ in range(100):
        optimiser.zero_grad()
        torch.autograd.backward(losses(network(features, links), label).mean())
        optimiser.step()
    return network.requires_grad_(False)


def losses(score: Tensor, label: Tensor) -> Tensor:
    """The cross-entropy `[B]` of scores and classes."""
    return torch.nn.functional.binary_cross_entropy_with_logits(score, label, reduction="none")


# ---------------------------------------------------------------- the policy's action and sight


@dataclass(frozen=True)
class NodeAndVector:
    """An `ActionForm`: a node, and a vector whose Gaussian depends on it; actions are `[B, 1 + size]`."""

    nodes: int
    size: int

    @property
    def draws(self) -> int:
        return 1 + self.size

    def actor(self, link: Links) -> nn.Module:
        return link(self.nodes * (1 + self.size), "actor", 0)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> HybridHead:
        rows = outputs.reshape(len(outputs), self.nodes, 1 + self.size)
        assert isinstance(actor, OverNodes)
        return HybridHead(Categorical(rows[..., 0]), rows[..., 1:], actor.log_std.expand(len(rows), self.size))

    def config(self) -> Mapping[str, Any]:
        return {"vector": self.size}


@dataclass(frozen=True)
class HybridHead:
    """A node by a categorical, and a vector by a Gaussian of the node: `p(i, v) = p(i) N(v; m_i, s)`.

    `mean` is `[B, N, F]` and `log_std` `[B, F]`, the same for all nodes.
    """

    node: Categorical
    mean: Tensor
    log_std: Tensor

    def _given(self, node: Tensor) -> DiagonalGaussian:
        """The Gaussian of the vector, given nodes `[B]`."""
        return DiagonalGaussian(self.mean[torch.arange(len(node)), node.long()], self.log_std)

    def tempered(self, temperature: Tensor) -> HybridHead:
        wide = self.log_std + 0.5 * temperature.log()[:, None]
        return HybridHead(self.node.tempered(temperature), self.mean, wide)

    def logp(self, action: Tensor) -> Tensor:
        return self.node.logp(action[:, 0]) + self._given(action[:, 0]).logp(action[:, 1:])

    def entropy(self) -> Tensor:
        return self.node.entropy() + DiagonalGaussian(self.mean[:, 0], self.log_std).entropy()

    def kl(self, other: HybridHead) -> Tensor:
        """That of the nodes, and the mean over nodes of that of the vectors."""
        each = [
            DiagonalGaussian(self.mean[:, node], self.log_std).kl(DiagonalGaussian(other.mean[:, node], other.log_std))
            for node in range(self.mean.shape[1])
        ]
        return self.node.kl(other.node) + (torch.softmax(self.node.logits, -1) * torch.stack(each, -1)).sum(-1)

    def mode(self) -> Tensor:
        node = self.node.mode()
        return torch.cat([node[:, None].to(self.mean), self._given(node).mode()], 1)

    def draw(self, uniforms: Tensor) -> Tensor:
        node = self.node.draw(uniforms[:, :1])
        return torch.cat([node[:, None].to(self.mean), self._given(node).draw(uniforms[:, 1:])], 1)


class OverNodes(nn.Module):
    """Each node by one perceptron of its row, so that the order of nodes plays no part, and no node knows of far ones.

    The actor has `outputs / N` numbers of every node, one node after the other; a critic the mean over nodes.
    """

    def __init__(self, hidden: Sequence[int], outputs: int, *, acts: bool, last_gain: float, key: Key) -> None:
        super().__init__()
        self.acts = acts
        last = outputs // NODES if acts else outputs
        self.body = Perceptron((ROW, *hidden, last), last_gain=last_gain, key=key)
        self.log_std = nn.Parameter(torch.full((FEATURES,), -1.0), requires_grad=acts)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(*x.shape[:-1], NODES, ROW)
        nodes: Tensor = self.body(rows)
        return nodes.flatten(-2) if self.acts else nodes.mean(-2)


@dataclass(frozen=True)
class NodeRows:
    """A `SightForm`: a row of numbers for every node."""

    def network(self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key) -> OverNodes:
        if settings.body != "perceptron" or settings.normalise or wanted.inputs != NODES * ROW:
            raise ConfigurationError(
                "task prompts: nodes are read by a network of their own; drop network.body, network.normalise, and "
                "stages that ask for another body or for more inputs"
            )
        return OverNodes(hidden, wanted.outputs, acts=wanted.actor, last_gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {"nodes": NODES}


# ---------------------------------------------------------------- the world


@dataclass(frozen=True)
class Prompts:
    """`length` prompts for the nodes of a graph; the class is not seen, and pays.

    Attributes:
        shots: how many graphs there are to learn from; episodes of evaluation have unseen ones.
    """

    length: int = 6
    shots: int = 100

    def __post_init__(self) -> None:
        if self.length < 1 or self.shots < 1:
            raise ConfigurationError(f"task prompts: length = {self.length}, shots = {self.shots}; both are at least 1")

    @property
    def name(self) -> str:
        return "prompts"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("prompter",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        form = NodeAndVector(NODES, FEATURES)
        return (Seat(NODES * ROW, NODES * (1 + FEATURES), action_form=form, sight_form=NodeRows()),)

    @property
    def joint(self) -> int:
        return 0

    def graph(self, seed: int) -> Graph:
        """Of an odd seed an unseen one, of an even one of the `shots`."""
        number = seed if seed % 2 else seed // 2 % self.shots * 2
        return drawn(Key.of(number).derive("prompts"))

    def open(self, width: int) -> PromptedGraphs:
        return PromptedGraphs(self, width)


class PromptedGraphs(JointEnvironment):
    """Graphs in as many copies.

    Attributes:
        features, links: `[B, N, F]` and `[B, N, N]`. label, loss: `[B]`. corrupted: `[B, N]`.
    """

    def __init__(self, world: Prompts, width: int) -> None:
        self.world, self.time, self.network = world, np.zeros(width, np.int64), pretrained()
        self.features, self.links = np.zeros((width, NODES, FEATURES)), np.zeros((width, NODES, NODES))
        self.label, self.loss, self.corrupted = np.zeros(width), np.zeros(width), np.zeros((width, NODES), bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            graph = self.world.graph(seed)
            self.features[slot], self.links[slot] = graph.features, graph.links
            self.label[slot], self.corrupted[slot] = graph.label, graph.corrupted
        self.time[list(slots)] = 0
        self.loss[list(slots)] = self._losses()[list(slots)]
        return {}

    def scores(self) -> Array:
        """What the network thinks of the graphs as they are, `[B]`: above 0 the second class."""
        scores: Array = self.network(torch.from_numpy(self.features), torch.from_numpy(self.links)).numpy()
        return scores

    def _losses(self) -> Array:
        return np.asarray(losses(torch.from_numpy(self.scores()), torch.from_numpy(self.label)).numpy(), np.float64)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        copy = np.flatnonzero(live)
        action = np.asarray(actions[0], np.float64)[copy]
        self.features[copy, action[:, 0].astype(np.int64)] += SCALE * np.clip(action[:, 1:], -1, 1)
        before, self.loss = self.loss, self._losses()
        self.time = self.time + live
        over = (self.time >= self.world.length)[:, None]
        return Moved((before - self.loss)[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        around = self.links @ self.features
        time = np.broadcast_to((self.time / self.world.length)[:, None, None], (*around.shape[:2], 1))
        rows = np.concatenate([self.features / SCALE, around / SCALE, time], -1)
        return [rows.reshape(len(rows), -1).astype(np.float32)]


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 128,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 0.9,
    "credit.lam": 0.9,
    "update.lr": 3e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _prompts(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"length": int, "shots": int}, Prompts, _SUGGESTED)


PROMPTS = TaskForm(
    name="prompts",
    description="vectors for the nodes of a graph before a frozen network, e.g. prompts?length=6",
    make=_prompts,
)

RELIEF = Analysis(
    name="relief",
    title="RELIEF: reinforcement learning empowered graph feature prompt tuning",
    where="docs/applications.md",
    kind="application",
)
