"""A recipe as a user runs it: configured as `hocket train` does, with a language model, its own part in effect."""

from __future__ import annotations

import json
import math
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from hocket import tasks
from hocket.core.components import value_at
from hocket.core.errors import ConfigurationError
from hocket.core.outcomes import StepResult
from hocket.lab.claims.finding import Finding
from hocket.recipe import ROOMS, Recipe
from hocket.recipes import parent_of
from hocket.stages import Task
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure, settled
from hocket.train.embedders import embedder_of
from hocket.train.judges import asking, judge_of
from hocket.train.loop import RunContext, train_step
from hocket.train.replay import Repetition
from hocket.train.settings import Config

LEAST = 0.01
"""The smallest relative change of a gradient that counts, where a claim does not explain a smaller one."""
LEAST_EXPLAINED = 1e-5
"""The smallest that counts with an explanation; another order of the same sums changes some 1e-7."""


@dataclass(frozen=True)
class ShippedRun:
    """The first steps of a run.

    Attributes:
        parts: as they are afterwards. results: of every step. gradients: before every step of an optimiser, flat; where
            an update has none, how the weights changed. roles: those whose decisions were learnt from.
    """

    parts: RunContext
    results: Sequence[StepResult]
    gradients: Sequence[Tensor]
    roles: frozenset[str]

    def mean(self, metric: str) -> float:
        """The mean of a metric over the steps that have it; NaN where none has."""
        values = [row.metrics[metric] for row in self.results if metric in row.metrics]
        return sum(values) / len(values) if values else math.nan


@dataclass(frozen=True)
class Shipment:
    """What is compared: a recipe, unchanged, and the same one without its own part.

    Attributes:
        slots: dotted paths that are set back to what the recipe's parent has there; empty for all in which they differ.
        without: settings that take its part away instead, by dotted path. task: its name; the recipe's own when None.
        trains: the roles that are to learn, and no others; empty for any. steps: how many are run.
        sees: further figures of the run, all of which must be positive. settings: further ones of the run, as flags.
        first: `recipe`, `steps` and further settings of the phase of a plan before this one, on the same task unless
            it names its `task`, where the shipped model has no footing without it. judged: whether the model that comes
            of it is the run's judge, too.
        small: why the gradient changes by less than `LEAST`, as the claim states it; empty where it changes by more.
    """

    recipe: Recipe
    slots: tuple[str, ...] = ()
    without: Mapping[str, Any] | None = None
    task: str | None = None
    trains: tuple[str, ...] = ()
    steps: int = 1
    sees: Callable[[ShippedRun], Mapping[str, float]] | None = None
    settings: Mapping[str, Any] | None = None
    first: Mapping[str, Any] | None = None
    judged: bool = False
    small: str = ""

    @property
    def unchanged(self) -> bool:
        """Whether the recipe is run with its own settings; a task, a model or a judge is none of them."""
        return not any(name.partition(".")[0] in SLOTS for name in self.settings or ())

    @property
    def least(self) -> float:
        """The smallest relative change of the gradient with which the claim holds."""
        return LEAST_EXPLAINED if self.small else LEAST

    @property
    def command(self) -> str:
        """What a user types."""
        task = {} if self.task is None else {"task": self.task}
        return _typed({"recipe": self.recipe.name, **task, **(self.settings or {})})

    @property
    def sentence(self) -> str:
        """The claim."""
        named = list(self.slots or self.without or ())
        parts = ", ".join(named) if named else f"what it adds to {self.recipe.parent}"
        who = f", {' and '.join(self.trains)} learning" if self.trains else ""
        if self.first is not None:
            task = {} if self.task is None else {"task": self.task}
            who += f", from the weights of `{_typed({**task, **self.first})}`" + ", which judge, too" * self.judged
        run = f"As shipped, `{self.command}`" if self.unchanged else f"Run as `{self.command}`"
        reason = f", by less than {LEAST:.0%}: {self.small}" if self.small else ""
        return f"{run}: {parts} in effect{who}; without, the gradient is another{reason}."

    def __call__(self) -> Finding:
        """Runs both."""
        if self.first is None:
            return self._compared(self.settings or {})
        with tempfile.TemporaryDirectory() as folder:
            name = self.first.get("task") or self.task or self.recipe.task or Config.task
            begun = configured(self.first["recipe"], name, tasks.find(name), self.first)
            parts = build_parts(begun, tasks.find(name))
            for step in range(1, (begun.steps or 0) + 1):
                run_async(train_step(parts, step))
            parts.lead.policy.save(Path(folder))
            seats = ("model", "judge") if self.judged else ("model",)
            return replace(self, first=None)._compared({**(self.settings or {}), **dict.fromkeys(seats, folder)})

    def _compared(self, settings: Mapping[str, Any]) -> Finding:
        name = self.task or self.recipe.task or Config.task
        task = tasks.find(name)
        config = configured(self.recipe, name, task, settings)
        shipped, plain = (run(side, task, self.steps) for side in (config, replace(config, recipe=self._plain(config))))
        change, size = difference(shipped.gradients, plain.gradients), largest(shipped.gradients)
        figures = {"gradient": size, "relative change without": change}
        figures |= dict(self.sees(shipped)) if self.sees is not None else {}
        unmet = [requirement.value for requirement in self.recipe.requires if not requirement.met(_everything(shipped))]
        learnt = not self.trains or shipped.roles == frozenset(self.trains)
        idle = _idle(shipped) & {_kind(part) for slot in self.slots for part in _each(value_at(config.recipe, slot))}
        notes = [f"{name} {value:.4g}" for name, value in figures.items()]
        notes += [f"learnt from {' and '.join(sorted(shipped.roles)) or 'nobody'}"]
        notes += [f"without {what}" for what in unmet] + [f"{stage} idle" for stage in sorted(idle)]
        sound = all(math.isfinite(value) and value > 0 for value in figures.values()) and change > self.least
        return Finding(sound and learnt and not unmet and not idle, ", ".join(notes))

    def _plain(self, config: Config) -> Recipe:
        """The configured recipe without its own part; the parent is configured for the same task."""
        shipped = config.recipe
        if self.without is not None:
            return shipped.but(self.without)
        origin = parent_of(shipped)
        if origin is None:
            raise ConfigurationError(f"{shipped.name} is derived from no other recipe; say `without` what")
        parent = configured(origin, config.task, tasks.find(config.task), self.settings or {}).recipe
        plain = shipped.but({slot: value_at(parent, slot) for slot in self.slots or SLOTS})
        if plain == shipped:
            raise ConfigurationError(f"{shipped.name} differs from {parent.name} in none of {self.slots or SLOTS}")
        return plain


def _typed(settings: Mapping[str, Any]) -> str:
    """A run as it is typed."""
    flags = {name: json.dumps(value) if isinstance(value, Mapping) else str(value) for name, value in settings.items()}
    words = (f"--{name} {shlex.quote(value)}" for name, value in flags.items())
    return " ".join(("hocket train", *words)).replace(f"{PACKAGE.parent}/", "")  # As in a checkout.


PACKAGE = Path(__file__).parents[2]
"""The folder of the library."""

SLOTS = ("workflow", *ROOMS)
"""Where a recipe may differ from its parent."""


def configured(recipe: Recipe | str, name: str, task: Task, settings: Mapping[str, Any]) -> Config:
    """As `hocket train` configures it."""
    return settled(configure([("task", name), *settings.items(), ("recipe", recipe)], task), task)


def run(config: Config, task: Task, steps: int) -> ShippedRun:
    """The first steps of a run, without a folder."""
    judge = judge_of(config, None) if any(asking(config.recipe.stages)) else None  # Without its part none may be asked.
    parts = build_parts(config, task, judge=judge, embedder=embedder_of(config, None))
    before = {name: _weights(parts, name) for name in parts.learners}
    gradients: list[Tensor] = []

    def record(optimiser: torch.optim.Optimizer, *_: object) -> None:
        slopes = [p.grad.flatten() for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
        gradients.append(torch.cat(slopes).double())

    hook = register_optimizer_step_pre_hook(record)
    try:
        if config.behind:  # What samplers would draw, this process draws, to the same bits.
            behind = Repetition(config.overlap, parts, None)
            results = [behind.step(step, phase_end=steps, last=steps) for step in range(1, steps + 1)]
        else:
            results = [run_async(train_step(parts, step)) for step in range(1, steps + 1)]
    finally:
        hook.remove()
    moved = {name: _weights(parts, name) - old for name, old in before.items()}
    changed = frozenset(name for name, delta in moved.items() if bool(delta.any()))
    if not gradients:
        gradients = [moved[name] for name in sorted(changed)]
    roles = frozenset[str]().union(*(_roles(result, changed) for result in results))
    return ShippedRun(parts, results, gradients, roles)


def difference(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """The largest distance of two gradients in turn, relative to the larger one.

    Where one run has more updates of a policy than the other, the means of its gradients are compared, as the number of
    updates alone is no effect of a part. 1 where a policy learns in one run only, or has other weights.
    """
    ours, theirs = _by_size(left), _by_size(right)
    if ours.keys() != theirs.keys():
        return 1.0
    pairs = list[tuple[Tensor, Tensor]]()
    for size, rows in ours.items():
        others = theirs[size]
        pairs += zip(rows, others, strict=True) if len(rows) == len(others) else [(_mean(rows), _mean(others))]
    sizes = ((float((row - other).norm()), max(float(row.norm()), float(other.norm()))) for row, other in pairs)
    return max((apart / size for apart, size in sizes if size), default=0.0)


def _by_size(gradients: Sequence[Tensor]) -> Mapping[int, Sequence[Tensor]]:
    """Gradients by the number of weights, which is what sets policies apart."""
    rows: dict[int, list[Tensor]] = {}
    for gradient in gradients:
        rows.setdefault(len(gradient), []).append(gradient)
    return rows


def _mean(gradients: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(gradients)).mean(0)


def largest(gradients: Sequence[Tensor]) -> float:
    """The largest norm; 0 of none."""
    return max((float(gradient.norm()) for gradient in gradients), default=0.0)


def _weights(parts: RunContext, name: str) -> Tensor:
    module = parts.learners[name].policy.module
    return torch.cat([parameter.detach().double().flatten() for parameter in module.parameters()])


def _roles(result: StepResult, policies: frozenset[str]) -> frozenset[str]:
    """The roles of decisions that changed a policy."""
    batch = result.batch
    if batch is None:
        return frozenset()
    occurrences = batch.occurrences
    signal = (occurrences.weight != 0) & ((occurrences.advantage != 0) | (occurrences.pairs is not None))
    turns = set(batch.turn[occurrences.decision[signal]].tolist())
    changed = [name in policies for name in batch.names["policy"]]
    mine = [turn for turn in turns if changed[int(batch.policy[turn])]]
    return frozenset(batch.names["role"][int(batch.role[turn])] for turn in mine)


def _idle(shipped: ShippedRun) -> set[str]:
    """The classes of stages that changed nothing in any step."""
    names = {name for row in shipped.results for name in row.metrics if "idle/" in name}
    always = (name for name in names if all(row.metrics.get(name) for row in shipped.results))
    return {name.rpartition("idle/")[2] for name in always}


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _kind(value: Any) -> str:
    return type(value).__name__


def _everything(shipped: ShippedRun) -> list[Any]:
    experiences = (row.experience for row in shipped.results if row.experience is not None)
    return [trajectory for experience in experiences for trajectory in experience.trajectories]
