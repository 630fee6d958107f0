"""CASEC: values on a coordination graph that is drawn anew, and sparse, in every state (Wang et al., arXiv:2106.02886).

The value of a joint action is

    Q(a) = sum_i q_i(a_i) + sum_{ij in E} q_ij(a_i, a_j),

maximised by max-sum messages. An edge's score is `z_ij = max_{a_i} Var_{a_j} q_ij(a_i, a_j)`, the larger of both
directions; only a share of the edges is kept, those with the highest scores. A loss on the variances,
`lambda mean Var q_ij`, makes payoffs flat where nothing depends on the other. Payoffs are bilinear in learnt
representations of actions, `q_ij(a, b) = x_a W_ij x_b`. Values learn from kept moments of the team by
`(Q(s, a) - r - gamma max_a' Q-(s', a'))^2`, with a slow copy.

The factorisation, the score and the loss are the paper's as recalled; its factors 1/n and 1/|E| are left out, which
is another unit of q_i and q_ij. Ours are: perceptrons of what sensors see in the
place of recurrent networks, the bilinear form, and that the best joint action met in the messages' rounds is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.marl.casec.world import ACTIONS, SIDES, Sensors

Ints = NDArray[np.int64]
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Payoffs:
    """Of B states: `single` `[B, n, A]`, `pair` `[B, P, A, A]`, the `ends` of pairs `[P, 2]`, edges kept `[B, P]`."""

    single: Tensor
    pair: Tensor
    ends: Tensor
    kept: Tensor

    def value(self, actions: Tensor) -> Tensor:
        """Q of joint actions `[B, n]`, `[B]`."""
        mine = self.single.gather(2, actions[..., None])[..., 0].sum(1)
        first, second = actions[:, self.ends[:, 0]], actions[:, self.ends[:, 1]]
        rows = self.pair.gather(2, first[..., None, None].expand(-1, -1, 1, self.pair.shape[-1]))[:, :, 0]
        both = rows.gather(2, second[..., None])[..., 0]
        return mine + (both * self.kept).sum(1)


def max_sum(payoffs: Payoffs, rounds: int) -> Tensor:
    """The best joint action `[B, n]` that is met in rounds of messages; on trees the best of all."""
    single, pair, ends = payoffs.single, payoffs.pair, payoffs.ends
    mask = payoffs.kept[..., None].to(pair)
    first, second = ends[:, 0], ends[:, 1]
    forth, back = (torch.zeros(*pair.shape[:2], pair.shape[-1]).to(pair) for _ in range(2))
    best = single.argmax(2)
    reached = payoffs.value(best)
    for _ in range(rounds):
        total = single.index_add(1, second, forth).index_add(1, first, back)
        sent = (pair + (total[:, first] - back)[..., None]).amax(2)  # From the first of a pair, by the second's action.
        answered = (pair + (total[:, second] - forth)[:, :, None]).amax(3)
        forth, back = ((item - item.mean(2, keepdim=True)) * mask for item in (sent, answered))
        actions = single.index_add(1, second, forth).index_add(1, first, back).argmax(2)
        value = payoffs.value(actions)
        better = value > reached
        best, reached = torch.where(better[:, None], actions, best), torch.where(better, value, reached)
    return best


def scores(pair: Tensor) -> Tensor:
    """`[B, P]`, the largest variance of a pair's payoffs over one of both actions."""
    return torch.maximum(pair.var(3, correction=0).amax(2), pair.var(2, correction=0).amax(2))


@dataclass(frozen=True)
class SparseGraph(Solver):
    """See the module. A step is some moves, then gradients on drawn moments.

    Attributes:
        share: of edges that are kept. edges: by `scores`, or drawn anew at `random`. hidden, represent: units of a
            layer, and numbers that represent an action. rounds: of messages. sparse: lambda. moves, gradients, rows: of
            a step. lr: of Adam. follow: steps between slow copies. discount: gamma. first, last, over: of epsilon, the
            chance that an agent acts at random.
    """

    world: ClassVar[type] = Sensors

    share: float = 0.3
    edges: Literal["scores", "random"] = "scores"
    hidden: int = 32
    represent: int = 4
    rounds: int = 4
    sparse: float = 0.01
    moves: int = 50
    gradients: int = 20
    rows: int = 32
    lr: float = 1e-2
    follow: int = 4
    discount: float = 0.3
    first: float = 0.8
    last: float = 0.1
    over: int = 20

    def __post_init__(self) -> None:
        counts = (
            self.hidden,
            self.represent,
            self.rounds,
            self.moves,
            self.gradients,
            self.rows,
            self.follow,
            self.over,
        )
        if min(counts) < 1 or not 0 <= self.share <= 1 or self.sparse < 0 or not self.lr > 0 or self.discount < 0:
            raise ConfigurationError(
                f"method.share = {self.share} is between 0 and 1, sparse = {self.sparse} and discount = "
                f"{self.discount} are at least 0, lr = {self.lr} is positive, and hidden, represent, rounds, moves, "
                f"gradients, rows, follow and over = {counts} are at least 1"
            )

    def init(self, world: Sensors, key: Key) -> State:
        generator = key.derive("weights").torch()
        sight = len(SIDES)
        sizes = {
            "single_in": (sight, self.hidden),
            "single_out": (self.hidden, ACTIONS),
            "pair_in": (3 * sight, self.hidden),
            "pair_out": (self.hidden, self.represent**2),
            "action": (ACTIONS, self.represent),
        }
        weights = {name: torch.randn(*size, generator=generator) * (2 / size[0]) ** 0.5 for name, size in sizes.items()}
        weights["pair_out"] *= 0.1  # Flat at first.
        weights |= {f"{name}_bias": torch.zeros(sizes[name][1]) for name in sizes if name != "action"}
        arrays = {name: item.numpy() for name, item in weights.items()}
        return {
            **arrays,
            **{f"slow_{name}": item for name, item in arrays.items()},
            **{f"mean_{name}": np.zeros_like(item) for name, item in arrays.items()},
            **{f"square_{name}": np.zeros_like(item) for name, item in arrays.items()},
            "moments": np.zeros((0, 2 + world.count)),  # The state, what was done and what was paid.
            "steps": np.zeros((), np.int64),
        }

    def step(self, world: Sensors, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        steps, names = int(state["steps"]), [name[5:] for name in state if name.startswith("slow_")]
        weights = {name: torch.tensor(state[name]) for name in names}
        slow = {name: torch.tensor(state[f"slow_{name}"]) for name in names}
        means = {name: torch.tensor(state[f"mean_{name}"]) for name in names}
        squares = {name: torch.tensor(state[f"square_{name}"]) for name in names}
        draw = key.derive("moves").numpy()
        states = draw.integers(len(world.states), size=self.moves)
        actions = self.best(world, weights, states, key.derive("edges", 0))
        wild = draw.random(actions.shape) < self.epsilon(steps)
        actions = np.where(wild, draw.integers(ACTIONS, size=actions.shape), actions)
        paid = world.paid(states, actions)
        moments = np.concatenate([state["moments"], np.hstack([states[:, None], actions, paid[:, None]])])
        draw, error = key.derive("rows").numpy(), 0.0
        for number in range(self.gradients):
            chosen = moments[draw.integers(len(moments), size=self.rows)]
            following = draw.integers(len(world.states), size=self.rows)  # What follows does not depend on the moment.
            edges = key.derive("edges", 1 + number)
            learnt = {name: item.requires_grad_() for name, item in weights.items()}
            loss, error = self.loss(world, learnt, slow, chosen, following, edges)
            gradients = torch.autograd.grad(loss, list(learnt.values()))
            count = steps * self.gradients + number + 1
            for name, gradient in zip(names, gradients, strict=True):
                means[name] += 0.1 * (gradient - means[name])
                squares[name] += 0.01 * (gradient**2 - squares[name])
                spread = (squares[name] / (1 - 0.99**count)).sqrt() + 1e-8
                weights[name] = weights[name].detach() - self.lr * means[name] / (1 - 0.9**count) / spread
        if (steps + 1) % self.follow == 0:
            slow = weights
        after: dict[str, NDArray[np.generic]] = {"moments": moments, "steps": np.array(steps + 1)}
        for prefix, group in (("", weights), ("slow_", slow), ("mean_", means), ("square_", squares)):
            after |= {f"{prefix}{name}": item.detach().numpy() for name, item in group.items()}
        return after, {"epsilon": self.epsilon(steps), "error": error}

    def epsilon(self, steps: int) -> float:
        """The chance that an agent acts at random."""
        return self.last + (self.first - self.last) * max(0.0, 1 - steps / self.over)

    def loss(
        self, world: Sensors, weights: Weights, slow: Weights, moments: Array, following: Ints, key: Key
    ) -> tuple[Tensor, float]:
        """The squared error of backups and the variances' loss; and the error alone."""
        states, actions = moments[:, 0].astype(np.int64), torch.tensor(moments[:, 1:-1].astype(np.int64))
        with torch.no_grad():
            then = self.payoffs(world, slow, following, key.derive("then"))
            target = torch.tensor(moments[:, -1]).float() + self.discount * then.value(max_sum(then, self.rounds))
        present = self.payoffs(world, weights, states, key.derive("now"))
        error = (present.value(actions) - target).square().mean()
        _, pair = self.factors(world, weights, states)
        flatness = (pair.var(3, correction=0).mean() + pair.var(2, correction=0).mean()) / 2
        return error + self.sparse * flatness, float(error.detach())

    def factors(self, world: Sensors, weights: Weights, states: Ints) -> tuple[Tensor, Tensor]:
        """`q_i` `[B, n, A]` and `q_ij` `[B, P, A, A]`."""
        sight = torch.tensor(world.seen[states]).float()
        ends = torch.tensor(world.pairs)
        sides = torch.tensor(world.sides).float().expand(len(sight), -1, -1)
        single = torch.relu(sight @ weights["single_in"] + weights["single_in_bias"])
        single = single @ weights["single_out"] + weights["single_out_bias"]
        both = torch.cat([sight[:, ends[:, 0]], sight[:, ends[:, 1]], sides], 2)
        hidden = torch.relu(both @ weights["pair_in"] + weights["pair_in_bias"])
        form = hidden @ weights["pair_out"] + weights["pair_out_bias"]
        square = form.reshape(*form.shape[:2], self.represent, self.represent)
        return single, weights["action"] @ square @ weights["action"].T

    def payoffs(self, world: Sensors, weights: Weights, states: Ints, key: Key) -> Payoffs:
        """The graph of each state."""
        single, pair = self.factors(world, weights, states)
        count = round(self.share * pair.shape[1])
        rank = scores(pair.detach()) if self.edges == "scores" else torch.tensor(key.numpy().random(pair.shape[:2]))
        mask = torch.zeros(pair.shape[:2], dtype=torch.bool)
        mask.scatter_(1, rank.topk(count, 1).indices, True)
        return Payoffs(single, pair, torch.tensor(world.pairs), mask)

    def best(self, world: Sensors, weights: Weights, states: Ints, key: Key) -> Ints:
        """The joint actions `[B, n]` that max-sum finds."""
        with torch.no_grad():
            actions: Ints = max_sum(self.payoffs(world, weights, states, key), self.rounds).numpy()
        return actions

    def answer(self, world: Sensors, state: State) -> Array:
        """What is done in every state, `[S, n, A]`."""
        weights = {name[5:]: torch.tensor(state[name[5:]]) for name in state if name.startswith("slow_")}
        every = np.arange(len(world.states))
        certain: Array = np.eye(ACTIONS)[
            self.best(world, weights, every, Key.of(0).derive("answer", int(state["steps"])))
        ]
        return certain


CASEC = SolverMethod(
    name="casec",
    description="action values on coordination graphs that keep few edges, chosen in every state",
    solver=SparseGraph(),
    world="sensors:2x3",
    steps=40,
    source="Context-Aware Sparse Deep Coordination Graphs, Wang et al., arXiv:2106.02886",
)
