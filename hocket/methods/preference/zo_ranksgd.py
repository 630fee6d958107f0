"""ZO-RankSGD: a step from nothing but the order in which perturbed policies did (Tang et al., arXiv:2303.03751).

Weights are moved along Gaussian directions z_1..z_m, each moved policy plays the step's scenarios, and an oracle names
the best `k` of them in order. Every comparison that this settles is an edge (i better than j), and
`g = 1/|E| sum (z_j - z_i)` is descended: no gradient of the policy, no log-prob and no size of a reward is read. The
hook `PerturbedPlay` plays, sample i of every scenario along direction i; `RankedDirections` is the oracle, written as
credit; `DirectionStep` draws the directions anew from their keys and steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.core.segments import segment_sum
from hocket.credit.units import trajectory_units
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.conventions import COMMON
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.stages import Credit, Hook, HookContext, Metrics, Objective, Player, Policy
from hocket.types import Assignment, Evaluation, Quantity, Terms, Trajectory
from hocket.update.problem import Problem, Update
from hocket.update.weights import moved_to, restored

_COMPARED = 256
"""Decisions of which a step evaluates the log-probs."""

DIRECTION = InfoColumn("direction", "The key of the direction along which the weights were moved that played it.")


def weights_of(policy: Policy) -> list[Tensor]:
    """The weights that training changes, in the module's order."""
    return [weight for weight in policy.module.parameters() if weight.requires_grad]


def direction(key: int, name: str, weights: Sequence[Tensor]) -> list[Tensor]:
    """The standard Gaussian direction that `key` stands for, of the policy `name`: shaped as its weights."""
    generator = Key(key).derive(name).torch()
    return [torch.randn(one.shape, generator=generator).to(one.device, one.dtype) for one in weights]


def ranked(values: Tensor, best: int | None = None) -> Tensor:
    """What an oracle's order of the `best` first of m says of each: `[m]`, (beaten - beaten by) over the comparisons.

    `values` `[m]` are compared and never read otherwise; equal ones settle nothing between them. Of those not among the
    best no order is known. All are ordered when `best` is None. Zero where nothing is settled.
    """
    better = values[:, None] > values[None, :]
    if best is not None and best < len(values):
        last = values.topk(best).values[-1]
        better &= (values >= last)[:, None]
    edges = better.double()
    return (edges.sum(1) - edges.sum(0)) / edges.sum().clamp(min=1)


# ---------------------------------------------------------------- playing


@dataclass
class PerturbedPlayer:
    """Plays sample i of every assignment with the weights moved by `mu z_i`; afterwards they are what they were.

    What acts so is none of the policies, hence records no log-probs of theirs. The reference, and answers that are
    given, are played as they are.
    """

    player: Player
    policies: Mapping[str, Policy]
    mu: float
    key: Key

    def __getattr__(self, name: str) -> Any:
        return getattr(self.player, name)

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        asked = [(place, one) for place, given in enumerate(assignments) for one in _single(given)]
        played: dict[tuple[int, int], list[Trajectory]] = {}
        for sample in sorted({one.first for _, one in asked if _own(one)}):
            word = self.key.derive("direction", sample).word
            mine = [(place, one) for place, one in asked if _own(one) and one.first == sample]
            with restored([weight for policy in self.policies.values() for weight in weights_of(policy)]):
                for policy in self.policies.values():
                    weights = weights_of(policy)
                    z = direction(word, policy.name, weights)
                    moved_to(weights, [weight + self.mu * along for weight, along in zip(weights, z, strict=True)])
                found = await self.player.play([one for _, one in mine], key=key)
            for (place, one), trajectory in zip(mine, found, strict=True):
                DIRECTION.write(trajectory, word)
                for turn in trajectory.turns:
                    turn.logp = None
                played[place, one.first] = [trajectory]
        given = [(place, one) for place, one in asked if not _own(one)]
        if given:
            found = await self.player.play([one for _, one in given], key=key)
            for (place, one), trajectory in zip(given, found, strict=True):
                played[place, one.first] = [trajectory]
        return [trajectory for place, one in asked for trajectory in played[place, one.first]]


def _single(assignment: Assignment) -> list[Assignment]:
    first = assignment.first
    return [replace(assignment, samples=1, first=number) for number in range(first, first + assignment.samples)]


def _own(assignment: Assignment) -> bool:
    return assignment.source == "own" and assignment.actor == "policy"


@dataclass(frozen=True)
class PerturbedPlay(Hook):
    """Seats a `PerturbedPlayer` at every step, with directions of that step.

    Attributes:
        mu: how far the weights are moved along a standard Gaussian direction.
    """

    mu: float = 0.1

    def __post_init__(self) -> None:
        if not self.mu > 0:
            raise ValueError(f"mu must be positive, not {self.mu}")

    def check(self, run: HookContext) -> None:
        """Looks at a run before its first step.

        Raises:
            ConfigurationError: with overlap, where another process plays, whose weights are not moved.
        """
        if run.overlap:
            raise ConfigurationError(
                f"overlap = {run.overlap} samples in another process, and PerturbedPlay of recipe {run.method} moves "
                "the weights that sample in this one; drop it"
            )

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        return PerturbedPlayer(player, run.trained, self.mu, run.key.derive("perturbed", step))


# ---------------------------------------------------------------- the oracle and the step


@dataclass(frozen=True)
class RankedDirections(Credit):
    """The ranking oracle: directions by their mean return over the scenarios, and what their order says (`ranked`).

    Every trajectory of a direction gets the direction's coefficient. Returns are read for their order alone. Where
    nothing says along which direction a trajectory was played, the i-th of each scenario belongs to direction i.

    Attributes:
        best: how many of the directions the oracle puts in order; None is all.
    """

    best: int | None = None
    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.best is not None and self.best < 1:
            raise ValueError(f"best must be at least 1, not {self.best}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = trajectory_units(batch)
        index, size = _directions(batch)
        counted = units.counted.double()
        count = segment_sum(counted, index, size)
        mean = segment_sum(units.value * counted, index, size) / count.clamp(min=1)
        played = count > 0
        share = torch.zeros(size, dtype=torch.float64)
        share[played] = ranked(mean[played], self.best)
        advantage = torch.where(units.counted, share[index], 0.0)
        return replace(batch.occurrences, advantage=advantage[units.member])


def _directions(batch: Batch) -> tuple[Tensor, int]:
    """Which direction each trajectory was played along, `[N]`, as they first appear; and how many there are."""
    keys: list[Any] = list(DIRECTION.rows(batch))
    if None in keys:
        seen: dict[int, int] = {}
        keys = []
        for scenario in batch.scenario.tolist():
            keys.append(seen.get(scenario, 0))
            seen[scenario] = seen.get(scenario, 0) + 1
    numbers: dict[Any, int] = {}
    index = [numbers.setdefault(key, len(numbers)) for key in keys]
    return torch.tensor(index, dtype=torch.long), len(numbers)


@dataclass(frozen=True)
class OfDirections(Objective):
    """What is descended, as a number: minus the credit of the directions. It has no gradient in any log-prob."""

    idle_without_advantage: ClassVar[bool] = True

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        """A term per occurrence, `[E]`."""
        seen = batch.occurrences
        count = (seen.weight != 0).sum().clamp(min=1)
        return Terms(-seen.advantage.detach().double(), seen.weight / count)


@dataclass(frozen=True)
class DirectionStep(Update):
    """`x <- x + eta sum_i c_i z_i`, c_i the mean credit of the trajectories played along direction z_i.

    Attributes:
        eta: how far a step goes.
        momentum: of plain gradient descent.
    """

    eta: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not self.eta > 0:
            raise ValueError(f"eta must be positive, not {self.eta}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), not {self.momentum}")

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """Plain gradient descent over the policy's trainable weights."""
        return torch.optim.SGD(weights_of(policy), lr=self.eta, momentum=self.momentum)

    def lr_factor(self, step: int, total: int) -> float:
        """1: the step is constant."""
        return 1.0

    def step(self, problem: Problem, key: Key) -> Metrics:
        """One step along the directions.

        Raises:
            ConfigurationError: for experience that was played along no directions.
        """
        coefficients = credited(problem.batch)
        # No policy of the run sampled: so that nobody misses agreement, the learner before the step is shown for both.
        seen = problem.counted()[:_COMPARED]
        problem.first = (seen, evaluate_detached(problem.policy, problem.batch, {Quantity.LOGP}, seen))
        weights = weights_of(problem.policy)
        found = [torch.zeros_like(weight) for weight in weights]
        for word, share in coefficients.items():
            if share:
                for total, along in zip(found, direction(word, problem.policy.name, weights), strict=True):
                    total -= share * along
        for weight, total in zip(weights, found, strict=True):
            weight.grad = total
        norm = math.sqrt(sum(float(total.double().pow(2).sum()) for total in found))
        problem.optimiser.step()
        loss = float(
            torch.stack([term.total() for term in problem.loss_terms(_nothing(problem.batch), problem.batch)]).sum()
        )
        return {"loss": loss, "gradient/norm": norm, "update/directions": float(len(coefficients))}


def credited(batch: Batch) -> dict[int, float]:
    """The mean credit of each direction, by its key, over the trajectories that count.

    Raises:
        ConfigurationError: for a batch without the column `DIRECTION`.
    """
    words, seen = DIRECTION.read(batch, "DirectionStep"), batch.occurrences
    used = seen.weight != 0
    # Credit is one number per trajectory, whatever its length.
    per = dict(zip(seen.trajectory[used].tolist(), seen.advantage[used].tolist(), strict=True))
    sums: dict[int, list[float]] = {}
    for trajectory, advantage in per.items():
        if words[trajectory] is not None:
            sums.setdefault(int(words[trajectory]), []).append(advantage)
    return {word: sum(all_of) / len(all_of) for word, all_of in sums.items()}


def _nothing(batch: Batch) -> Evaluation:
    return Evaluation(torch.zeros(batch.decisions))


ZO_RANKSGD = Recipe(
    name="zo-ranksgd",
    title="ZO-RankSGD: zeroth-order steps from rankings of perturbed policies",
    source="Tang et al., arXiv:2303.03751",
    family="preference",
    catalogue_ids=("zo-ranksgd",),
    axes=("objective", "reward", "search", "policy"),
    formula="g = 1/|E| sum_{(i,j) in E} (z_j - z_i),  x <- x - eta g;  E: the comparisons settled by the order of the "
    "best k of m policies x + mu z_i",
    conventions={
        **COMMON,
        "aggregation": "mean return of a direction's trajectories; g is a mean over edges",
        "temperature": "perturbed policies are sampled from as the run says; their log-probs are not read",
        "directions": "standard Gaussian in all weights that are trained, drawn anew every step; sample i of each "
        "scenario is played by x + mu z_i, so that m = rollout.samples and all play the same scenarios",
        "oracle": "the order of mean returns over the step's scenarios; equal returns settle nothing",
        "best k": "credit.best; all m by default",
        "line search": "none: a further ranking per step of the paper's optional one would play as many episodes again",
        "step": "plain gradient descent without momentum, eta and mu constant",
        "group of one": "nothing is settled, and nothing changes",
        "constant group": "nothing is settled, and nothing changes",
    },
    task="gym:CartPole-v1",
    curriculum=Shuffled(prompts=8),
    rollout=Independent(samples=16),
    credit=RankedDirections(),
    objective=OfDirections(),
    update=DirectionStep(),
    hooks=(PerturbedPlay(),),
)


ZO_RANKSGD_WORDS = ZO_RANKSGD.but(
    name="zo-ranksgd-words",
    title="ZO-RankSGD for the shipped language model",
    conventions={**ZO_RANKSGD.conventions, "mu and eta": "of a language model's size; the method is the same"},
    task="sums",
    **{"hooks.0.mu": 0.002, "update.eta": 0.02},
)
