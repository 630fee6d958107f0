"""CLAM: what others are like, learnt by contrast from what one saw oneself (Ma et al., arXiv:2401.00132).

An agent meets others whose policies it does not know and is never told. From its own history alone an encoder makes
`z_t`, and the policy, PPO's, acts on what is seen and on `z_t`. What the others are like is what stays the same through
an episode and differs between episodes; so `z` is trained to tell two views `x, x'` of one episode, each of a part of
its moments, from views of others, by the unsupervised loss of SimCLR:

    L = -log( exp(x . x' / tau) / sum_j exp(x . x_j / tau) ),   x = g(z) / |g(z)|,

j over all views in the batch but x itself. No gradient of PPO passes into `z`.

`Pooled` (a belief of `hocket.policies.beliefs`) is the encoder: learnt queries attend to all moments so far.
`SameEpisode` is the loss. The released code (fadegehg/CLAM) has the loss, tau = 0.5, the projection g and pooling by
attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key, uniforms
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.beliefs import Belief, BeliefForm, Paths
from hocket.policies.control_networks import Perceptron
from hocket.policies.turns import in_turns, spread
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep

Views = Literal["apart", "free"]
_STEEP = 5.0
"""How far the logarithm of a moment's weight may be from 0."""


class Pooled(Belief):
    """Attention by learnt queries over all that was seen so far, as a set: the order does not matter.

    Each moment passes a layer with tanh; head h weighs it by `exp(5 tanh(q_h . k))` and takes the mean of the values. A
    layer with tanh makes the belief of all heads' means. What is carried are the sums of weights and weighted values,
    so that a decision costs the same however long the history is.
    """

    def __init__(self, inputs: int, wide: int, heads: int, size: int, *, masked: float, views: Views, key: Key) -> None:
        super().__init__()
        self.heads, self.wide, self.size, self.carries = heads, wide, size, heads * (1 + wide)
        self.masked, self.views = masked, views
        self.moments = Perceptron((inputs, wide), last_gain=math.sqrt(2), key=key.derive("moments"))
        self.queries = Perceptron((wide, heads), last_gain=1.0, key=key.derive("queries"))
        self.values = Perceptron((wide, heads * wide), last_gain=1.0, key=key.derive("values"))
        self.summed = Perceptron((heads * wide, size), last_gain=1.0, key=key.derive("summed"))
        self.projected = Perceptron((size, size, size), last_gain=1.0, key=key.derive("projected"))

    def weighed(self, seen: Tensor) -> Tensor:
        """Of every moment `[.., O]` its weights and weighted values, head by head, `[.., carries]`."""
        moments = torch.tanh(self.moments(seen))
        weight = (_STEEP * torch.tanh(self.queries(moments))).exp()[..., None]
        values = self.values(moments).reshape(*seen.shape[:-1], self.heads, self.wide)
        return torch.cat([weight, weight * values], -1).flatten(-2)

    def given(self, sums: Tensor) -> Tensor:
        """Beliefs `[.., size]` from sums over moments; of no moment at all the same for everybody."""
        parts = sums.reshape(*sums.shape[:-1], self.heads, 1 + self.wide)
        means = parts[..., 1:] / parts[..., :1].clamp(min=1e-9)
        return torch.tanh(self.summed(means.flatten(-2)))

    def step(self, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        sums = carried + self.weighed(seen)
        return self.given(sums), sums

    def forward(self, seen: Tensor) -> Tensor:
        return self.given(self.weighed(seen).cumsum(-2))

    def shown(self, paths: Paths) -> Tensor:
        """Which moments each of the two views has, `[U, L, 2]`, 0 or 1."""
        words, number = np.uint64(paths.key.word), paths.decision.numpy().astype(np.uint64)
        drawn = [torch.from_numpy(uniforms(np.full(number.shape, words), 2 * number + view)) for view in (0, 1)]
        shown = [drawn[0] < 0.5, drawn[0] >= 0.5] if self.views == "apart" else [one >= self.masked for one in drawn]
        return torch.stack(shown, -1).to(paths.seen)

    def told(self, paths: Paths) -> Tensor:
        """Both views of the history so far, projected and of length 1, one behind the other, `[U, L, 2 * size]`.

        A view that has no moment yet is 0: of nothing nothing is learnt, and a length near 0 has a slope near 1e12.
        """
        weighed, shown = self.weighed(paths.seen), self.shown(paths)
        views = [self.projected(self.given((weighed * shown[..., view : view + 1]).cumsum(-2))) for view in (0, 1)]
        some = torch.split((shown.cumsum(-2) > 0).to(weighed), 1, -1)
        return torch.cat(
            [functional.normalize(view, dim=-1) * part for view, part in zip(views, some, strict=True)], -1
        )


@dataclass(frozen=True)
class PooledForm(BeliefForm):
    """How a `Pooled` is made; see `SameEpisode`."""

    wide: int
    heads: int
    size: int
    masked: float
    views: Views

    def build(self, observations: int, actions: int, *, discrete: bool, key: Key) -> Pooled:
        return Pooled(observations, self.wide, self.heads, self.size, masked=self.masked, views=self.views, key=key)


@dataclass(frozen=True)
class SameEpisode(Objective):
    """`-coefficient log softmax_j(x . x_j / temperature)` of the other view of the same episode, the mean of both.

    Views are compared at every decision with those of the other turns of the batch that lasted as long, so that time
    tells nothing. The loss is the mean over decisions at which both views have a moment; a view of none, which is 0, is
    compared with nothing.

    Attributes:
        temperature: tau. views: `apart`, each moment is in one of the two views, by an even draw; `free`, each view
            lacks a share `masked` of the moments, drawn for itself.
        wide, heads, size: of the encoder; the last is the size of z.
    """

    coefficient: float = 1.0
    temperature: float = 0.5
    views: Views = "apart"
    masked: float = 0.5
    wide: int = 32
    heads: int = 2
    size: int = 16

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.BELIEF})
    couples: ClassVar[Level] = Level.BATCH
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coefficient < 0 or self.temperature <= 0 or not 0 <= self.masked < 1:
            raise ValueError(
                "coefficient must be at least 0, temperature positive and masked in [0, 1), not "
                f"{self.coefficient}, {self.temperature} and {self.masked}"
            )
        if min(self.wide, self.heads, self.size) < 1:
            raise ValueError(f"wide, heads and size must be at least 1, not {self.wide}, {self.heads} and {self.size}")

    @property
    def policy_parts(self) -> tuple[PooledForm, ...]:
        """The belief that it trains."""
        return (PooledForm(self.wide, self.heads, self.size, self.masked, self.views),)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        rows, place, length = in_turns(batch)
        told = spread(now.get(Quantity.BELIEF)[batch.occurrences.decision], rows, place, length)
        turns, longest = told.shape[:2]
        views = told.reshape(turns, longest, 2, -1).permute(1, 2, 0, 3).flatten(1, 2)  # [L, 2 U, D]
        same, some = torch.arange(2 * turns).roll(turns), (views != 0).any(-1)  # [L, 2 U]
        both = some & some[:, same]
        among = some[:, None] & ~torch.eye(2 * turns, dtype=torch.bool) | ~both[..., None]
        scores = (views @ views.mT / self.temperature).masked_fill(~among, -torch.inf)
        logp = torch.log_softmax(scores, -1)[:, torch.arange(2 * turns), same].masked_fill(~both, 0.0)
        term = -self.coefficient * logp.reshape(longest, 2, turns).mean(1).T[rows, place]
        nearest = (scores.detach().argmax(-1) == same)[both]
        counted = (batch.occurrences.weight != 0) & both[:, :turns].T[rows, place]
        weight = counted.to(term.dtype) / counted.sum().clamp(min=1)
        return Terms(term, weight, Level.BATCH, {"belief/told_apart": nearest.sum() / max(nearest.numel(), 1)})


CLAM = PPO.but(
    name="clam-agent-modelling",
    title="CLAM: contrastive agent modelling",
    source="Ma et al., Contrastive Learning-Based Agent Modeling, arXiv:2401.00132; released code fadegehg/CLAM",
    catalogue_ids=("clam-agent-modelling",),
    family="actor-critic",
    axes=("policy", "team"),
    survives=("partners",),
    formula="PPO of pi(a | o_t, z_t) - 0.1 H,  z_t = attention over o_1..o_t,  "
    "z trained by  -mean_t log( exp(x . x' / tau) / sum_j exp(x . x_j / tau) ),  x = g(z) / |g(z)| of a view",
    conventions={
        **PPO.conventions,
        "entropy": "bonus 0.1",
        "updates per batch": "8 epochs of the whole batch, for the contrast is between its episodes",
        "views": "each moment is in one of the two, by an even draw; the code crops both at random and masks 0.3 of "
        "one, so that they share moments, by which an episode is told without what its others are like",
        "compared": "at every decision where both views have a moment, what each has of the history so far; the "
        "code's views are of any length",
        "encoder": "pooling by attention over moments without order, 16 numbers; the code has a transformer before it "
        "and tells moments their place",
        "what it reads": "what is seen, which here holds the partner's last move, not the agent's own moves",
        "data": "the batch alone; the code keeps a store of 10 000 episodes",
        "what acts": "the encoder as it was when the batch was sampled, which follows after the step, and z as it is; "
        "the code's follows slowly (0.99), and z has length 1",
        "temperature": "0.5, the code's",
        "worlds": "a scripted partner of a kind that is not told stands in for the paper's predators and prey",
    },
    task="recall:partner",
    update=GradientStep(epochs=8, minibatches=1),
    regularisers=(
        ValueLoss(coefficient=0.5, aggregate="token-mean"),
        EntropyBonus(coefficient=0.1),
        SameEpisode(),
    ),
)
