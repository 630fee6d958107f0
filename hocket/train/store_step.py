"""A step that learns from a store: fresh decisions are kept, and what is drawn is learnt from like fresh ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import PLACE
from hocket.rollout.offline import Offline
from hocket.rollout.store import Columns, Store
from hocket.stages import Metrics, State, Task
from hocket.train.annotate import annotated, with_credit
from hocket.train.kinds import kind_of
from hocket.train.learner import Learner, Observes
from hocket.train.run_parts import RunParts
from hocket.train.settings import Config
from hocket.train.step_metrics import credit_metrics
from hocket.types import Evaluation, Quantity


@runtime_checkable
class Controls(Protocol):
    """A policy over vectors of observations: `hocket.policies.control.ControlPolicy`."""

    observations: int
    actions: int
    discrete: bool


def check_store(config: Config, task: Task) -> None:
    """Refuses runs in which a store does not work.

    Raises:
        ConfigurationError: naming the setting.
    """
    recipe = next((recipe for recipe, _ in config.phases if recipe.store is not None), None)
    if recipe is None:
        return
    if kind_of(task, config).textual:
        raise ConfigurationError(
            f"{recipe.name} learns from a store of transitions, which keeps no text; choose a task of control such as "
            "gym:CartPole-v1, or a recipe such as repo-replay"
        )
    processes = {"overlap": config.behind, "samplers": config.samplers, "learners": config.learners - 1}
    for name, value in processes.items():
        if value:
            raise ConfigurationError(
                f"{name} = {getattr(config, name)}: {recipe.name} learns from a store, which one process alone holds; "
                "drop it"
            )
    if config.network.remembers and getattr(recipe.store, "length", 1) == 1:
        raise ConfigurationError(
            f"network.body = {config.network.body} remembers what was seen before, and {recipe.name} draws single rows "
            "from its store; set store.length to draw sequences, or use perceptron"
        )


def begin_store(parts: RunParts) -> None:
    """Makes the memory of the recipe's store, unless there is one or the recipe has none.

    Raises:
        ConfigurationError: for data that are missing, wrong or of another task.
    """
    recipe = parts.lead.recipe
    if recipe.store is None or parts.store is not None:
        return
    parts.store = recipe.store.init()
    _check_rows(parts)
    if isinstance(recipe.rollout, Offline) and not recipe.store.gradients(parts.store, 1):
        raise ConfigurationError(
            f"{recipe.name} samples nothing, and its store holds too little to learn from; set store.data to a file of "
            "hocket record"
        )


def learn_stored(
    parts: RunParts, store: Store, fresh: Batch | None, learning: frozenset[str], key: Key, step: int
) -> tuple[Batch | None, Metrics]:
    """Adds fresh decisions to the store, then lets every learner learn from what it draws.

    Returns the fresh batch with its rewards, and the metrics. Sampler and learner are compared before the update.
    """
    begin_store(parts)
    assert parts.store is not None
    metrics: dict[str, Metrics] = {name: {} for name in parts.learners}
    credited, decisions = fresh, 0
    if fresh is not None:
        rewarded = parts.lead.compute_credit(fresh, parts.weights, step)
        parts.store = store.add(parts.store, rewarded)
        for name, learner in parts.learners.items():
            metrics[name] |= credit_metrics(learner, rewarded) | learner.compare(fresh)
            if isinstance(learner.policy, Observes):
                learner.policy.observe(fresh)
            credited = with_credit(credited or fresh, rewarded, name)
        decisions = int((rewarded.occurrences.weight != 0).sum()) // max(len(rewarded.names["policy"]), 1)
    gradients = store.gradients(parts.store, decisions)
    members = [learner for name, learner in parts.learners.items() if name in learning]
    reports: dict[str, list[Metrics]] = {name: [] for name in parts.learners}
    for number, share in enumerate(_shares(gradients, store.draws)):
        drawn_key = key.derive("draw", number)
        batch = store.draw(parts.store, share * store.rows, drawn_key)
        _learn_draw(parts, store, batch, members, (drawn_key, step, share), reports)
    for name, rows in reports.items():
        metrics[name] |= {**_means(rows), "update/gradients": float(gradients)} if rows else {}
    several = len(metrics) > 1
    return credited, {
        (f"{name}/" if several else "") + metric: value
        for name, row in metrics.items()
        for metric, value in row.items()
    }


def _check_rows(parts: RunParts) -> None:
    """Refuses recorded rows of another task."""
    for name, columns in _recorded(parts.store or {}):
        policy = parts.learners[name].policy if name in parts.learners else None
        if not isinstance(policy, Controls):
            raise ConfigurationError(f"store.data: policy {name!r} of the data is no controller of this run; drop it")
        observations, action = columns["observed"].shape[1:], columns["action"]
        wanted = f"{policy.observations} numbers and {policy.actions} {'choices' if policy.discrete else 'dimensions'}"
        fits = (
            (action.ndim == 1 and action.dtype.kind in "iu")
            if policy.discrete
            else action.shape[1:] == (policy.actions,)
        )
        if policy.discrete and fits:
            fits = action.min(initial=0) >= 0 and action.max(initial=0) < policy.actions
        if observations != (policy.observations,) or not fits:
            raise ConfigurationError(
                f"store.data: rows observe {list(observations)} numbers and act by {action.dtype.name} "
                f"{list(action.shape[1:])}, and task {parts.task.name} has {wanted}; take data of the same task"
            )


def _recorded(memory: State) -> Iterable[tuple[str, Columns]]:
    """The rows of every policy in a store's memory; of a team those of every agent, with its policy."""
    for name, ring in memory.get("rings", {}).items():
        columns = ring["columns"]
        if "agents" not in memory:
            yield name, columns
        for number, (_, policy) in enumerate(memory.get("agents", ())):
            yield policy, {column: columns[f"{number}/{column}"] for column in ("observed", "action")}


def _learn_draw(
    parts: RunParts,
    store: Store,
    batch: Batch,
    members: Sequence[Learner],
    place: tuple[Key, int, int],
    reports: dict[str, list[Metrics]],
) -> None:
    """Every learner's update from one draw, and what the store is to remember of it."""
    key, step, minibatches = place
    errors: dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]] = {}
    moving: list[Annotator] = []
    for learner in members:
        batch = learner.annotate(batch, later=True)
        moving += [column for column in learner.recipe.reads if isinstance(column, Annotator) and column.moving]
    if moving:
        members = [members[place] for place in key.derive("order").numpy().permutation(len(members)).tolist()]
    for learner in members:
        name = learner.policy.name
        watched = _Errors()
        assessed = learner.credit_drawn(batch, step)
        watch = watched if store.reads_errors else None
        reports[name].append(learner.learn_drawn(assessed, key.derive("update", name), step, minibatches, watch))
        batch = annotated(batch, moving, learner.policy)
        if watched.places:
            errors[name] = np.concatenate(watched.places), np.concatenate(watched.errors)
    assert parts.store is not None
    parts.store = store.learnt(parts.store, errors)


class _Errors:
    """The places of rows and the errors of their action values, mini-batch by mini-batch."""

    def __init__(self) -> None:
        self.places: list[NDArray[np.int64]] = []
        self.errors: list[NDArray[np.float32]] = []

    def __call__(self, batch: Batch, evaluation: Evaluation) -> None:
        rows = batch.occurrences.decision
        error = evaluation.get(Quantity.ACTION_VALUE)[rows].detach().mean(1) - evaluation.get(Quantity.BACKUP)[rows]
        self.places.append(PLACE.read(batch, "the store")[rows].numpy())
        self.errors.append(error.numpy())


def _shares(gradients: int, draws: int) -> Iterable[int]:
    """The gradients of each draw; draws without any are left out."""
    draws = min(draws, gradients)
    return (share for n in range(draws) if (share := (gradients * (n + 1)) // draws - (gradients * n) // draws))


def _means(rows: Sequence[Metrics]) -> Metrics:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}
