"""Networks that score commands, each a verb with an object, from the words of a text and from a graph of triples.

A gated recurrent unit reads the text; a command is scored by what it read and by the names of verb and object, as in
He et al.'s deep reinforcement relevance network (arXiv:1511.04636). Where there is a graph, a layer of graph attention
(Velickovic et al., arXiv:1710.10903) reads it from the names of its nodes, and a command is scored by its nodes as
well (after Ammanabrolu and Hausknecht's KG-A2C, arXiv:2001.08837, which pools the graph for its decoders):

    m_ijr = W x_j + u_r,   e_ijr = LeakyReLU(a . W x_i + b . m_ijr),   g_i = tanh sum_jr softmax_jr(e_i)_jr m_ijr,

over the triples of which i is either end and a link to itself; a relation that is followed backwards is another one.
Relations in messages, a single head, and the product W x_v * g_o beside g_o are our choices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_bodies import Memory
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import NetworkRequest
from hocket.policies.settings import NetworkSettings

NEVER = -1e9
"""The score of a command without an object: its probability is 0 exactly."""
SLOPE = 0.2
"""Of LeakyReLU below 0, Velickovic et al.'s."""


@dataclass(frozen=True)
class Commands:
    """What one sees who chooses a command, a verb with an object, all in whole numbers:
    `hocket.methods.agents.knowledge_injection_text_games.commands`.

    The last words of a text, `length` of them; the words of every verb's name and of every object's, `span` each;
    `triples` of a graph, each a node, a relation and a node; and how many commands were illegal so far, which is for
    the record. Words are numbered from 1 to `words`, nodes from 1: verbs, objects, and the agent last; relations too. 0
    is where there is none. Command v * objects + o is verb v with object o. It is a `SightForm`.

    Attributes:
        relations: how many there are; 0 where there is no graph.
    """

    words: int
    length: int
    verbs: int
    objects: int
    span: int
    relations: int
    triples: int

    @property
    def nodes(self) -> int:
        """Of the graph."""
        return self.verbs + self.objects + 1

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes of all these in turn."""
        return (self.length, (self.verbs + self.objects) * self.span, 3 * self.triples, 1)

    def network(
        self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key
    ) -> OverCommands:
        if settings.body != "perceptron" or settings.normalise or wanted.inputs != sum(self.parts):
            raise ConfigurationError(
                "commands are scored by a network of their own, from words and triples as they are; drop "
                "network.body, network.normalise, and stages that ask for another body or a belief"
            )
        return OverCommands(self, hidden, acts=wanted.actor, last_gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {"words": self.words}


class GraphAttention(nn.Module):
    """A layer of attention over triples: nodes `[B, N, D]` and triples `[B, M, 3]` to `[B, N, D]`.

    A triple is a node, a relation and a node, numbered from 1; one with a 0 is none. Nodes that are not `there` have no
    link to themselves, and what no triple names is 0.
    """

    def __init__(self, relations: int, size: int, *, key: Key) -> None:
        super().__init__()
        self.relations = relations
        self.weight = nn.Parameter(torch.zeros(size, size))
        nn.init.orthogonal_(self.weight, 1.0, generator=key.derive("weight").torch())
        # Forwards, backwards, and to itself.
        self.relation = nn.Parameter(_normal((2 * relations + 1, size), size, key.derive("relation")))
        self.target = nn.Parameter(_normal((size,), size, key.derive("target")))
        self.source = nn.Parameter(_normal((size,), size, key.derive("source")))

    def forward(self, nodes: Tensor, triples: Tensor, there: Tensor) -> Tensor:
        read = functional.linear(nodes, self.weight)
        target, source, relation, real = self.links(triples, there)
        message = _picked(read, source) + self.relation[relation]
        energy = functional.leaky_relu((read @ self.target).gather(1, target) + message @ self.source, SLOPE)
        share = _softmax(energy.masked_fill(~real, -torch.inf), target, nodes.shape[1])
        into = target[..., None].expand_as(message)
        return torch.tanh(torch.zeros_like(nodes).scatter_add(1, into, share[..., None] * message))

    def links(self, triples: Tensor, there: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of every link the node that reads, the node read, the relation, and whether there is one: `[B, 2M + N]`."""
        real = (triples > 0).all(-1)
        first, relation, second = (triples - 1).clamp(min=0).unbind(-1)
        own = torch.arange(there.shape[1], device=triples.device).expand(there.shape)
        back, itself = relation + self.relations, torch.full_like(own, 2 * self.relations)
        return (
            torch.cat([first, second, own], 1),
            torch.cat([second, first, own], 1),
            torch.cat([relation, back, itself], 1),
            torch.cat([real, real, there], 1),
        )


class OverCommands(nn.Module):
    """Scores `[B, verbs * objects]` of all commands, from what is laid out as `Commands` say; else a value `[B, 1]`.

    Words, names and what the text's unit carries have `hidden[0]` numbers; layers with tanh of `hidden[1:]` make of
    every command, and of what was read, what a linear layer scores. A value is that layer's of the mean over commands.

    Raises:
        ConfigurationError: with fewer than two layers.
    """

    def __init__(self, commands: Commands, hidden: Sequence[int], *, acts: bool, last_gain: float, key: Key) -> None:
        super().__init__()
        if len(hidden) < 2:
            raise ConfigurationError(
                f"network.hidden = {list(hidden)}: commands are read by its first layer and scored by the others; name "
                "two at least"
            )
        self.commands, self.acts = commands, acts
        size, *rest = hidden
        self.words = nn.Parameter(_normal((commands.words + 1, size), 1, key.derive("words")))
        self.text = Memory(size, (size,), key=key.derive("text"))
        self.graph = GraphAttention(commands.relations, size, key=key.derive("graph")) if commands.relations else None
        inputs = (5 if commands.relations else 3) * size
        self.inner = Perceptron((inputs, *rest), last_gain=math.sqrt(2), key=key.derive("inner"))
        self.last = Perceptron((rest[-1], 1), last_gain=last_gain, key=key.derive("last"))

    def forward(self, rows: Tensor) -> Tensor:
        commands, size = self.commands, self.words.shape[1]
        text, names, triples, _ = torch.split(rows.long(), list(commands.parts), 1)
        state = self.text.states(self._embedded(text))[:, -1]
        spelt = names.reshape(len(rows), -1, commands.span)
        nodes = self._embedded(spelt).sum(2) / (spelt > 0).sum(2, keepdim=True).clamp(min=1)
        there = (spelt > 0).any(2)
        verbs, objects = self._read(nodes, triples.reshape(len(rows), -1, 3), there)
        shape = (len(rows), commands.verbs, commands.objects)
        pairs = [state[:, None, None].expand(*shape, size)]
        pairs += [one[:, :, None].expand(*shape, size) for one in verbs]
        pairs += [one[:, None].expand(*shape, size) for one in objects]
        if len(objects) > 1:
            pairs.append(verbs[0][:, :, None] * objects[1][:, None])
        inner = torch.tanh(self.inner(torch.cat(pairs, -1)))
        known = there[:, None, commands.verbs :].expand(shape)
        if self.acts:
            return self.last(inner).squeeze(-1).masked_fill(~known, NEVER).flatten(1)  # type: ignore[no-any-return]
        mean = (inner * known[..., None]).sum((1, 2)) / known.sum((1, 2))[:, None].clamp(min=1)
        value: Tensor = self.last(mean)
        return value

    def _read(self, nodes: Tensor, triples: Tensor, there: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """What is known of verbs `[B, verbs, D]` and of objects `[B, objects, D]`: names, and what a graph tells."""
        count = self.commands.verbs
        if self.graph is None:
            return [nodes[:, :count]], [nodes[:, count:]]
        # The agent is a node without a name.
        me = nodes.new_zeros(len(nodes), 1, nodes.shape[2])
        told = self.graph(torch.cat([nodes, me], 1), triples, functional.pad(there, (0, 1), value=True))
        read = functional.linear(nodes, self.graph.weight)
        return [read[:, :count]], [read[:, count:], told[:, count:-1]]

    def _embedded(self, words: Tensor) -> Tensor:
        """Of numbers of words; 0 where there is none."""
        return self.words[words] * (words > 0)[..., None]


def _normal(shape: Sequence[int], over: int, key: Key) -> Tensor:
    """Standard normal numbers over the root of `over`."""
    return torch.randn(*shape, generator=key.torch()) / math.sqrt(over)


def _picked(rows: Tensor, places: Tensor) -> Tensor:
    """Of rows `[B, N, D]` those at places `[B, E]`, `[B, E, D]`."""
    return rows.gather(1, places[..., None].expand(*places.shape, rows.shape[2]))


def _softmax(energy: Tensor, target: Tensor, nodes: int) -> Tensor:
    """Shares `[B, E]` of links among those of the same target; 0 where energy is minus infinity."""
    blank = energy.new_full((len(energy), nodes), -torch.inf)
    top = blank.scatter_reduce(1, target, energy.detach(), "amax").clamp(min=NEVER)
    odds = (energy - top.gather(1, target)).exp()
    total = torch.zeros_like(blank).scatter_add(1, target, odds)
    return odds / total.gather(1, target).clamp(min=1e-30)
