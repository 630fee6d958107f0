"""OREO: offline learning from single traces by path consistency (Wang et al., arXiv:2412.16145).

Value and policy are fitted to an equation that holds on every path of the KL-regularised optimum (`PathConsistency`),
so right and wrong traces serve without being paired; each step fits the value first (`ValueFirstStep`), and its rises
and falls tell which steps were good (`ValueSteps`). `oreo-step` counts lines of a response as steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.agents.search.result import Opinion
from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.segments import segment_count, segment_extreme, segment_sum, suffix_sum
from hocket.credit.gae import GAE
from hocket.methods.agents.oreo.searcher import ConsistentValue
from hocket.methods.base.conventions import COMMON
from hocket.objectives.ratios import recorded
from hocket.recipe import Recipe
from hocket.rewards.spans import SegmentsByText
from hocket.rollout.demonstrations import Preferences
from hocket.stages import Credit, Metrics, Objective, Policy
from hocket.types import Evaluation, LossFunction, Quantity, Terms
from hocket.update.gradient import GradientStep
from hocket.update.partial_losses import _constant, without_value
from hocket.update.problem import Problem


@dataclass(frozen=True)
class ValueSteps(Credit):
    """Advantage `r_t + V_{t+1} - V_t`; target the reward from t on, R_t.

    In offline traces the advantage is the rise or fall of V along a trace, by which OREO (arXiv 2412.16145) finds the
    wrong step; objectives that fit R_t, as `hocket.objectives.PathConsistency`, do not read it. After a trajectory that
    was cut short both count the value of its final state.
    """

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and targets, both `[E]` float64."""
        whole = GAE(gamma=1.0, lam=1.0, whiten=False)(batch)
        return replace(GAE(gamma=1.0, lam=0.0, whiten=False)(batch), target=whole.target)


Step = Literal["decision", "segment", "turn"]
Average = Literal["token-mean", "sequence-mean"]


def steps_of(batch: Batch, step: Step) -> Tensor:
    """The number of each occurrence's step `[E]`, rising: a decision, a segment of a turn, or a turn as one saw it."""
    seen = batch.occurrences
    fresh = torch.ones(len(seen), dtype=torch.bool)
    if step != "decision":
        place = [seen.trajectory, batch.turn[seen.decision]]
        if step == "segment":
            place.append(batch.segment[seen.decision])
        columns = torch.stack(place)
        fresh[1:] = (columns[:, 1:] != columns[:, :-1]).any(0)
    return torch.cumsum(fresh, 0) - 1


@dataclass(frozen=True)
class PathConsistency(Objective):
    """Minimises `(V_t - R_t + beta sg(S_t))^2 + (sg(V_t) - R_t + beta l_t + beta sg(S_{t+1}))^2`: OREO (2412.16145).

    l_t is log pi - log pi_ref summed over step t, `S_t = sum_{i >= t} l_i` to the end of the trajectory, R_t the reward
    from t on (`occurrences.target`), V_t the value before the step, sg a constant. Where rewards less beta KL(pi ||
    pi_ref) are best, `V_t - V_{t+1} = r_t - beta l_t` on every path, and all residuals are 0, whoever went it: so right
    and wrong traces of any origin serve. Decisions that do not count (imposed ones) belong to the environment.

    Attributes:
        beta: what a nat from the reference costs.
        step: what l_t is summed over; V is read at the first counted decision of each.
        value: weight of the first square, the value function's.
        aggregate: mean over steps, or over those of a trajectory and then over trajectories.
    """

    beta: float = 0.03
    step: Step = "decision"
    value: float = 1.0
    aggregate: Average = "sequence-mean"

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP, Quantity.VALUE})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})
    couples: ClassVar[Level] = Level.TRAJECTORY
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.step not in get_args(Step) or self.aggregate not in get_args(Average):
            raise ValueError(
                f"step must be decision, segment or turn and aggregate token-mean or sequence-mean, not {self.step!r} "
                f"and {self.aggregate!r}"
            )
        if self.beta <= 0 or self.value < 0:
            raise ValueError(f"beta must be positive and value at least 0, not {self.beta} and {self.value}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        if seen.target is None:
            raise HocketError("path consistency needs targets, but credit gave none; use hocket.credit.ValueSteps")
        counted = seen.weight != 0
        places = torch.nonzero(counted).flatten()
        # Only steps with a counted decision are numbered.
        _, step = torch.unique(steps_of(batch, self.step)[counted], return_inverse=True)
        size = int(step.max()) + 1 if len(step) else 0
        first = segment_extreme(places, step, size, largest=False)
        owner = seen.trajectory[first]
        decision = seen.decision[places]
        gap = now.logp[decision] - recorded(batch, "reference")[decision].to(dtype)
        own = segment_sum(gap, step, size)
        whole = suffix_sum(own.detach().double(), owner, batch.trajectories).to(dtype)
        value = now.get(Quantity.VALUE)[seen.decision[first]].to(dtype)
        target = seen.target.detach()[first].to(dtype)
        of_value = value - target + self.beta * whole
        of_policy = value.detach() - target + self.beta * (own + (whole - own.detach()))
        weight = self._weights(seen.weight[first], owner, batch.trajectories).to(dtype)
        residual = of_value.detach().double().abs()
        metrics = {"consistency/residual": residual.mean() if size else residual.sum()}
        return Terms(
            torch.cat([of_value.square(), of_policy.square()]),
            torch.cat([self.value * weight, weight]),
            Level.TRAJECTORY,
            metrics,
        )

    def guide(self, policy: Policy, reference: Policy | None) -> Opinion:
        """See `hocket.agents.search.value_search.Guide`."""
        assert reference is not None  # It reads one, so the learner keeps one.
        return ConsistentValue(policy, reference, self.beta)

    def _weights(self, weight: Tensor, owner: Tensor, trajectories: int) -> Tensor:
        """Of each step, its share of the mean included; float64."""
        steps = segment_count(owner, trajectories)
        if self.aggregate == "token-mean":
            return weight.double() / max(1, len(owner))
        return weight.double() / ((steps > 0).sum().clamp(min=1) * steps.clamp(min=1)[owner])


def values_alone(problem: Problem) -> LossFunction:
    """The problem's terms with everything but values constant."""

    def terms(now: Evaluation, batch: Batch) -> list[Terms]:
        constant = Evaluation(now.logp.detach(), _constant(now.entropy), now.value, _constant(now.kl_exact))
        return problem.loss_terms(constant, batch)

    return terms


@dataclass(frozen=True)
class ValueFirstStep(GradientStep):
    """`fits` updates in which only values move the loss, then one in which they are constants.

    Each is `epochs` passes in `minibatches` parts. OREO (arXiv 2412.16145) fits V first, so that the policy is measured
    against values that know the batch already. Where a value head shares weights with the policy, the fit moves these.
    """

    fits: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fits < 1:
            raise ValueError(f"fits must be at least 1, not {self.fits}")

    def step(self, problem: Problem, key: Key) -> Metrics:
        fitting = replace(problem, loss_terms=values_alone(problem))
        for number in range(self.fits):
            fitted = super().step(fitting, key.derive("value", number))
        acting = replace(problem, loss_terms=without_value(problem))
        found = super().step(acting, key)
        problem.first = fitting.first
        return {**found, "value/loss": fitted["loss"]}


OREO = Recipe(
    name="oreo",
    title="Offline Reasoning Optimisation: path-consistency learning",
    source="Wang et al., arXiv:2412.16145",
    family="offline",
    catalogue_ids=("oreo",),
    axes=("objective", "credit", "search"),
    formula="L_V = mean_t (V_t - R_t + beta sg(S_t))^2,  L_pi = mean_t (sg(V_t) - R_t + beta l_t + beta sg(S_{t+1}))^2 "
    "+ alpha KL(pi || ref),  l_t = log pi(a_t|s_t)/ref(a_t|s_t),  S_t = sum_{i>=t} l_i",
    conventions={
        **COMMON,
        "data": "each scenario's chosen and rejected response, worth 1 and 0, though nothing pairs them in the loss; "
        "with rollout = hocket.rollout.Demonstrations the task's demonstrations, right or wrong as its verifier finds "
        "them, and with Independent the policy's own samples, for further rounds",
        "reference": "the policy before training",
        "order": "a step on V, then one on the policy against the new V. Where V lags behind a fast policy "
        "(large beta, equal learning rates) both run away; more of update.fits, or a smaller rate, keeps them",
        "aggregation": "mean over a trace's steps, then over traces",
        "alpha": "0, so that the optimum is the soft one; regularisers = hocket.objectives.ExactKL(coefficient: 0.01, "
        "aggregate: sequence-mean) adds the authors' term over all tokens, which pulls it towards the reference",
        "beta": "0.03, chosen here",
        "steps": "tokens; oreo-step has lines, objective.step = turn has turns",
        "step credit": "advantages are the rises and falls of V; the loss does not read them",
        "value head": "on the policy's own network; the paper's is a network of its own",
        "at inference": "hocket eval RUN --search beam --workflow stepwise: V chooses among lines",
    },
    note="it beats rejection-sampling SFT where right answers are often luck, not where luck is rare; alpha is 0 "
    "unless set; V shares the policy's network",
    task="graded-sums",
    rollout=Preferences(),
    credit=ValueSteps(),
    objective=PathConsistency(beta=0.03),
    update=ValueFirstStep(),
)


OREO_STEP = OREO.but(
    name="oreo-step",
    title="Offline Reasoning Optimisation, a line of reasoning at a time",
    formula=OREO.formula + ", t over lines, l_t summed over the tokens of one",
    conventions={**OREO.conventions, "steps": "lines of a response"},
    shaping=(SegmentsByText(separator="\n"),),
    **{"objective.step": "segment"},
)
