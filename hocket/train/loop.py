"""One training step, from the selection of scenarios to updated weights. Read this file to understand the library.

Curriculum -> [ Rollout <-> Reward ] -> Annotate -> Credit -> Objective -> Update -> weights
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.agents.workflows.cast import recast
from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult, usable
from hocket.core.packing import pack
from hocket.core.statistics import measure_batch
from hocket.rewards.judging import counting
from hocket.rewards.score import grade
from hocket.rollout.remembering import RememberingRollout
from hocket.stages import Metrics, Player
from hocket.train.annotate import annotated, with_credit
from hocket.train.describe import described
from hocket.train.run_parts import RunParts
from hocket.train.scenario_draws import ScenarioDraws
from hocket.train.step_memory import outcomes, remember
from hocket.train.step_messages import first_step_messages, messages
from hocket.train.step_metrics import credit_metrics, engine_metrics, sampling_metrics
from hocket.train.store_step import learn_stored
from hocket.types import Assignment, Experience, Trajectory


async def train_step(parts: RunContext, step: int) -> StepResult:
    """Step `step` (counted from 1): collects experience, computes credit and updates the weights of every learner."""
    key = parts.key.derive("step", step)
    started = time.perf_counter()
    engine_counts: Callable[[], dict[str, int]] = getattr(parts.player, "counts", dict)

    await parts.hooks.before(parts, step)
    counts_before = engine_counts()
    experience, problems = await collect(parts, key, step)
    result = learn_from(parts, step, experience, problems, rollout=time.perf_counter() - started)
    result.metrics |= engine_metrics(counts_before, engine_counts())
    await parts.hooks.after(parts, step, result)
    parts.ledger.note(step, outcomes(parts, experience))
    remember(parts, experience)
    result.metrics["time/step"] = time.perf_counter() - started
    return result


# ---------------------------------------------------------------- curriculum, rollout, reward


async def collect(parts: RunContext, key: Key, step: int = 1, group: int | None = None) -> tuple[Experience, list[str]]:
    """Draws the scenarios of `step`, samples and scores them; returns the experience and the problems with rewards.

    With `group` it collects that group alone, see `ScenarioDraws`.
    """
    recipe = parts.lead.recipe
    problems: list[str] = []
    for learner in parts.learners.values():
        learner.begin_activation_cache()

    async def score(trajectories: Sequence[Trajectory]) -> None:
        problems.extend(await grade(trajectories, parts.rewards, key=key.derive("score"), journal=parts.journal))

    draws = ScenarioDraws(parts, step, group)
    player = parts.hooks.seat(recast(parts.player, recipe.cast, step), parts, step)
    with counting() as judging:
        assignments = draws.first()
        arguments: dict[str, Any] = {
            "play": Playing(player, key.derive("play")),
            "score": score,
            "ledger": parts.ledger,
            "key": key.derive("rollout") if group is None else key.derive("rollout", group),
            "more": draws.more,
        }
        rollout = recipe.rollout.at(step)
        if isinstance(rollout, RememberingRollout):
            experience, memory = await rollout.collect_with(parts.lead.memory["rollout"], assignments, **arguments)
            parts.lead.memory = {**parts.lead.memory, "rollout": memory}
        else:
            experience = await rollout.collect(assignments, **arguments)
    without_density = {
        name for name, learner in parts.learners.items() if not getattr(learner.policy, "densities", True)
    }
    if without_density:
        for turn in (turn for trajectory in experience.trajectories for turn in trajectory.turns):
            turn.logp = None if turn.policy in without_density else turn.logp
    if parts.judge is not None:
        experience = replace(experience, metrics={**experience.metrics, **judging.metrics()})
    return experience, [*problems, *judging.problems]


@dataclass(frozen=True)
class Playing:
    """The `play` function of a rollout: a player with the step's key."""

    player: Player
    key: Key

    @property
    def tokenizer(self) -> object:
        return self.player

    async def __call__(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
        return await self.player.play(assignments, key=self.key)


# ---------------------------------------------------------------- annotate, credit, objective, update


def _rest(player: Player) -> None:
    """Has engines that share a device with the learner free it, where they are set to."""
    for actor in getattr(player, "actors", {}).values():
        rest = getattr(actor.engine, "rest", None)
        if rest is not None:
            rest()


def learn_from(
    parts: RunContext, step: int, experience: Experience, problems: Sequence[str], *, rollout: float
) -> StepResult:
    """Updates the learners from the experience of `step`, whose rollout took `rollout` seconds. Skips the ledger."""
    key = parts.key.derive("step", step)
    started = time.perf_counter()
    _rest(parts.player)
    learnable = [trajectory for trajectory in experience.trajectories if usable(trajectory)]
    unusable = [trajectory for trajectory in experience.trajectories if not usable(trajectory)]
    metrics = {**sampling_metrics(experience, parts.weights), **experience.metrics}
    with counting() as judging:
        batch, update_metrics = learn(parts, learnable, key, step)
    metrics |= update_metrics
    if parts.judge is not None:
        metrics |= {name: metrics.get(name, 0.0) + value for name, value in judging.metrics().items()}
    metrics |= {"time/rollout": rollout, "time/update": time.perf_counter() - started}
    metrics["throughput/tokens"] = metrics["tokens/generated"] / max(rollout, 1e-9)
    sentences = [*problems, *judging.problems]
    sentences += messages(experience, parts.learners, parts.weights, overlap=parts.overlap)
    sentences += first_step_messages(experience, parts.learners, parts.player) if step == 1 else ()
    return StepResult(metrics, learnable, batch, experience.discarded + unusable, sentences, experience)


def learn(
    parts: RunContext, trajectories: Sequence[Trajectory], key: Key, step: int, *, everyone: bool = False
) -> tuple[Batch | None, Metrics]:
    """Annotates, computes credit and updates every learner; returns the batch with credit, and the metrics.

    Each learner's recipe computes credit over the joint experience, and each learner learns from its own decisions.
    Learners that a hook withholds are skipped, unless `everyone` is set.
    """
    store = parts.lead.recipe.store
    if not trajectories and store is None:
        return None, {}
    trained = [name for name, learner in parts.learners.items() if not learner.frozen]
    learning = parts.lead.recipe.cast.learning(trained, step)
    learning -= frozenset() if everyone else parts.hooks.withheld(parts)

    if store is not None:
        fresh = annotated_batch(parts, trajectories, frozenset(), frozenset()) if trajectories else None
        return learn_stored(parts, store, fresh, learning, key, step)
    reads: frozenset[Column] = frozenset().union(*(learner.recipe.reads for learner in parts.learners.values()))
    batch = annotated_batch(parts, trajectories, reads, learning)
    begun = begin_elsewhere(parts, batch, learning, key, step)
    moving = [column for column in reads if isinstance(column, Annotator) and column.moving]
    order = list(parts.learners)
    if moving:
        order = [order[place] for place in key.derive("order").numpy().permutation(len(order)).tolist()]

    metrics: Metrics = {}
    credited = batch
    for name in order:
        learner = parts.learners[name]
        assessed = begun[name] if name in begun else learner.compute_credit(batch, parts.weights, step)
        update_metrics: Metrics = {}
        if name in learning:
            update_metrics = learner.learn(assessed, key.derive("update", name), step)  # Objective and update.
            assessed = learner.completed(assessed)
            batch = annotated(batch, moving, learner.policy)
        learner_metrics = credit_metrics(learner, assessed) | update_metrics
        learner.end_activation_cache()
        prefix = f"{name}/" if len(parts.learners) > 1 else ""
        metrics |= {prefix + metric: value for metric, value in learner_metrics.items()}
        credited = with_credit(credited, assessed, name)
    return credited, metrics


def annotated_batch(
    parts: RunContext, trajectories: Sequence[Trajectory], reads: frozenset[Column], learning: frozenset[str]
) -> Batch:
    """The trajectories as a batch with the columns that the recipes read, and with measured statistics."""
    batch = pack(trajectories)
    recorded = batch.logp["behaviour"]
    if not recorded.complete:
        batch = batch.but(logp={**batch.logp, "sampled": recorded})
    info = described(trajectories, task=parts.task, player=parts.player, ledger=parts.ledger, reads=reads)
    batch = batch.but(info=info | dict(batch.info))
    for name, learner in parts.learners.items():
        batch = learner.annotate(batch, later=name in learning and Column.BEHAVIOUR not in reads)
    measure_batch(parts.lead.recipe.statistics, batch, trajectories)
    if parts.embedder is not None:
        batch = parts.embedder.fill(batch, trajectories, [learner.policy for learner in parts.learners.values()])
    return batch


def begin_elsewhere(
    parts: RunContext, batch: Batch, learning: frozenset[str], key: Key, step: int
) -> Mapping[str, Batch]:
    """Starts the updates that other processes make at the same time; returns the batch with credit of each learner."""
    members = parts.learners.items()
    remote = {name: learner for name, learner in members if name in learning and learner.elsewhere is not None}
    credited = {name: learner.compute_credit(batch, parts.weights, step) for name, learner in remote.items()}
    for name, learner in remote.items():
        learner.begin(credited[name], key.derive("update", name), step)
    return credited


# ---------------------------------------------------------------- updates that hooks request


class RunContext(RunParts):
    """The parts of a run, with the update of a single policy that a hook may request."""

    def learn(
        self, result: StepResult, trajectories: Sequence[Trajectory], policy: str, *, step: int, key: Key
    ) -> None:
        learner = self.learners[policy]
        agreement = learner.agreement
        batch, metrics = learn(replace(self, learners={policy: learner}), trajectories, key, step, everyone=True)
        learner.agreement = agreement  # Samples of older weights disagree by design, so they are not compared.
        prefix = f"{policy}/" if len(self.learners) > 1 else ""
        result.metrics |= {prefix + name: value for name, value in metrics.items()}
        if result.batch is not None and batch is not None:
            result.batch = with_credit(result.batch, batch, policy)
