"""A recipe: a frozen composition of stages that reads like its paper's method section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.casting import Cast, Shared
from hocket.core.columns import Column
from hocket.core.components import misplaced, replaced_all
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.joint import apart, together
from hocket.core.policy_parts import PolicyPart
from hocket.core.requirements import Requirement, Shift
from hocket.core.rooms import public
from hocket.core.statistics import SampleStatistic
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.rewards.combine import WeightedSum
from hocket.rewards.remembering import RememberingReward
from hocket.rollout.independent import Independent
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.store import Store
from hocket.stages import (
    Combine,
    Correction,
    Credit,
    Curriculum,
    Hook,
    Objective,
    Reward,
    Rollout,
    Shaping,
    Stage,
    State,
    Stateful,
    coarsest,
    walk,
)
from hocket.types import COMPARED, Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep
from hocket.update.problem import Update


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One method: its stages in call order, and its source.

    Empty `rewards` mean the task's verifiers. `workflow` and `task` are names, the defaults for runs that name none.
    `cast` says which policy plays each role and when it learns. `hooks` act around every step. `requires` lists
    properties of the experience without which the method reduces to another one, `survives` changes of the world
    that what it learns is meant to stand without more training. `conventions` names each choice that
    the paper leaves open, and the choice made. `but` derives variants; it takes dotted paths.

    Raises:
        ConfigurationError: at construction, when stages do not fit together.
    """

    name: str
    title: str = ""
    source: str = ""
    family: str = ""
    catalogue_ids: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    parent: str | None = None
    formula: str = ""
    conventions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    task: str | None = None
    requires: tuple[Requirement, ...] = ()
    survives: tuple[Shift, ...] = ()

    workflow: str | None = None
    cast: Cast = Shared()
    curriculum: Curriculum = Shuffled()
    rollout: Rollout = Independent()
    rewards: tuple[Reward, ...] = ()
    combine: Combine = WeightedSum()
    shaping: tuple[Shaping, ...] = ()
    store: Store | None = None
    credit: Credit
    correction: Correction | None = None
    objective: Objective
    regularisers: tuple[Objective, ...] = ()
    update: Update = GradientStep()
    hooks: tuple[Hook, ...] = ()

    def __post_init__(self) -> None:
        reason = misfit(self)
        if reason:
            raise ConfigurationError(f"recipe {self.name!r}: {reason}")

    def but(self, changes: Mapping[str, Any] | None = None, /, **top: Any) -> Recipe:
        """A variant of this recipe: `but(name="dr-grpo", **{"credit.scale": None})`.

        A variant with a new name has this recipe as parent and no catalogue ids. An unknown path raises an error that
        suggests the nearest one. The result is checked once, after all changes.
        """
        edits = {**(changes or {}), **top}
        if "name" in edits and edits["name"] != self.name:
            edits = {"parent": self.name, "catalogue_ids": (), "note": "", **edits}
        derived = replaced_all(self, edits)
        assert isinstance(derived, Recipe)
        return derived

    # ------------------------------------------------------------ what the stages need

    @property
    def losses(self) -> tuple[Objective, ...]:
        """The objective and the regularisers."""
        return (self.objective, *self.regularisers)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages and their parts, by slot, depth first."""
        slots = (getattr(self, slot) for slot in ROOMS)
        tops = (top for slot in slots for top in (slot if isinstance(slot, tuple) else (slot,)))
        return tuple(stage for top in tops if isinstance(top, Stage) for stage in walk(top))

    @property
    def needs(self) -> frozenset[Quantity]:
        """Differentiable quantities that stages need from the policy."""
        return frozenset[Quantity]().union(*(stage.needs for stage in self.stages))

    @property
    def reads(self) -> frozenset[Column]:
        """Columns that stages and statistics read; they are filled before."""
        columns = (statistic.reads for statistic in self.statistics)
        return frozenset[Column]().union(*(stage.reads for stage in self.stages), *columns)

    @property
    def statistics(self) -> frozenset[SampleStatistic]:
        """Per-sample statistics that training measures and the ledger records."""
        return frozenset[SampleStatistic]().union(*(stage.statistics for stage in self.stages))

    @property
    def couples(self) -> Level:
        """The smallest unit that must not be split when gradients are accumulated."""
        return coarsest(stage.couples for stage in self.stages)

    @property
    def outputs(self) -> int:
        """How many outputs of a scorer its stages read; 0 if they read no scores and a policy is trained."""
        return max((stage.outputs for stage in self.stages), default=0)

    @property
    def plays_reference(self) -> bool:
        """Whether a stage samples from the policy as it was before training."""
        return any(stage.plays_reference for stage in self.stages)

    @property
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        """Parts that the policy must have, without duplicates, in the order of the stages."""
        return tuple(dict.fromkeys(part for stage in self.stages for part in stage.policy_parts))

    @property
    def learns_from_teacher(self) -> bool:
        """Whether a stage declares (`learns_from_teacher`) that its reference is a better model."""
        return any(getattr(stage, "learns_from_teacher", False) for stage in self.stages)

    @property
    def wants_reference(self) -> bool:
        return Column.REFERENCE in self.reads or bool(COMPARED & self.needs) or self.plays_reference

    @property
    def wants_value(self) -> bool:
        return Column.VALUE in self.reads or Quantity.VALUE in self.needs

    # ------------------------------------------------------------ computation

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The stages with memory, by slot. Rewards and the store are excluded: the run holds their memory.

        Losses have no memory, because they are evaluated several times per step.
        """
        for slot in ("curriculum", "rollout", "combine", "credit", "correction", "update"):
            stage = getattr(self, slot)
            if isinstance(stage, Stateful):
                yield slot, stage
        for number, shape in enumerate(self.shaping):
            if isinstance(shape, Stateful):
                yield f"shaping.{number}", shape

    def init(self) -> State:
        """The memory of the stages before the first step, by slot."""
        return {slot: stage.init() for slot, stage in self.stateful()}

    def compute_credit(self, batch: Batch, state: State, weights: Mapping[str, float]) -> tuple[Batch, State]:
        """Adds rewards, advantages and weights to an annotated batch: combine, shaping, credit, correction.

        `weights` are those of the named scores. Pure. The microscope and the trainer both call it.
        """
        state = dict(state)
        for _, after in self.credit_steps(batch, state, weights):
            batch = after
        return batch, state

    def credit_steps(self, batch: Batch, state: State, weights: Mapping[str, float]) -> Iterator[tuple[str, Batch]]:
        """`compute_credit` stage by stage: the slot, and the batch after it. Changes `state`."""
        batch = _call(self.combine, "combine", state, batch, weights)
        yield "combine", batch
        for number, shape in enumerate(self.shaping):
            batch = _call(shape, f"shaping.{number}", state, batch)
            yield f"shaping.{number}", batch
        yield from self.drawn_credit_steps(batch, state)

    def drawn_credit_steps(self, batch: Batch, state: State) -> Iterator[tuple[str, Batch]]:
        """The stages after the store, as `credit_steps`: credit and correction. Changes `state`."""
        # Pairs compare whole trajectories, also of teams; all other credit is computed per agent.
        split = batch if self.credit.pairs else apart(batch)
        credited = cast(Occurrences, _call(self.credit, "credit", state, split))
        batch = batch.but(occurrences=together(batch, credited))
        yield "credit", batch
        if self.correction is not None:
            yield "correction", _call(self.correction, "correction", state, batch)

    def loss(self, now: Evaluation, batch: Batch) -> list[Terms]:
        """All terms to be minimised: the objective's, then each regulariser's."""
        return [loss(now, batch) for loss in self.losses]


def _call(stage: Any, slot: str, state: State, *arguments: Any) -> Any:
    """Calls a stage, and updates its state if it has one."""
    if slot not in state:
        return stage(*arguments)
    result, state[slot] = stage(*arguments, state[slot])
    return result


ROOMS = {
    "cast": "core",
    "curriculum": "curriculum",
    "rollout": "rollout",
    "rewards": "rewards",
    "combine": "rewards",
    "shaping": "rewards",
    "store": "rollout",
    "credit": "credit",
    "correction": "credit",
    "objective": "objectives",
    "regularisers": "objectives",
    "update": "update",
    "hooks": "hooks",
}
"""The subpackage that holds the stages of each slot."""


def _unbuilt(recipe: Recipe) -> str | None:
    """Which slot holds a string, number or mapping instead of a stage, as a sentence; None when none does."""
    if isinstance(recipe.cast, Stage):
        return f"cast: {_kind(recipe.cast)} is no cast; name one, such as separate, or write {{type: hocket.core.NAME}}"
    for slot, room in ROOMS.items():
        stage = getattr(recipe, slot)
        for value in stage if isinstance(stage, tuple) else (stage,):
            if isinstance(value, (str, int, float, Mapping, list)):
                known = public(f"hocket.{room}")
                hint = nearest(value.rpartition(".")[2], known) if isinstance(value, str) else ""
                return f"{slot} = {value!r} is no {slot}; write {{type: hocket.{room}.NAME}}{hint}"
    return None


_BY_CLASS: Mapping[str, type[Stage]] = {
    "curriculum": RememberingCurriculum,
    "rollout": RememberingRollout,
    "rewards": RememberingReward,
}
"""The slots whose stages need a particular base class for memory, because they are called several times per step."""

REMEMBERING = (*_BY_CLASS, "combine", "shaping", "store", "credit", "correction", "update")
"""The slots whose stages may have memory."""


def lost_memory(slot: str, stage: object) -> str | None:
    """Which part of a stage has memory that the loop would lose, and the correction, as a sentence; None if none."""
    for part in walk(stage) if isinstance(stage, Stage) else (stage,):
        if not isinstance(part, Stateful):
            continue
        if part is not stage:
            return (
                f"{_kind(part)} remembers from step to step, so it cannot stand inside {_kind(stage)}; memory may live "
                f"in a stage that itself stands in {', '.join(REMEMBERING)}"
            )
        if isinstance(part, Hook):
            return f"{_kind(part)} has init(), but the memory of a hook is made by begin(); rename init()"
        if slot not in REMEMBERING:
            return (
                f"{_kind(part)} has init(), but what it remembers is not threaded in {slot}; memory may live in "
                f"{', '.join(REMEMBERING)}, or make it a hook"
            )
        wanted = _BY_CLASS.get(slot, object)
        if not isinstance(part, wanted):
            return (
                f"{_kind(part)} has init(), but what it remembers is threaded in {slot} by "
                f"{wanted.__name__} alone; derive it from hocket.{ROOMS[slot]}.{wanted.__name__}"
            )
    return None


def _lost(recipe: Recipe) -> str | None:
    """Which stage of a recipe, or column that stages read, has memory that the loop would lose, as a sentence."""
    for slot in ROOMS:
        stage = getattr(recipe, slot)
        for member in stage if isinstance(stage, tuple) else (stage,):
            if (reason := lost_memory(slot, member)) is not None:
                return reason
    column = next((column for column in recipe.reads if isinstance(column, Stateful)), None)
    return None if column is None else lost_memory("reads", column)


def misfit(recipe: Recipe) -> str | None:
    """Why a recipe's stages do not fit together, with the correction, as a sentence; None when they do."""
    return _unbuilt(recipe) or misplaced(recipe) or _lost(recipe) or _unmet(recipe)


def _unmet(recipe: Recipe) -> str | None:
    """Which need of a stage no other stage meets, as a sentence; None when all needs are met."""
    credit, objective, update = recipe.credit, recipe.objective, recipe.update
    comparing = [loss for loss in recipe.losses if loss.compares_pairs]
    if comparing and not credit.pairs:
        return (
            f"{_kind(comparing[0])} compares pairs, but {_kind(credit)} yields advantages; set credit to one that "
            "pairs (hocket.credit.BestAgainstWorst)"
        )
    if credit.pairs and not objective.compares_pairs:
        return f"{_kind(credit)} yields pairs, but {_kind(objective)} reads advantages; set objective to a pairwise one"
    samples, most = recipe.rollout.samples, max(recipe.stages, key=lambda stage: stage.least_samples)
    if samples is not None and samples < most.least_samples:
        return (
            f"{_kind(most)} compares samples of one scenario: rollout.samples must be at least {most.least_samples}, "
            f"not {samples}"
        )
    if (reason := recipe.rollout.unfit(recipe.curriculum.prompts)) is not None:
        return reason
    comparer = [stage for stage in recipe.stages if stage.needs_baseline]
    if comparer and not recipe.rollout.gives_baseline:
        return f"{_kind(comparer[-1])} reads a greedy baseline; set rollout to hocket.rollout.WithGreedyBaseline"
    beside = [stage for stage in recipe.stages if Quantity.SCORE not in stage.needs and (stage.needs or _judges(stage))]
    if Quantity.SCORE in recipe.needs and beside:
        return f"it trains a scorer, which has neither log-probs nor values, but {_kind(beside[0])} reads such"
    if Quantity.VALUE in recipe.needs and not credit.gives_targets:
        return (
            f"a value loss needs targets, but {_kind(credit)} gives none; use hocket.credit.GAE or drop the value loss"
        )
    valuing = [stage for stage in walk(credit) if Column.VALUE in stage.reads]
    if valuing and Quantity.VALUE not in recipe.needs:
        return f"{_kind(valuing[0])} reads values that nothing trains; add hocket.objectives.ValueLoss to regularisers"
    if objective.on_policy_only and (update.epochs > 1 or update.minibatches > 1):
        return (
            f"{_kind(objective)} has no importance ratio, so only the first update from a batch would be right; set "
            "update.epochs and update.minibatches to 1 or objective to hocket.objectives.ClippedSurrogate"
        )
    if (reason := _unfit_for_store(recipe)) is not None:
        return reason
    if recipe.couples is Level.BATCH and update.minibatches > 1:
        return f"a loss couples the whole batch; set update.minibatches to 1, not {update.minibatches}"
    return None


def _unfit_for_store(recipe: Recipe) -> str | None:
    """Which stage does not go with the recipe's store, or needs one, as a sentence; None when all fit."""
    of_rows = [loss for loss in recipe.losses if getattr(loss, "learns_from_rows", False)]
    if recipe.store is None:
        return (
            of_rows
            and (
                f"{_kind(of_rows[0])} learns from rows that a store has drawn; set store to hocket.rollout.Transitions"
            )
        ) or None
    if (recipe.update.epochs, recipe.update.minibatches) != (1, 1):
        return (
            "mini-batches of a store are set by store.rows and store.ratio; leave update.epochs and update.minibatches "
            "at 1"
        )
    if any(Column.VALUE in stage.reads for stage in walk(recipe.credit)):
        return (
            f"{_kind(recipe.credit)} reads the values of whole episodes, and a store draws single rows; set credit to "
            "hocket.credit.Uniform, or drop the store"
        )
    of_teams = [loss for loss in of_rows if getattr(loss, "learns_from_teams", False)]
    if of_teams and not recipe.store.keeps_teams:
        return f"{_kind(of_teams[0])} learns from rows of a whole team; set store to hocket.rollout.JointTransitions"
    if recipe.correction is None:
        for loss in recipe.losses:
            if loss.on_policy_only or loss.idle_without_advantage:
                return (
                    f"{_kind(loss)} is for samples of the present policy, and a store draws old ones; set correction, "
                    "or objective to hocket.objectives.CriticLoss"
                )
    return None


def _judges(stage: Stage) -> bool:
    """Whether a stage reads outputs of a policy for its own decisions."""
    return bool(stage.reads & {Column.REFERENCE, Column.VALUE, Column.PROXIMAL, Column.ENTROPY})


def _kind(stage: object) -> str:
    return type(stage).__name__
