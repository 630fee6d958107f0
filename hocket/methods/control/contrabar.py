"""ContraBAR: beliefs about an unknown task, learnt by contrast (Choshen and Tamar, arXiv:2306.02418).

An agent that meets a task drawn from a family does best by what it believes of the task. A gated recurrent unit makes
`c_t` of all that was seen (observation, last move, last reward). From `c_t` a second unit is driven by the moves to
come, and what it holds after k of them must tell what was seen k steps later from what other episodes saw at that time:

    L = -sum_k log( exp f(z_{t+k}, u_k) / sum_j exp f(z^j_{t+k}, u_k) ),   u_0 = c_t,  u_k = GRU(u_{k-1}, a_{t+k-1}),

with f bilinear. What can tell that holds, by the paper's theorem, all that a Bayes-optimal policy needs. PPO acts on
what is seen and on `c_t`; no gradient of it passes into `c_t`. The paper's decoder-based forerunners must reconstruct
what is seen; here nothing is.

`Foretelling` (a belief of `hocket.policies.beliefs`) is the network, `ForetellingLoss` the loss. After the released
code (ec2604/ContraBAR): the moves' unit, negatives from other trajectories alone, no target network, and bilinear f,
one of its two forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.beliefs import BeliefForm, Paths, RecurrentBelief
from hocket.policies.control_bodies import Memory
from hocket.policies.control_networks import Perceptron
from hocket.policies.turns import in_turns, spread
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep


class Foretelling(RecurrentBelief):
    """A carried belief, and what it foretells: `told` is `phi(z_t)`, then `W u_k` for k = 1..ahead, each of `size`.

    Where a turn ends before k moves are made, `W u_k` means nothing.
    """

    def __init__(
        self, inputs: int, actions: int, hidden: tuple[int, ...], size: int, ahead: int, *, discrete: bool, key: Key
    ) -> None:
        super().__init__(inputs, hidden, key=key.derive("carried"))
        self.actions, self.discrete, self.ahead = actions, discrete, ahead
        self.moves = Memory(actions, (self.carries,), key=key.derive("moves"))
        self.sees = Perceptron((inputs, self.carries, size), last_gain=1.0, key=key.derive("sees"))
        self.foretells = Perceptron((self.carries, size), last_gain=1.0, key=key.derive("foretells"))

    def told(self, paths: Paths) -> Tensor:
        seen = paths.seen
        state = self(seen).flatten(0, 1)
        made = (
            functional.one_hot(paths.action.long(), self.actions).to(seen) if self.discrete else paths.action.to(seen)
        )
        found = [self.sees(seen)]
        for ahead in range(self.ahead):
            later = (torch.arange(seen.shape[1]) + ahead).clamp(max=seen.shape[1] - 1)
            state = self.moves.onto(made[:, later].flatten(0, 1), state)
            found.append(self.foretells(state).reshape(*seen.shape[:2], -1))
        return torch.cat(found, -1)


@dataclass(frozen=True)
class ForetellingForm(BeliefForm):
    """How a `Foretelling` is made; see `ForetellingLoss`."""

    hidden: tuple[int, ...]
    size: int
    ahead: int

    def build(self, observations: int, actions: int, *, discrete: bool, key: Key) -> Foretelling:
        return Foretelling(observations, actions, self.hidden, self.size, self.ahead, discrete=discrete, key=key)


@dataclass(frozen=True)
class ForetellingLoss(Objective):
    """`-coefficient sum_k log softmax_j(f(z^j_{t+k}, u_k))` of what was truly seen, its mean over decisions.

    j runs over the turns of the batch that lasted until t + k, so that time tells nothing.

    Attributes:
        ahead: the largest k. negatives: `others`, turns of other scenarios and samples, or `same`, other samples of the
            same scenario alone, a control: what they have in common need not be known.
        hidden: layers of the belief, the last of which it is. size: numbers that f compares.
    """

    coefficient: float = 1.0
    ahead: int = 3
    negatives: Literal["others", "same"] = "others"
    hidden: tuple[int, ...] = (32,)
    size: int = 16

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.BELIEF})
    couples: ClassVar[Level] = Level.BATCH
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coefficient < 0 or self.ahead < 1 or self.size < 1 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(
                "coefficient must be at least 0, ahead, size and the layers of hidden at least 1, not "
                f"{self.coefficient}, {self.ahead}, {self.size} and {list(self.hidden)}"
            )

    @property
    def policy_parts(self) -> tuple[ForetellingForm, ...]:
        """The belief that it trains."""
        return (ForetellingForm(self.hidden, self.size, self.ahead),)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        rows, place, length = in_turns(batch)
        told = spread(now.get(Quantity.BELIEF)[batch.occurrences.decision], rows, place, length)
        seen, foretold = told[..., : self.size], told[..., self.size :].reshape(*told.shape[:2], self.ahead, self.size)
        lasting = torch.arange(told.shape[1]) < length[:, None]
        rivals = self._rivals(batch, rows)
        loss = told.new_zeros(told.shape[:2])
        right, asked = torch.zeros(()), torch.zeros(())
        for k in range(1, min(self.ahead, told.shape[1] - 1) + 1):
            scores = torch.einsum("utd,vtd->tuv", foretold[:, :-k, k - 1], seen[:, k:])
            among = rivals & lasting[:, k:].T[:, None]  # [t, u, v]
            logp = torch.log_softmax(scores.masked_fill(~among, -torch.inf), -1).diagonal(dim1=1, dim2=2).T  # [u, t]
            there = lasting[:, k:] & (among.sum(-1).T > 1)
            loss = loss + functional.pad(torch.where(there, -logp, torch.zeros_like(logp)), (0, k))
            best = scores.detach().masked_fill(~among, -torch.inf).argmax(-1).T  # [u, t]
            itself = torch.arange(len(rivals))[:, None]
            right, asked = right + ((best == itself) & there).sum(), asked + there.sum()
        term = self.coefficient * loss[rows, place]
        counted = batch.occurrences.weight != 0
        weight = counted.to(term.dtype) / counted.sum().clamp(min=1)
        return Terms(term, weight, Level.BATCH, {"belief/told_apart": right / asked.clamp(min=1)})

    def _rivals(self, batch: Batch, rows: Tensor) -> Tensor:
        """Which turns each is told from, itself included, `[U, U]`."""
        count = int(rows.max()) + 1 if len(rows) else 0
        own = torch.eye(count, dtype=torch.bool)
        if self.negatives == "others":
            return torch.ones_like(own)
        scenario = torch.zeros(count, dtype=torch.long)
        scenario[rows] = batch.scenario[batch.occurrences.trajectory]
        return own | (scenario[:, None] == scenario)


CONTRABAR = PPO.but(
    name="contrabar",
    title="ContraBAR: contrastive Bayes-adaptive learning",
    source="Choshen and Tamar, ContraBAR, arXiv:2306.02418; released code ec2604/ContraBAR",
    catalogue_ids=("contrabar",),
    family="actor-critic",
    axes=("policy", "objective"),
    survives=("goals", "dynamics"),
    formula="PPO of pi(a | o_t, c_t) - 0.1 H,  c_t = GRU(o_1..o_t),  "
    "c trained by  -mean_t sum_k log( exp f(z_{t+k}, u_k) / sum_j exp f(z^j_{t+k}, u_k) ),  "
    "u_k = GRU(u_{k-1}, a_{t+k-1})",
    conventions={
        **PPO.conventions,
        "entropy": "bonus 0.1",
        "updates per batch": "8 epochs of the whole batch, for the contrast is between its episodes",
        "negatives": "what all other episodes of the batch saw then; the code draws a number of them at any time",
        "k": "1, 2 and 3",
        "data": "the batch alone; the code keeps a store of earlier trajectories for the belief",
        "what acts": "the belief as it was when the batch was sampled; it follows after the step",
        "reward and move": "are told by the world in what is seen next",
        "worlds": "partners of a kind that is not told, whose posterior and Bayes-optimal return are known, stand in "
        "for the paper's grids and robots; in Bernoulli bandits little that comes tells of the arms, and a belief has "
        "learnt their posterior after a few steps hardly better than a unit that has learnt nothing",
    },
    task="recall:partner",
    update=GradientStep(epochs=8, minibatches=1),
    regularisers=(
        ValueLoss(coefficient=0.5, aggregate="token-mean"),
        EntropyBonus(coefficient=0.1),
        ForetellingLoss(),
    ),
)
