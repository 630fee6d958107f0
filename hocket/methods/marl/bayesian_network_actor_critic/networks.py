"""Networks of agents that decide along a network over agents: actors told their parents' moves, and what draws it.

The order is a permutation by perturbed scores (Plackett and Luce's distribution, by Gumbel's trick), and an edge from
an earlier agent to a later one is open where a logit and logistic chance are above 0. Both are functions of a context.
Gradients pass straight through: a gate is 0 or 1 as it was drawn, and its slope is that of the two logistic functions
(Charpentier et al., Differentiable DAG Sampling, which the Bayesian network actor-critic takes for its graphs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import NetworkRequest
from hocket.policies.settings import NetworkSettings

OPEN = 2.0
"""The logit of every edge before learning: 0.88 of them are open."""


@dataclass(frozen=True)
class Layout:
    """What one of n agents that decide along a network sees, part by part:
    `hocket.methods.marl.bayesian_network_actor_critic.message_graph`.

    Its own `sight`; the `context` that networks are drawn from; n numbers of chance for the order and n for the edges
    that lead to it; whose edge leads to it, `[n]` of 0 and 1; who it is, one-hot `[n]`; and what each of the others
    that moved before it did, one-hot `[n, moves]`, zeros of those that it cannot be told of. It is a `SightForm`.
    """

    sight: int
    context: int
    agents: int
    moves: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes of all these in turn."""
        agents = self.agents
        return (self.sight, self.context, agents, agents, agents, agents, agents * self.moves)

    def network(
        self, settings: NetworkSettings, hidden: Sequence[int], wanted: NetworkRequest, key: Key
    ) -> TellingParents:
        if settings.body != "perceptron" or settings.normalise:
            raise ConfigurationError(
                "agents that decide along a network read what they see part by part, with perceptrons and as it is; "
                "drop network.body and network.normalise"
            )
        sizes: tuple[int, Sequence[int], int] = (wanted.inputs, hidden, wanted.outputs)
        if wanted.actor:
            return AlongParents(self, *sizes, last_gain=wanted.gain, key=key)
        return TellingParents(self, *sizes, offset=wanted.offset, last_gain=wanted.gain, key=key)

    def config(self) -> Mapping[str, Any]:
        return {"layout": list(self.parts)}


class Networks(Protocol):
    """What draws networks over n agents for B contexts."""

    def __call__(
        self, context: NDArray[np.float32], order: NDArray[np.float32], edges: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Everybody's place in the order, `[B, n]`, and which edges are open, from the first of a pair, `[B, n, n]`.

        Args:
            context: `[B, C]`. order, edges: chance, standard Gumbel numbers `[B, n]` and logistic ones `[B, n, n]`.
        """
        ...


class TellingParents(nn.Module):
    """A perceptron of the agent's own sight, its parents' moves, and whatever stands around what its world shows.

    Attributes:
        offset: numbers before what the world shows; whatever follows it is read too.
    """

    def __init__(
        self,
        layout: Layout,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        offset: int = 0,
        last_gain: float,
        key: Key,
    ) -> None:
        super().__init__()
        self.layout, self.offset = layout, offset
        self.left_out = layout.context + 4 * layout.agents
        self.after = Perceptron((inputs - self.left_out, *hidden, outputs), last_gain=last_gain, key=key)

    def forward(self, rows: Tensor) -> Tensor:
        end = self.offset + sum(self.layout.parts)
        parts = torch.split(rows[:, self.offset : end], list(self.layout.parts), 1)
        sight, context, order, chance, drawn, who, told = parts
        gate = self.gate(context, order, chance, drawn, who)
        moves = (told.reshape(len(rows), self.layout.agents, -1) * gate[..., None]).flatten(1)
        outputs: Tensor = self.after(torch.cat([rows[:, : self.offset], sight, moves, rows[:, end:]], 1))
        return outputs

    def gate(self, context: Tensor, order: Tensor, chance: Tensor, drawn: Tensor, who: Tensor) -> Tensor:
        """What each other's move is taken times, `[B, n]`: 1 for parents, 0 for the others."""
        return drawn


class AlongParents(TellingParents):
    """The same with a part that draws networks, which learns through the gates that it set.

    As a function of a context and chance it is a `Networks`: `drawn`.
    """

    def __init__(
        self, layout: Layout, inputs: int, hidden: Sequence[int], outputs: int, *, last_gain: float, key: Key
    ) -> None:
        super().__init__(layout, inputs, hidden, outputs, last_gain=last_gain, key=key)
        sizes = (layout.context, *hidden, layout.agents + layout.agents**2)
        self.network = Perceptron(sizes, last_gain=0.01, key=key.derive("network"))

    def scores(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """Of the order `[B, n]`, higher ones first, and logits of edges from the first of a pair, `[B, n, n]`."""
        agents = self.layout.agents
        scores, logits = self.network(context).split((agents, agents**2), 1)
        return scores, OPEN + logits.unflatten(1, (agents, agents))

    def gate(self, context: Tensor, order: Tensor, chance: Tensor, drawn: Tensor, who: Tensor) -> Tensor:
        scores, logits = self.scores(context)
        perturbed = scores + order
        mine = (perturbed * who).sum(1, keepdim=True)
        edges = (logits * who[:, None]).sum(2) + chance
        soft = torch.sigmoid(perturbed - mine) * torch.sigmoid(edges) * (1 - who)
        return drawn + soft - soft.detach()

    def drawn(
        self, context: NDArray[np.float32], order: NDArray[np.float32], edges: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """See `Networks`."""
        with torch.inference_mode():
            scores, logits = self.scores(torch.from_numpy(context))
            perturbed = scores + torch.from_numpy(order)
            place = perturbed.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
            earlier = place[:, :, None] < place[:, None, :]
            parents = earlier & (logits + torch.from_numpy(edges) > 0)
        return place.numpy(), parents.numpy()
