"""Losses of action values and of actors that follow them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.policy_parts import PolicyPart
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


class _OfRows(Objective):
    """A loss of rows that a store has drawn: the mean over them."""

    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False
    learns_from_rows: ClassVar[bool] = True


def _terms(value: Tensor, batch: Batch, metrics: dict[str, Tensor]) -> Terms:
    occurrences = batch.occurrences
    # As `token-mean`, without sums over all trajectories: a mini-batch knows those of the whole draw.
    weight = occurrences.weight.to(value.dtype)
    return Terms(value[occurrences.decision], weight / weight.count_nonzero().clamp(min=1), metrics=metrics)


@dataclass(frozen=True)
class CriticLoss(_OfRows):
    """Minimises coefficient sum_k loss(Q_k(s, a) - y), y the backup of the policy.

    Attributes:
        values: the part of the policy that gives action values and backups.
        shape: `square`, or `huber`, which is half the square up to 1 and linear beyond.
    """

    values: PolicyPart
    coefficient: float = 0.5
    shape: Literal["square", "huber"] = "square"

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ACTION_VALUE, Quantity.BACKUP})

    def __post_init__(self) -> None:
        if self.shape not in ("square", "huber"):
            raise ValueError(f"shape must be square or huber, not {self.shape!r}")
        if not self.coefficient > 0:
            raise ValueError(f"coefficient must be positive, not {self.coefficient}")

    @property
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        return (self.values,)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value, target = now.get(Quantity.ACTION_VALUE), now.get(Quantity.BACKUP).detach()[:, None]
        if self.shape == "square":
            error = (value - target).square()
        else:
            error = functional.smooth_l1_loss(value, target.expand_as(value), reduction="none")
        with torch.no_grad():
            metrics = {"values/mean": value.mean(), "values/error": (value - target).abs().mean()}
        return _terms(self.coefficient * error.sum(1), batch, metrics)


@dataclass(frozen=True)
class TeamCriticLoss(CriticLoss):
    """`CriticLoss` of rows of a team (`hocket.rollout.JointTransitions`): every row counts once, and none is split."""

    couples: ClassVar[Level] = Level.TRAJECTORY
    learns_from_teams: ClassVar[bool] = True

    @property
    def reads(self) -> frozenset[Column]:
        """The columns by which agents know of each other's actions, if the values need them."""
        return getattr(self.values, "reads", frozenset())

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, occurrences = super().__call__(now, batch), batch.occurrences
        live = occurrences.trajectory[occurrences.weight != 0]
        size = torch.bincount(live, minlength=batch.trajectories)
        share = occurrences.weight.to(terms.value.dtype) / size.clamp(min=1)[occurrences.trajectory]
        return replace(terms, weight=share / size.count_nonzero().clamp(min=1))


@dataclass(frozen=True)
class PathwiseLoss(_OfRows):
    """Minimises what the policy loses by an action drawn anew: -Q(s, a), with SAC alpha log pi(a) more."""

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.PATHWISE})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value = now.get(Quantity.PATHWISE)
        return _terms(value, batch, {"actor/loss": value.detach().mean()})


@dataclass(frozen=True)
class TemperatureLoss(_OfRows):
    """Minimises -log alpha (log pi(a) + H), which raises the temperature while the entropy is below H."""

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.TEMPERATURE})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        return _terms(now.get(Quantity.TEMPERATURE), batch, {})


@dataclass(frozen=True)
class ConservativeLoss(_OfRows):
    """Minimises coefficient sum_k (log sum_a' exp Q_k(s, a') - Q_k(s, a)), a recorded: values beyond the data fall."""

    coefficient: float = 5.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.CONSERVATIVE})

    def __post_init__(self) -> None:
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        gap = now.get(Quantity.CONSERVATIVE)
        return _terms(self.coefficient * gap.sum(1), batch, {"values/beyond": gap.detach().mean()})


@dataclass(frozen=True)
class ExpectileLoss(_OfRows):
    """Minimises |tau - 1(Q < V)| (Q - V)^2, whose minimum is an expectile of Q over the recorded actions.

    Attributes:
        tau: in (0, 1); 0.5 is the mean, near 1 the largest.
    """

    tau: float = 0.7

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.STATE_VALUE})

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ValueError(f"tau must lie in (0, 1), not {self.tau}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value, best = now.get(Quantity.STATE_VALUE).unbind(1)
        gap = best - value
        term = torch.where(gap < 0, 1 - self.tau, self.tau) * gap.square()
        return _terms(term, batch, {"values/state": value.detach().mean()})


@dataclass(frozen=True)
class AdvantageWeightedLikelihood(_OfRows):
    """Minimises -min(exp(beta (Q - V)), limit) log pi(a) of recorded actions: the better, the likelier.

    Attributes:
        beta: how much better actions count; 0 is behaviour cloning. limit: the largest weight.
    """

    beta: float = 3.0
    limit: float = 100.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.STATE_VALUE, Quantity.LOGP})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value, best = now.get(Quantity.STATE_VALUE).detach().unbind(1)
        weight = (self.beta * (best - value)).exp().clamp(max=self.limit)
        return _terms(-weight * now.logp, batch, {"actor/weight": weight.mean()})


@dataclass(frozen=True)
class DynamicsLoss(_OfRows):
    """Minimises coefficient sum_k -log p_k of what followed and was paid, by each of K models: a learnt world.

    It is a regulariser of any recipe that learns from a store of vectors of actions, with `store.steps` = 1.

    Attributes:
        models: the part of the policy that has them.
    """

    models: PolicyPart
    coefficient: float = 1.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DYNAMICS})

    def __post_init__(self) -> None:
        if not self.coefficient > 0:
            raise ValueError(f"coefficient must be positive, not {self.coefficient}")

    @property
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        return (self.models,)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        loss = now.get(Quantity.DYNAMICS)
        return _terms(self.coefficient * loss.sum(1), batch, {"dynamics/loss": loss.detach().mean()})
