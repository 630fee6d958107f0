"""A run done again in one process, and whether it comes to the same.

Samplers leave no trace in what a run computes but in one thing: which groups a step takes as they arrive, and which
version of the weights drew them. `schedule.jsonl` keeps that; the rest follows from the configuration, and from what
the outside world answered (`journal.jsonl`).
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hocket import tasks
from hocket.agents.workflows.player import TextPlayer
from hocket.core.errors import ConfigurationError
from hocket.core.outcomes import StepResult
from hocket.distributed.cluster.async_order import ReadyGroup, Version, collected, merged, parted
from hocket.distributed.cluster.interruption import Following, Plans, with_engines
from hocket.distributed.cluster.sampler import TargetWeights
from hocket.distributed.cluster.weights import put
from hocket.stages import Player, State
from hocket.train import config as configuration
from hocket.train.aio import run_async
from hocket.train.checkpoint import Checkpoints, checkpoint_of, weights_in
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, collect, learn_from
from hocket.train.overlap import stale
from hocket.train.runfolder import RunFolder
from hocket.train.settings import CheckpointSettings, Config
from hocket.train.step_memory import outcomes
from hocket.train.tracking import read_metrics
from hocket.train.trainer import BackgroundSampler, NullObserver, Observer, Trainer
from hocket.train.trust import run_pairs

if TYPE_CHECKING:
    from hocket.agents.workflows.team import Actor
    from hocket.engine.requests import Engine, Interruptible

OF_THE_MACHINE = ("time/", "throughput/", "memory/")
"""How metrics begin that depend on the clock and the machine."""


@dataclass(frozen=True)
class StepInputs:
    """What a step was made of.

    Attributes:
        groups: that it learnt from, in order, and the version of the weights that began each.
        plans: of groups, which versions wrote the parts of their answers where that was not this one alone.
    """

    groups: Sequence[tuple[int, int]]
    plans: Mapping[int, Plans]


Schedule = Mapping[int, StepInputs]
"""What each step was made of."""


@dataclass(frozen=True)
class ReplayComparison:
    """How a run compares with the same done again.

    Attributes:
        steps: that were compared. difference: the first one in words, None where there is none.
    """

    steps: int
    difference: str | None


def replay(run: Path, observer: Observer | None = None, *, trust: bool = False) -> ReplayComparison:
    """Does the steps of a run again, up to its newest checkpoint, and compares weights and metrics.

    Raises:
        ConfigurationError: when `run` is no run or has no checkpoint, its schedule is not whole, or without `trust` it
            names code of others.
    """
    folder = RunFolder(run)
    pairs = run_pairs(run, trust=trust)
    task = tasks.find(dict(pairs)["task"])
    config = configuration.configure(pairs, task)
    newest = checkpoint_of(run, "last")
    steps = Checkpoints.step(newest)
    schedule = schedule_of(folder, config, steps)
    with tempfile.TemporaryDirectory() as place:
        again = _begun(folder, config, Path(place))
        trainer = _Again(config, schedule, again, task=task, observer=observer or NullObserver(), resume=True)
        trainer.observer.started(trainer)
        while not trainer.progress.before or trainer.progress.step < steps:
            trainer.observer.stepped(trainer, trainer.step())
        written = {name: Path(place, name) for name in trainer.parts.learners}
        for name, learner in trainer.parts.learners.items():
            written[name].mkdir()
            learner.policy.save(written[name])
        difference = _difference(folder, RunFolder(Path(place, run.name)), steps)
        difference = difference or _other_weights(weights_in(newest), written)
        trainer.finish("interrupted")
    return ReplayComparison(steps, difference)


def schedule_of(folder: RunFolder, config: Config, steps: int) -> Schedule | None:
    """What a run's steps were made of, None where that follows from its configuration.

    Raises:
        ConfigurationError: when a step is missing.
    """
    if config.order == "start":
        return None
    rows = {row["step"]: row for row in read_metrics(folder.schedule)}
    missing = next((step for step in range(1, steps + 1) if step not in rows), None)
    if missing is not None:
        raise ConfigurationError(f"{folder.schedule} lacks step {missing}, so the run cannot be repeated")
    return {step: _taken(rows[step]) for step in range(1, steps + 1)}


def _taken(row: Mapping[str, Any]) -> StepInputs:
    parts = {
        int(group): {name: [(int(start), int(version)) for start, version in plan] for name, plan in plans.items()}
        for group, plans in row.get("parts", {}).items()
    }
    return StepInputs([(int(group), int(version)) for group, version in row["groups"]], parts)


def _begun(folder: RunFolder, config: Config, place: Path) -> Config:
    """A run in one process that has done nothing yet, on the choices and the outside answers of another."""
    new = RunFolder(place / folder.name)
    new.path.mkdir()
    alone: dict[str, Any] = {
        "cluster": None,
        "samplers": 0,
        "learners": 1,
        "shard": False,
        "overlap": 0,
        "order": "start",
    }
    alone["roles"] = {name: dataclasses.replace(role, learners=None) for name, role in config.roles.items()}
    alone |= {"verify": 0.0, "interrupt": False, "differences": False, "track": ()}
    rarely = CheckpointSettings(seconds=1e9, steps=10**9)
    again = dataclasses.replace(config, runs=str(place), run=folder.name, checkpoint=rarely, **alone)
    new.config.write_text(again.to_yaml())
    for file in (folder.machine, folder.journal):
        if file.is_file():
            shutil.copy(file, new.path)
    return again


class _Again(Trainer):
    """Trains by `config` as a run did that was configured `as_it_was`."""

    def __init__(self, as_it_was: Config, schedule: Schedule | None, config: Config, **keywords: Any) -> None:
        self._as_it_was, self._schedule = as_it_was, schedule
        super().__init__(config, **keywords)

    def _beside(self) -> BackgroundSampler | None:
        if not self._as_it_was.behind:
            return None
        self.parts.overlap = self._as_it_was.behind
        was = self._as_it_was
        return Repetition(was.overlap, self.parts, self._schedule, interrupt=was.interrupt)


class Repetition:
    """The steps of a run whose samplers were ahead of its learners, by this process alone.

    Args:
        lag: of that run. parts: of this one. schedule: of that one, None in order of start.
        interrupt: whether its answers went on under new weights.
    """

    def __init__(self, lag: int, parts: RunContext, schedule: Schedule | None, *, interrupt: bool = False) -> None:
        self._lag, self._parts, self._schedule = lag, parts, schedule
        self._interrupt, self._engines = interrupt, dict[int, Following]()
        self._first, self._phase_end, self._asked = 1, 0, 0
        self._versions: dict[int, Version] = {}

    def step(self, step: int, *, phase_end: int, last: int) -> StepResult:
        """Step `step` (from 1), of a phase that ends with `phase_end`."""
        parts = self._parts
        if step > self._phase_end:
            self._first, self._phase_end, self._asked, self._versions = step, phase_end, parts.asked, {}
        versions = {number: version for number, version in self._versions.items() if number >= step - 1 - self._lag}
        self._versions = versions | {step - 1: Version(TargetWeights(parts.learners), parts.ledger.state())}
        if self._schedule is None:
            drawn, lags = self._as_it_began(step), dict[str, float]()
        else:
            drawn, lags = self._as_it_came(step, self._schedule[step])
        result = learn_from(parts, step, drawn.experience, drawn.problems, rollout=0.0)
        parts.ledger.note(step, outcomes(parts, drawn.experience))
        result.metrics |= {**lags, **stale(parts)}
        return result

    def _as_it_began(self, step: int) -> ReadyGroup:
        """A whole batch, by the newest version that its samplers could have."""
        version = self._versions[max(self._first - 1, step - 1 - self._lag)]
        ledger = Ledger()
        ledger.restore(version.ledger)
        parts = replace(self._parts, ledger=ledger)
        with holding(self._parts.learners, version.goal):
            group = ReadyGroup(*run_async(collect(parts, parts.key.derive("step", step), step)))
        self._parts.asked = parts.asked
        return group

    def _as_it_came(self, step: int, row: StepInputs) -> tuple[ReadyGroup, dict[str, float]]:
        """The groups that the schedule names, each by its version, and by later ones where it was interrupted."""
        batch, by_number = self._parts.lead.recipe.curriculum.prompts, dict[int, ReadyGroup]()
        taken, player = row.groups, self._followed()
        for version in sorted({version_used for _, version_used in taken}):
            made_from = self._versions[version]
            with holding(self._parts.learners, made_from.goal):
                for group in [group for group, version_used in taken if version_used == version]:
                    nominal = self._first + group // batch
                    for engine in self._engines.values():
                        engine.plans = row.plans.get(group, {})
                    drawing = collected(self._parts, player, made_from.ledger, nominal, self._asked, group)
                    by_number[group] = run_async(drawing)
        self._parts.asked = self._asked + (step - self._first + 1) * batch
        groups = [by_number[group] for group, _ in taken]
        step_group = ReadyGroup(
            merged([group.experience for group in groups]), [problem for group in groups for problem in group.problems]
        )
        lags = [step - 1 - version for _, version in taken]
        ages = {"lag/mean": sum(lags) / len(lags), "lag/max": float(max(lags))}
        return step_group, ages | (parted(self._parts, step_group.experience) if self._interrupt else {})

    def _followed(self) -> Player:
        """The run's player, with engines that write answers in the parts that they were written in."""
        player = self._parts.player
        if not self._interrupt or not isinstance(player, TextPlayer):
            return player

        def following(actor: Actor) -> Engine:
            if id(actor.engine) not in self._engines:
                engine = Following(cast("Interruptible", actor.engine), actor.policy, self._under)
                self._engines[id(actor.engine)] = engine
            return self._engines[id(actor.engine)]

        return with_engines(player, following)

    def _under(self, policy: str, version: int) -> AbstractContextManager[None]:
        """Has a policy hold one of its versions for a while."""
        goals = [state.goal for state in self._versions.values() if state.goal.versions[policy] == version]
        if not goals:
            raise ConfigurationError(
                f"the schedule names version {version} of policy {policy}, which that step cannot have had; the file "
                "is incomplete"
            )
        return holding(self._parts.learners, goals[0])

    # ------------------------------------------------------------ it neither begins anything nor keeps anything

    def start(self) -> None: ...

    def pause(self) -> None: ...

    def close(self) -> None: ...

    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None: ...


@contextmanager
def holding(learners: Mapping[str, Learner], goal: TargetWeights) -> Iterator[None]:
    """Within it the policies have the weights of `goal`, after it their own again."""
    weights = TargetWeights(learners)
    try:
        _hold(learners, goal)
        yield
    finally:
        _hold(learners, weights)


def _hold(learners: Mapping[str, Learner], goal: TargetWeights) -> None:
    for name, weights in goal.trained.items():
        policy = learners[name].policy
        if policy.version != goal.versions[name]:
            put(policy.module, weights)
            policy.version = goal.versions[name]


def _difference(left: RunFolder, right: RunFolder, steps: int) -> str | None:
    """The first metric that differs in two runs, in words."""
    rows, again = ({row["step"]: row for row in read_metrics(run.metrics)} for run in (left, right))
    for step in range(steps + 1):
        first, second = (
            {name: value for name, value in table.get(step, {}).items() if not name.startswith(OF_THE_MACHINE)}
            for table in (rows, again)
        )
        for name in sorted(first.keys() | second.keys()):
            if first.get(name) != second.get(name):
                return f"step {step}: {name} was {first.get(name)} and is {second.get(name)} now"
    return None


def _other_weights(left: Mapping[str, Path], right: Mapping[str, Path]) -> str | None:
    """The first weights file whose bytes differ, in words."""
    for name, folder in left.items():
        for file in sorted(folder.rglob("*.safetensors")):
            if file.read_bytes() != (right[name] / file.relative_to(folder)).read_bytes():
                return f"the weights of policy {name} are others ({file.name})"
    return None
