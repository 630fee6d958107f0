"""A learner: one trained policy with its recipe, optimiser and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluate_detached, evaluation, policy_decisions
from hocket.core.keys import Key
from hocket.distributed.cluster.leaves import LeafProblem, Ranks, SingleProcess
from hocket.distributed.cluster.sharded_problem import MomentsQuestion, ShardedProblem, whole_state
from hocket.distributed.cluster.shards import Meeting
from hocket.distributed.cluster.weights import PackedWeights, packed, put, taken
from hocket.policies.family import Checkpointing
from hocket.recipe import Recipe
from hocket.recipes import parent_of
from hocket.stages import Metrics, Policy, State
from hocket.train.agreement import Agreement, agreement
from hocket.train.annotate import annotate, with_behaviour
from hocket.train.idle import idle_stages
from hocket.train.oom_retry import MemoryRetry
from hocket.train.optimisers import fitted
from hocket.train.reference_cache import ReferenceCache
from hocket.train.settings import OptimiserSettings
from hocket.train.tower_rate import moving, with_tower_rate
from hocket.types import Evaluation, Quantity
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem

SATURATED = "ratio/saturated"
"""A metric that losses report as a count per mini-batch, and metrics rows as a share."""

AGREEMENT_SAMPLE = 2048
"""How many decisions are compared if the update evaluates none."""


Watch = Callable[[Batch, Evaluation], None]
"""Receives every mini-batch with its evaluation."""


@runtime_checkable
class Observes(Protocol):
    """A policy with statistics of its training data, such as running normalisation."""

    def observe(self, batch: Batch) -> None: ...


@runtime_checkable
class CachesActivations(Protocol):
    """A policy whose sampler can cache activations that the learner would recompute."""

    def begin_activation_cache(self) -> None: ...

    def end_activation_cache(self) -> None: ...


@runtime_checkable
class CountsCosts(Protocol):
    """A reference whose answers cost something."""

    def costs(self) -> Metrics:
        """What they have cost since the last call."""
        ...


class UpdateGroup(Protocol):
    """Processes that make the same updates, led by this process."""

    def updating(self, learner: Learner, batch: Batch, key: Key, step: int) -> AbstractContextManager[None]:
        """A context in which this process and the others make the same update; all have the same weights after it."""
        ...


class UpdateResult(NamedTuple):
    """The result of an update, to be adopted by the process that holds the policy's weights and memory.

    Attributes:
        metrics: those of the update. weights: the trainable weights. update: the update's memory, None if it has none.
        first: decisions `[K]` and log-probs `[T]` of its first evaluation. agreement: of sampler and learner then.
        shrunk: the reduced budgets, see `MemoryRetry.taken`.
    """

    metrics: Metrics
    weights: PackedWeights
    update: State | None
    first: tuple[Tensor, Tensor] | None
    agreement: Agreement | None
    shrunk: tuple[int, Checkpointing] | None


class Elsewhere(Protocol):
    """Other processes that train a policy; this process receives the weights after every update."""

    def begin(self, learner: Learner, batch: Batch, key: Key, step: int) -> None:
        """Starts an update without waiting for it."""
        ...

    def result(self, learner: Learner) -> UpdateResult:
        """The result of the earliest update in progress."""
        ...

    def moments(self, learner: Learner) -> State:
        """The state of the optimiser in those processes."""
        ...


class Learner:
    """Trains one policy on its own decisions in the experience.

    Attributes:
        policy: the trained policy. recipe: its method. reference: the policy that KL is computed against, if the recipe
            needs one.
        memory: the memory of the recipe's stages. idle: the stages without effect in the latest step.
        reference_cache: log-probs of recorded answers under the reference.
        retry: repeats a computation in smaller parts when memory runs out.
        leaves: into how many parts a gradient is split, see `hocket.distributed.cluster.leaves`. ranks: the processes
            that share them; group: leads these processes. meeting: their communication, if the weights are sharded.
        elsewhere: the processes that train the policy, if this process does not.
    """

    def __init__(
        self,
        policy: Policy,
        recipe: Recipe,
        *,
        total_steps: int,
        frozen: bool = False,
        leaves: int = 1,
        optimiser: OptimiserSettings | None = None,
        key: Key | None = None,
    ) -> None:
        """`optimiser` replaces the recipe's unless it is AdamW in fp32; its rounding draws from `key`."""
        self.policy = policy
        self.recipe = recipe
        install_parts(policy, recipe)
        policy.require(self.needs)
        self.total_steps = total_steps
        self.frozen = frozen
        self.leaves = leaves
        self.ranks: Ranks = SingleProcess()
        self.group: UpdateGroup | None = None
        self.meeting: Meeting | None = None
        self.elsewhere: Elsewhere | None = None
        self._begun = False
        self.memory: State = recipe.init()
        # A frozen policy is its own reference.
        copied = policy if frozen or not recipe.wants_reference else policy.frozen_copy()
        self.reference: Policy | None = copied if recipe.wants_reference else None
        self.reference_cache = ReferenceCache()
        made = with_tower_rate(recipe.update.optimiser(policy), policy)
        self.optimiser = made if frozen else fitted(made, policy, optimiser or OptimiserSettings(), key or Key.of(0))
        self.agreement: Agreement | None = None
        self.idle: list[str] = []
        self._first: tuple[Tensor, Evaluation] | None = None
        self._parent = parent_of(recipe)
        networks = {id(network): network for network in (policy, self.reference) if network is not None}
        self.retry = MemoryRetry(networks.values())

    @property
    def needs(self) -> frozenset[Quantity]:
        """The quantities that the recipe needs from the policy, including values."""
        return self.recipe.needs | ({Quantity.VALUE} if self.recipe.wants_value else frozenset())

    def begin_activation_cache(self) -> None:
        """Starts caching the sampler's activations for this learner, if the policy can."""
        if not self.frozen and self.elsewhere is None and isinstance(self.policy, CachesActivations):
            self.policy.begin_activation_cache()

    def end_activation_cache(self) -> None:
        """Drops the cached activations."""
        if isinstance(self.policy, CachesActivations):
            self.policy.end_activation_cache()

    def annotate(self, batch: Batch, *, later: bool = False) -> Batch:
        """Fills the columns that this learner's recipe reads, for its own decisions.

        The values of a frozen policy stay unknown, because nothing trains them: to the others its turns are part of
        the environment. With `later`, behaviour log-probs of text that no policy sampled may be left out, if no stage
        reads them and the learner learns from the batch. The first evaluation of `learn` then fills them, see
        `completed`.
        """
        reads = self.recipe.reads - {Column.VALUE} if self.frozen else self.recipe.reads
        later = later and (self._evaluates_all or self.recipe.store is not None)
        return self.retry(
            lambda: annotate(batch, reads, self.policy, self.reference, self.reference_cache, later=later)
        )

    @property
    def _evaluates_all(self) -> bool:
        """Whether an update first evaluates all decisions of nonzero weight, at its initial weights."""
        update = self.recipe.update
        idle = all(loss.idle_without_advantage for loss in self.recipe.losses)
        return type(update) is GradientStep and update.minibatches == 1 and not idle

    def compute_credit(self, batch: Batch, weights: Mapping[str, float], step: int) -> Batch:
        """Computes credit over the joint experience of `step` by this learner's recipe."""
        batch = batch.but(step=step, progress=min(1.0, (step - 1) / max(1, self.total_steps - 1)))
        memory = dict(self.memory)
        with torch.no_grad():
            steps = list(self.recipe.credit_steps(batch, memory, weights))
            self.idle = idle_stages(self.recipe, self._parent, steps)
        self.memory = memory
        return steps[-1][1]

    def begin(self, batch: Batch, key: Key, step: int) -> None:
        """Starts in other processes the update that `learn` finishes with the same batch."""
        assert self.elsewhere is not None
        self.elsewhere.begin(self, batch.of_policy(self.policy.name), key, step)
        self._begun = True

    def credit_drawn(self, batch: Batch, step: int) -> Batch:
        """Computes credit over rows that a store has drawn."""
        batch = batch.but(step=step, progress=min(1.0, (step - 1) / max(1, self.total_steps - 1)))
        memory = dict(self.memory)
        with torch.no_grad():
            for _, after in self.recipe.drawn_credit_steps(batch, memory):
                batch = after
        self.memory = memory
        return batch

    def learn_drawn(self, batch: Batch, key: Key, step: int, minibatches: int, watch: Watch | None = None) -> Metrics:
        """An update by a gradient for each of `minibatches` parts of rows with credit."""
        problem = self._problem(batch.of_policy(self.policy.name), self.recipe.update.lr_factor(step, self.total_steps))
        problem.dealt, problem.watch = minibatches, watch
        metrics = moving(self.policy, lambda: self.recipe.update.step(problem, key))
        if "update" in self.memory:
            self.memory = {**self.memory, "update": problem.memory}
        self.policy.version += 1
        return metrics

    def compare(self, batch: Batch) -> Metrics:
        """The agreement of sampler and learner on fresh decisions, at the present weights."""
        mine = batch.of_policy(self.policy.name)
        return self._agree(self._problem(mine, 1.0), mine)

    def learn(self, batch: Batch, key: Key, step: int) -> Metrics:
        """One update from the decisions of this policy in a batch with credit; see `completed` for missing columns."""
        mine = batch.of_policy(self.policy.name)
        if self.elsewhere is not None:
            if not self._begun:
                self.begin(batch, key, step)
            self._begun = False
            return self._adopt(mine, self.elsewhere.result(self))
        problem = self._problem(mine, self.recipe.update.lr_factor(step, self.total_steps))
        agreed: Metrics | None = None
        if len(problem.live(mine)):
            if not isinstance(self.recipe.update, GradientStep):
                agreed = self._agree(problem, mine)  # Such a step may change weights before its first gradient.
            with nullcontext() if self.group is None else self.group.updating(self, mine, key, step):
                metrics = moving(self.policy, lambda: self.recipe.update.step(problem, key))
            if "update" in self.memory:
                self.memory = {**self.memory, "update": problem.memory}
        else:
            metrics = {"loss": math.nan}  # No signal in this step, so nothing changes.
        if SATURATED in metrics:
            metrics[SATURATED] = self._share(metrics[SATURATED], mine)
        self._first = problem.first
        metrics |= self._agree(problem, self.completed(mine)) if agreed is None else agreed
        routes = getattr(self.policy, "routes", None)
        metrics |= {} if routes is None else routes.metrics()
        metrics |= self.reference.costs() if isinstance(self.reference, CountsCosts) else {}
        if isinstance(self.policy, Observes):
            self.policy.observe(mine)  # After the update, which uses the statistics that the batch was sampled with.
        self.policy.version += 1
        return metrics

    def _share(self, count: float, batch: Batch) -> float:
        """A mean count of decisions per mini-batch as a share of the decisions with signal, at most 1."""
        occurrences = batch.occurrences
        active = int(((occurrences.weight != 0) & (occurrences.advantage != 0)).sum())
        return min(1.0, count * int(getattr(self.recipe.update, "minibatches", 1)) / max(1, active))

    def update_result(self, metrics: Metrics) -> UpdateResult:
        """The result of the latest `learn`, which returned these metrics."""
        first = None if self._first is None else (self._first[0], self._first[1].logp.detach())
        weights = packed(taken(self.policy, whole=False))
        return UpdateResult(metrics, weights, self.memory.get("update"), first, self.agreement, self.retry.taken())

    def _adopt(self, mine: Batch, result: UpdateResult) -> Metrics:
        """Copies the result of an update from the process that made it."""
        if isinstance(self.policy, Observes):
            self.policy.observe(mine)  # Drops caches of older weights; the statistics themselves come with the weights.
        put(self.policy.module, result.weights)
        if result.update is not None:
            self.memory = {**self.memory, "update": result.update}
        self._first = None
        if result.first is not None:
            decisions, logp = result.first
            self._first = decisions, evaluation({Quantity.LOGP: logp})
        self.agreement = result.agreement
        if result.shrunk is not None:
            self.retry.budget, self.retry.checkpointing = result.shrunk
        self.policy.version += 1
        return result.metrics

    def completed(self, batch: Batch) -> Batch:
        """The batch of the latest `learn`, with the behaviour log-probs that `annotate` left out."""
        if self._first is None or not getattr(self.policy, "decides", True):
            return batch
        return with_behaviour(batch, self._first[1].logp, self._first[0])

    def measured(self, batch: Batch, weights: Mapping[str, float]) -> tuple[Batch, Metrics]:
        """Other experience with its credit, and the metrics of its loss; changes no memory."""
        with torch.no_grad():
            annotated = self.annotate(batch, later=Column.BEHAVIOUR not in self.recipe.reads)
            credited, _ = self.recipe.compute_credit(annotated, self.memory, weights)
        mine = credited.of_policy(self.policy.name)
        return mine, self._problem(mine, 1.0).measured()

    def _problem(self, batch: Batch, lr_factor: float) -> LeafProblem:
        problem = LeafProblem if self.meeting is None else partial(ShardedProblem, meeting=self.meeting)
        return problem(
            batch=batch,
            policy=self.policy,
            optimiser=self.optimiser,
            loss_terms=self.recipe.loss,
            needs=self.recipe.needs,
            couples=self.recipe.couples,
            idle_without_advantage=all(loss.idle_without_advantage for loss in self.recipe.losses),
            reference=self.reference,
            lr_factor=lr_factor,
            memory=self.memory.get("update", {}),
            retry=self.retry,
            leaves=self.leaves,
            ranks=self.ranks,
        )

    def _agree(self, problem: Problem, batch: Batch) -> Metrics:
        """Agreement of sampler and learner before the first change of the weights."""
        if not getattr(self.policy, "decides", True):
            return {}
        if problem.first is not None and len(problem.first[0]):
            decisions, current = problem.first
        else:
            decisions = policy_decisions(batch, self.policy.name)[:AGREEMENT_SAMPLE]
            current = self.retry(lambda: evaluate_detached(self.policy, batch, {Quantity.LOGP}, decisions))
        self.agreement = agreement(batch, current.logp, decisions, self.policy.version)
        return {} if self.agreement is None else self.agreement.metrics()

    def state(self) -> State:
        """Everything except the policy's weights and the reference."""
        return {
            "optimiser": self._optimiser_state(),
            "memory": self.memory,
            "version": self.policy.version,
            "referred": self.reference_cache.state(),
        }

    def _optimiser_state(self) -> State:
        if self.elsewhere is not None:
            return self.elsewhere.moments(self)
        if self.meeting is None:
            return self.optimiser.state_dict()
        return whole_state(self.optimiser, self.meeting, self.meeting.asked(MomentsQuestion(self.policy.name)))

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        self.optimiser.load_state_dict(state["optimiser"])
        self.memory = state["memory"]
        self.policy.version = int(state["version"])
        if "referred" in state:  # Checkpoints of earlier versions have none.
            self.reference_cache.restore(state["referred"])


def install_parts(policy: Policy, recipe: Recipe) -> None:
    """Installs the parts that a recipe's stages need into a policy.

    Raises:
        ConfigurationError: when the policy cannot have a part.
    """
    for part in recipe.policy_parts:
        if not part.fits(policy):
            raise ConfigurationError(
                f"recipe {recipe.name} needs {part.needed}: such parts are those of {part.holders}, and "
                f"{type(policy).__name__} is none; {part.advice}"
            )
        part.install(policy)
