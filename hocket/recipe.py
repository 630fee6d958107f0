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
from hocket.core.requirements import Requirement
from hocket.core.rooms import public
from hocket.core.statistics import SampleStatistic
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.curriculum.shuffled import Shuffled
from hocket.rewards.combine import WeightedSum
from hocket.rewards.remembering import RememberingReward
from hocket.rollout.independent import Independent
from hocket.rollout.remembering import RememberingRollout
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
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep
from hocket.update.problem import Update


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One method: its stages in call order, and where it comes from.

    `rewards` empty means the task's own verifiers. `workflow` is the one a method prescribes, by name, for runs that
    name none; `cast` says who plays its roles and learns when. `hooks` act around every step. `task` is what the method
    is for, by name, for runs that name none; `requires` is what experience must hold for the method to be itself.
    `conventions` names each choice the paper leaves open and what was chosen. Derive relatives with `but`, which takes
    dotted paths.

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

    workflow: str | None = None
    cast: Cast = Shared()
    curriculum: Curriculum = Shuffled()
    rollout: Rollout = Independent()
    rewards: tuple[Reward, ...] = ()
    combine: Combine = WeightedSum()
    shaping: tuple[Shaping, ...] = ()
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
        """A relative of this recipe: `but(name="dr-grpo", **{"credit.scale": None})`.

        A renamed recipe names this one as its parent and inherits no catalogue ids. An unknown path is refused with
        the nearest one. All changes are made before the result is checked for fit.
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
        """Every stage and every part of one, by slot, depth first."""
        slots = (getattr(self, slot) for slot in ROOMS)
        tops = (one for slot in slots for one in (slot if isinstance(slot, tuple) else (slot,)))
        return tuple(stage for one in tops if isinstance(one, Stage) for stage in walk(one))

    @property
    def needs(self) -> frozenset[Quantity]:
        """Differentiable quantities that stages need from the policy."""
        return frozenset[Quantity]().union(*(stage.needs for stage in self.stages))

    @property
    def reads(self) -> frozenset[Column]:
        """Columns that must be filled before the stages act, or statistics are measured."""
        measured = (statistic.reads for statistic in self.statistics)
        return frozenset[Column]().union(*(stage.reads for stage in self.stages), *measured)

    @property
    def statistics(self) -> frozenset[SampleStatistic]:
        """Numbers per sample that training measures and the ledger keeps."""
        return frozenset[SampleStatistic]().union(*(stage.statistics for stage in self.stages))

    @property
    def couples(self) -> Level:
        """The smallest unit that no split of a gradient may cut."""
        return coarsest(stage.couples for stage in self.stages)

    @property
    def outputs(self) -> int:
        """How many outputs of a scorer its stages read; 0 where they read no scores, and a policy is trained."""
        return max((stage.outputs for stage in self.stages), default=0)

    @property
    def plays_reference(self) -> bool:
        """Whether a stage samples from the policy as it was before training."""
        return any(stage.plays_reference for stage in self.stages)

    @property
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        """Parts that the policy must have, each once, in the order of the stages."""
        return tuple(dict.fromkeys(part for stage in self.stages for part in stage.policy_parts))

    @property
    def learns_from_teacher(self) -> bool:
        """Whether a stage says (`learns_from_teacher`) that its reference is meant to be a better model."""
        return any(getattr(stage, "learns_from_teacher", False) for stage in self.stages)

    @property
    def wants_reference(self) -> bool:
        return Column.REFERENCE in self.reads or Quantity.KL_EXACT in self.needs or self.plays_reference

    @property
    def wants_value(self) -> bool:
        return Column.VALUE in self.reads or Quantity.VALUE in self.needs

    # ------------------------------------------------------------ what it computes

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The stages with memory, by slot, rewards aside, whose memory is the run's.

        Losses have none: they are evaluated several times per step.
        """
        for slot in ("curriculum", "rollout", "combine", "credit", "correction", "update"):
            stage = getattr(self, slot)
            if isinstance(stage, Stateful):
                yield slot, stage
        for number, shape in enumerate(self.shaping):
            if isinstance(shape, Stateful):
                yield f"shaping.{number}", shape

    def init(self) -> State:
        """What the stages remember before the first step."""
        return {slot: stage.init() for slot, stage in self.stateful()}

    def compute_credit(self, batch: Batch, state: State, weights: Mapping[str, float]) -> tuple[Batch, State]:
        """From an annotated batch to one with rewards, advantages and weights: combine, shaping, credit, correction.

        `weights` are those of the named scores. Pure: the microscope and the trainer call the same function.
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
        # Pairs are of whole trajectories, teams included; all other credit follows each agent by itself.
        seen = batch if self.credit.pairs else apart(batch)
        credited = cast(Occurrences, _call(self.credit, "credit", state, seen))
        batch = batch.but(occurrences=together(batch, credited))
        yield "credit", batch
        if self.correction is not None:
            yield "correction", _call(self.correction, "correction", state, batch)

    def loss(self, now: Evaluation, batch: Batch) -> list[Terms]:
        """All terms to be minimised: the objective's, then each regulariser's."""
        return [loss(now, batch) for loss in self.losses]


def _call(stage: Any, slot: str, state: State, *given: Any) -> Any:
    """Calls a stage, threading its state when it has one."""
    if slot not in state:
        return stage(*given)
    result, state[slot] = stage(*given, state[slot])
    return result


ROOMS = {
    "cast": "core",
    "curriculum": "curriculum",
    "rollout": "rollout",
    "rewards": "rewards",
    "combine": "rewards",
    "shaping": "rewards",
    "credit": "credit",
    "correction": "credit",
    "objective": "objectives",
    "regularisers": "objectives",
    "update": "update",
    "hooks": "hooks",
}
"""Where the stages of each slot live in the package."""


def _unbuilt(recipe: Recipe) -> str | None:
    """Which slot holds words or numbers instead of a stage; None when none does."""
    if isinstance(recipe.cast, Stage):
        return f"cast: {_kind(recipe.cast)} is no cast; name one, such as separate, or write {{type: hocket.core.NAME}}"
    for slot, room in ROOMS.items():
        stage = getattr(recipe, slot)
        for one in stage if isinstance(stage, tuple) else (stage,):
            if isinstance(one, (str, int, float, Mapping, list)):
                known = public(f"hocket.{room}")
                hint = nearest(one.rpartition(".")[2], known) if isinstance(one, str) else ""
                return f"{slot} = {one!r} is no {slot}; write {{type: hocket.{room}.NAME}}{hint}"
    return None


_BY_CLASS: Mapping[str, type[Stage]] = {
    "curriculum": RememberingCurriculum,
    "rollout": RememberingRollout,
    "rewards": RememberingReward,
}
"""The slots whose stages remember by a class of their own, since they are called several times per step."""

REMEMBERING = (*_BY_CLASS, "combine", "shaping", "credit", "correction", "update")
"""The slots whose stages may remember."""


def lost_memory(slot: str, stage: object) -> str | None:
    """Which part of a stage would remember and be forgotten, as a sentence with the mend; None where none would."""
    for one in walk(stage) if isinstance(stage, Stage) else (stage,):
        if not isinstance(one, Stateful):
            continue
        if one is not stage:
            return (
                f"{_kind(one)} remembers from step to step, so it cannot stand inside {_kind(stage)}; memory may live "
                f"in a stage that itself stands in {', '.join(REMEMBERING)}"
            )
        if isinstance(one, Hook):
            return f"{_kind(one)} has init(), but a hook remembers what begin() makes; rename it"
        if slot not in REMEMBERING:
            return (
                f"{_kind(one)} has init(), but what it remembers is not threaded in {slot}; memory may live in "
                f"{', '.join(REMEMBERING)}, or make it a hook"
            )
        wanted = _BY_CLASS.get(slot, object)
        if not isinstance(one, wanted):
            return (
                f"{_kind(one)} has init(), but what it remembers is threaded in {slot} by "
                f"{wanted.__name__} alone; derive it from hocket.{ROOMS[slot]}.{wanted.__name__}"
            )
    return None


def _lost(recipe: Recipe) -> str | None:
    """What a recipe's stages, or the columns they read, would remember and forget, as a sentence."""
    for slot in ROOMS:
        stage = getattr(recipe, slot)
        for one in stage if isinstance(stage, tuple) else (stage,):
            if (reason := lost_memory(slot, one)) is not None:
                return reason
    column = next((column for column in recipe.reads if isinstance(column, Stateful)), None)
    return None if column is None else lost_memory("reads", column)


def misfit(recipe: Recipe) -> str | None:
    """Why a recipe's stages do not fit together, as a sentence with the mend; None when they do."""
    return _unbuilt(recipe) or misplaced(recipe) or _lost(recipe) or _unmet(recipe)


def _unmet(recipe: Recipe) -> str | None:
    """Which need no other stage meets, as a sentence; None when all are met."""
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
    if recipe.couples is Level.BATCH and update.minibatches > 1:
        return f"a loss couples the whole batch; set update.minibatches to 1, not {update.minibatches}"
    return None


def _judges(stage: Stage) -> bool:
    """Whether it reads what a policy says of its own decisions."""
    return bool(stage.reads & {Column.REFERENCE, Column.VALUE, Column.PROXIMAL, Column.ENTROPY})


def _kind(stage: object) -> str:
    return type(stage).__name__
