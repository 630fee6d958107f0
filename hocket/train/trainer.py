"""The trainer: runs training steps, and records, evaluates and adapts through its parts. It never owns `main`."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hocket import tasks
from hocket.agents.workflows.player import TextPlayer
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.media import MEDIA
from hocket.core.notices import listening
from hocket.core.outcomes import StepResult
from hocket.distributed.cluster.async_order import Arrival, check_order
from hocket.distributed.cluster.connection import Host, PeerLost
from hocket.distributed.cluster.lag import LaggedSampling
from hocket.distributed.cluster.learner_group import check_learners
from hocket.distributed.cluster.place import place_of
from hocket.distributed.cluster.policy_groups import PolicyGroups, parts_of
from hocket.distributed.cluster.samplers import Samplers, check_samplers, spread
from hocket.distributed.cluster.sharding import check_shared, gathered
from hocket.rewards import remembering
from hocket.stages import Reward, State, Task
from hocket.train import adapters, silences
from hocket.train import config as configuration
from hocket.train.aio import run_async
from hocket.train.assemble import build_learners, build_parts, seat_references
from hocket.train.checkpoint import REFERENCE, Checkpoints, weights_in
from hocket.train.cores import check_threads
from hocket.train.device_faults import lost
from hocket.train.embedders import embedder_of
from hocket.train.evaluate import EvaluationResult
from hocket.train.evaluations import Evaluations
from hocket.train.examples import check_examples, unmet_sizes
from hocket.train.judges import judge_of
from hocket.train.kinds import Measure, kind_of
from hocket.train.kinds.ways import GREEDY, leads_of
from hocket.train.learner import Learner
from hocket.train.loop import train_step
from hocket.train.machine import Machine
from hocket.train.oom_retry import out_of_memory
from hocket.train.overlap import Overlap, advice
from hocket.train.progress import Progress, RunSummary, summary
from hocket.train.recorder import Recorder
from hocket.train.resources import Resources
from hocket.train.rows import check_rows, left_out
from hocket.train.runfolder import RunFolder, read_json
from hocket.train.segments import restored as restored_store
from hocket.train.settings import Config
from hocket.train.store_step import begin_store
from hocket.train.tracking import read_metrics
from hocket.train.trust import run_pairs
from hocket.train.unseen_scenarios import measured_by_run
from hocket.train.watch import Watch

if TYPE_CHECKING:
    from hocket.policies.family import Precision


FAILED = "failed"
"""The outcome of a run in which nothing could be learnt."""

UNSAVED = (
    "the last checkpoint could not be written, so the training since the one before is not on disk; make room, or "
    "check the disk, and resume the run"
)


class Observer(Protocol):
    """Receives the events of a run, such as the live display."""

    def started(self, trainer: Trainer) -> None: ...
    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None: ...
    def said(self, message: str) -> None: ...


class BackgroundSampler(Protocol):
    """Samples while this process learns."""

    def start(self) -> None: ...
    def step(self, step: int, *, phase_end: int, last: int) -> StepResult: ...
    def pause(self) -> None: ...
    def close(self) -> None: ...
    def state(self) -> State: ...
    def restore(self, state: State) -> None: ...


class NullObserver:
    """Ignores all events."""

    def started(self, trainer: Trainer) -> None:
        pass

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        pass

    def said(self, message: str) -> None:
        pass


class Trainer:
    """Trains by a configuration, one `step()` at a time, or to the end with `run()`.

    Args:
        config: the configuration of the run, see `hocket.train`.
        task, rewards, workflow: objects that replace those that the configuration names.
        observer: receives the events of the run.
        report: writes the report of a finished run, given its folder; None writes no report.
        resume: continue the run `config.runs`/`config.run` from its newest valid checkpoint.
        start_over: with `resume`, set its checkpoints aside and begin again at step 0.

    Attributes:
        parts: everything that a step reads or changes. progress: the steps and results so far. recorder: writes into
            `folder`.
        ended: how the run ended, `unfinished` before.
    """

    def __init__(
        self,
        config: Config,
        *,
        task: Task | None = None,
        rewards: Sequence[Reward] = (),
        workflow: Any = None,
        observer: Observer | None = None,
        report: Callable[[Path], object] | None = None,
        resume: bool = False,
        start_over: bool = False,
    ) -> None:
        self.observer: Observer = observer or NullObserver()
        self.task = task or tasks.find(config.task)
        self._report, self._new = report, not resume
        stem = f"{Path(config.task).stem.replace(':', '-').lower()}-{config.recipe.name}"
        self.folder = RunFolder.open(Path(config.runs), config.run, stem=stem, resume=resume)
        MEDIA.attach(self.folder.media)
        # Chat templates that contain today's date use the date of the run's first day.
        day = datetime.date.today().isoformat() if kind_of(self.task, config).textual else None
        settled = configuration.settled(config, self.task)
        self.config = dataclasses.replace(settled, run=self.folder.path.name, date=config.date or day)
        self._given, self._revived = (rewards, workflow), 0
        self.ended = "unfinished"
        try:
            self._begin(rewards, workflow, resume=resume, start_over=start_over)
        except BaseException:
            self.folder.abandon(new=not resume)
            raise

    def _begin(self, rewards: Sequence[Reward], workflow: Any, *, resume: bool, start_over: bool = False) -> None:
        """Builds the parts of the run, from the newest checkpoint if it resumes."""
        config = self.config
        if not resume:
            check_threads(config.threads)
        check_learners(config)
        check_samplers(config, workflow)
        for recipe, _ in config.phases:
            check_examples(recipe, self.task)
        self.recorder = Recorder(self.folder, self.observer.said)
        if not resume:
            self.recorder.config(config)
        self.progress = Progress()
        newest = self._newest(start_over=start_over) if resume else None
        self.resources = Resources(config, kind_of(self.task, config), self.recorder, resume=resume)
        journal, precision = self.recorder.journal, self.machine.precision
        self.parts = build_parts(
            config,
            self.task,
            rewards=rewards,
            workflow=workflow,
            weights=weights_in(newest),
            journal=journal,
            precision=precision,
            judge=judge_of(config, journal, precision),
            embedder=embedder_of(config, journal),
        )
        unseen = [*left_out(config, self.task), *check_rows(config, self.parts)]
        self.resources.plan_memory(self.task, self.parts.player, self.parts.learners.values())
        parts = parts_of(config, self.parts.learners)
        place = place_of(config, sum(part.size for part in parts))
        self.groups = PolicyGroups(config, parts, precision, place)
        if config.shard:
            self._gathering()
        self.samplers = self._spread(precision, place) if config.samplers else None
        self.overlap = self._beside()
        if newest is not None:
            self._restore(newest)
        begin_store(self.parts)
        done = self.progress.step
        if self.total_steps < done:
            raise ConfigurationError(f"steps = {self.total_steps}: run {self.folder.name} has done {done}; set more")
        if resume:
            self.recorder.config(config)
        self.groups.stand(self.progress.phase, self.parts.learners)
        self.recorder.begin(config.track, done, kept=newest is not None, resume=resume)
        self.lookout = Watch.over(read_metrics(self.folder.metrics), config.phase_of)
        self.evaluations = Evaluations(config, self.progress, self.say)
        remarks = kind_of(self.task, config).remarks(config, self.task, workflow)
        remarks = [*remarks, *self.groups.remarks, *unseen, *unmet_sizes(config, self.parts.player)]
        remarks += adapters.warnings(self.parts.learners)
        for remark in () if resume else remarks:
            self.say(remark)
        self._clock = time.monotonic()
        if self.overlap is not None and done < self.total_steps:
            warning = None if resume else advice(config)
            if warning is not None:
                self.say(warning)
            self.overlap.start()
        if self.samplers is not None and done < self.total_steps:
            self.samplers.start()

    def _newest(self, *, start_over: bool) -> Path | None:
        """The checkpoint to resume from; None if the run begins again. Checkpoints of later steps are set aside.

        Raises:
            HocketError: when no checkpoint is usable, and the run is not to start over.
        """
        checkpoints = self.recorder.checkpoints
        newest = None if start_over else checkpoints.latest()
        if newest is None and not start_over:
            done = max((row["step"] for row in read_metrics(self.folder.metrics)), default=0)
            # Before the first checkpoint was due, having none is normal; a later or finished run must have one.
            if done > self.config.checkpoint.steps or self._ended():
                raise HocketError(
                    f"{checkpoints.folder} has no checkpoint, though the run has made {done} steps; put back a copy, "
                    f"or begin it again: hocket train --resume {self.folder.path} --start-over"
                )
        for aside in checkpoints.set_aside(newest):
            self.say(f"a checkpoint that is not used was renamed to {aside}; delete it when you do not need it")
        if newest is None:
            self.say("there is no checkpoint to continue from: the run begins again at step 0")
        return newest

    def _ended(self) -> bool:
        """Whether the run has ended after at least one step; a run of no steps has no checkpoint."""
        return self.folder.summary.is_file() and read_json(self.folder.summary).get("steps") != 0

    def _gathering(self) -> None:
        """Makes this process sample from gathered weights, since each learner holds only a shard."""
        check_shared(self.parts.learners)
        assert isinstance(self.parts.player, TextPlayer)
        self.parts.player = dataclasses.replace(self.parts.player, weights=lambda: gathered(self.parts))

    def _spread(self, precision: Precision, place: Host) -> Samplers:
        """Starts sampler processes, which play for this process."""
        samplers = Samplers(self.config, precision, self.task, lambda: self.parts.learners, self.say, place)
        self.parts.player = spread(self.parts.player, samplers)
        return samplers

    def _beside(self) -> BackgroundSampler | None:
        """The object that samples while this process learns; None if sampling and learning alternate."""
        config = self.config
        if not config.behind:
            return None
        if self.samplers is None:
            return Overlap(config, self.parts)
        if config.order == "arrival":
            for recipe, _ in config.phases:
                check_order(recipe, list(self.parts.learners))
            if config.interrupt and not isinstance(self.parts.player, TextPlayer):
                raise ConfigurationError(
                    f"interrupt: answers in text are interrupted, and task {config.task} has none; drop it"
                )
            note, interrupt = self.recorder.schedule, config.interrupt
            return Arrival(config.overlap, self.parts, self.samplers, note, interrupt=interrupt)
        return LaggedSampling(config.overlap, self.parts, self.samplers)

    @property
    def machine(self) -> Machine:
        """The settings chosen for this machine."""
        return self.resources.machine

    @property
    def measure(self) -> Measure:
        """The number that evaluation averages in the current phase."""
        return self.parts.measure

    def say(self, message: str) -> None:
        """Passes a message on to the observer and writes it to `messages.txt`."""
        self.recorder.say(message)

    # ------------------------------------------------------------ stepping

    @property
    def total_steps(self) -> int:
        return self.config.total_steps

    @property
    def done(self) -> bool:
        return self.progress.step >= self.total_steps and bool(self.progress.before)

    def step(self) -> dict[str, Any]:
        """Runs the initial evaluation, on later calls one training step; returns the metrics row.

        If a new run fails with a `ConfigurationError` before its first step is done, its folder is removed.
        """
        try:
            with listening(self.say):
                row = self._step()
            self._revived = 0
            return row
        except PeerLost as error:
            self._revive(error)
            return self.step()
        except ConfigurationError:
            if self._new and not self.progress.step:
                self._close()
                self.folder.abandon(new=True)
            raise

    def _revive(self, error: PeerLost) -> None:
        """Resumes from the newest checkpoint with new processes; the results equal those of an undisturbed run.

        Raises:
            PeerLost: `error` itself, when three attempts in a row have failed.
        """
        self._revived += 1
        if self._revived > 3:
            raise error
        self._close()
        self.recorder.journal.close()
        self._begin(*self._given, resume=True)
        self.say(f"{str(error).partition(';')[0]}; the run continues from step {self.progress.step} with new processes")

    def _step(self) -> dict[str, Any]:
        if not self.progress.before:
            return self._log(0, self._evaluate(0))
        step = self.progress.step + 1
        self._enter_phase(step)
        self.resources.begin(self.parts.learners.values(), step)
        result = self._train(step)
        self.progress.step = step
        trained = [name for name, learner in self.parts.learners.items() if not learner.frozen]
        silences.note(self.progress.heard, result, step, trained)
        spared = self.resources.adapt(self.parts.learners.values(), step)
        due = self.evaluations.due(step)
        metrics = result.metrics | (self._evaluate(step) if due else {})
        row = self._log(step, metrics | self.machine.peak())
        status = self.groups.status() | ({} if self.samplers is None else self.samplers.status())
        if status:
            status |= self.overlap.status() if isinstance(self.overlap, Arrival) else {}
            self.folder.write_json(self.folder.cluster, status)
        for message in (*result.messages, *silences.begun(self.progress.heard, step)):
            self.say(f"step {step}: {message}")
        if due or step == 1:
            self._pause()
            self.recorder.episodes(step, result, self.parts)
        best = self.progress.best.get("step") == step
        # After a step was repeated in smaller parts, a resume must not replay it in larger ones.
        late = self.recorder.checkpoint_due(self.config.checkpoint, step)
        if late or best or spared or step == self.total_steps:
            self.save(best=best)
        return row

    def drive(self, stop: Callable[[], str | None]) -> str:
        """Runs steps to the end, or until `stop` gives a reason to end early. Returns how the run ended, see `finish`.

        `stop` is called before every step. A run that ends early has a checkpoint of its last step.
        """
        early = None
        try:
            self.observer.started(self)
            while not self.done and (early := stop()) is None:
                self.observer.stepped(self, self.step())
        except BaseException:
            self._close()
            self.folder.release()
            raise
        if early is not None:
            self.save()
        return self.finish(early or "finished")

    def run(self) -> None:
        """Runs all steps, then writes the summary and the report.

        Raises:
            HocketError: at the end, when the run has failed because nothing could be learnt.
        """
        ended = self.drive(lambda: None)
        if not self.saved:
            warnings.warn(UNSAVED, RuntimeWarning, stacklevel=2)
        if ended == FAILED:
            raise HocketError(str(silences.failure(self.progress)))

    def _train(self, step: int) -> StepResult:
        try:
            if self.overlap is not None:
                return self.overlap.step(step, phase_end=self.config.phase_end(step), last=self.total_steps)
            return run_async(train_step(self.parts, step))
        except (HocketError, MemoryError, RuntimeError) as error:
            self._close()
            if out_of_memory(error):
                raise HocketError(
                    f"out of memory in step {step}: lower rollout.samples, curriculum.prompts or decoding.max_tokens"
                ) from error
            if (fault := lost(error)) is not None:
                raise HocketError(
                    f"the device failed in step {step} ({fault}); once it computes again, go on from the last "
                    f"checkpoint with hocket train --resume {self.folder.path}"
                ) from error
            raise

    def _pause(self) -> None:
        """Waits for concurrent sampling to pause: player, task and rewards allow one user at a time."""
        if self.overlap is not None:
            self.overlap.pause()

    def _enter_phase(self, step: int) -> None:
        """Enters the phase of `step` if it is new: a new recipe from the current weights, with a new reference."""
        phase = self.config.phase_of(step)
        if phase != self.progress.phase:
            self.progress.phase = phase
            self.groups.gather(self.parts.learners)
            self.parts.begin_phase(phase, self._learners(phase))
            seat_references(self.config, self.parts)
            self.groups.stand(phase, self.parts.learners)

    def _learners(self, phase: int) -> dict[str, Learner]:
        policies = {name: learner.policy for name, learner in self.parts.learners.items()}
        recipe = self.config.phases[phase][0]
        return build_learners(self.config, policies, recipe, self.parts.judge, journal=self.parts.journal)

    def _log(self, step: int, metrics: dict[str, float]) -> dict[str, Any]:
        clock = time.monotonic()
        self.progress.elapsed += clock - self._clock
        self._clock = clock
        row = {"step": step, **metrics, "time/total": self.progress.elapsed}
        warning = self.lookout.see(row, self.progress.phase)
        row |= self.lookout.metrics()
        self.recorder.metrics(row)
        if warning is not None:
            self.say(f"step {step}: {warning}")
        return row

    # ------------------------------------------------------------ evaluation

    def evaluate(self, n: int | None = None) -> EvaluationResult:
        """Evaluates the current weights on `n` scenarios, see `hocket.train.unseen_scenarios.measured_by_run`."""
        self._pause()
        return measured_by_run(self.parts, full=self.config.evaluation.n, n=n)

    def _evaluate(self, step: int) -> dict[str, float]:
        result = self.evaluate(self.evaluations.size(step))
        metrics = self.evaluations.record(step, result)
        usual = kind_of(self.task, self.config).picture
        self.recorder.pictures(step, result, getattr(self.task, "picture", usual))
        return metrics

    # ------------------------------------------------------------ checkpoints and summary

    def save(self, *, best: bool = False) -> Path | None:
        """Writes a checkpoint. A failed write is reported, and the previous checkpoint stays."""
        learners = self.parts.learners
        policies = {name: learner.policy.save for name, learner in learners.items()}
        if self.progress.phase:
            references = {n: learner.reference for n, learner in learners.items() if learner.reference is not None}
            policies |= {name + REFERENCE: reference.save for name, reference in references.items()}
        return self.recorder.checkpoint(self.progress.step, self.state(), policies, best=best, store=self.parts.store)

    def finish(self, reason: str) -> str:
        """Writes `summary.json` and the report, and unlocks the run folder. Returns how the run ended.

        That is `reason`, with two exceptions. A finished run has `failed` if nothing could ever be learnt, because
        rewards, episodes or verdicts were missing. A run is `unsaved` if its last checkpoint could not be written, not
        even by a second attempt.
        """
        failed = silences.failure(self.progress) if reason == "finished" else None
        self.ended = reason if failed is None else FAILED
        for sentence in silences.notes(self.progress) if failed is None else [failed]:
            self.say(sentence)
        with contextlib.suppress(PeerLost):
            self.groups.gather(self.parts.learners)
        if not self.saved and self.save() is None:
            self.ended = "unsaved"
            self.say(UNSAVED)
        self._close()
        try:
            self.recorder.finish(self.summary(self.ended))
            if self._report is not None:
                self._report(self.folder.path)
        finally:
            self.folder.release()
        return self.ended

    def _close(self) -> None:
        """Ends the other processes of the run."""
        if self.overlap is not None:
            self.overlap.close()
        self.groups.close()
        if self.samplers is not None:
            self.samplers.close()

    @property
    def saved(self) -> bool:
        """Whether the last checkpoint that was due or requested was written."""
        return self.recorder.saved

    def summary(self, reason: str) -> RunSummary:
        """The content of `summary.json`."""
        leads = leads_of(self.task) or GREEDY
        results = summary(self.config, kind_of(self.task, self.config), self.progress, reason, self.measure, leads)
        if reach := adapters.summary(self.parts.learners):
            results["adapters"] = reach
        return {**results, "watch": self.lookout.since, "notes": silences.notes(self.progress)}

    def state(self) -> State:
        """Everything except weights and the rows of a store, as one tree."""
        remembered = remembering.memories(self.parts.rewards)
        return {
            "progress": dataclasses.asdict(self.progress),
            "asked": self.parts.asked,
            "ledger": self.parts.ledger.state(),
            "learners": {name: learner.state() for name, learner in self.parts.learners.items()},
            **({} if self.overlap is None else {"overlap": self.overlap.state()}),
            "hooks": self.parts.hooks.state(self.parts),
            **({"rewards": remembered} if remembered else {}),
            **({"objects": objects} if (objects := self._objects()) else {}),
        }

    def _objects(self) -> list[str]:
        """Kind and name of the rewards and workflow that are objects, which the configuration cannot hold."""
        rewards, workflow = self._given
        named = [f"reward {reward.name}" for reward in rewards]
        return named + ([] if workflow is None else [f"workflow {getattr(workflow, 'name', type(workflow).__name__)}"])

    @property
    def python_objects(self) -> dict[str, Any]:
        """The task, and the rewards and workflow that are objects, as keywords of `hocket.load`."""
        rewards, workflow = self._given
        return {"task": self.task, "rewards": tuple(rewards), "workflow": workflow}

    def _restore(self, checkpoint: Path) -> None:
        state = self.recorder.checkpoints.load(checkpoint)
        if missing := sorted(set(state.get("objects", ())) - set(self._objects())):
            raise ConfigurationError(
                f"{self.folder.path} was made in Python with objects that its configuration cannot hold "
                f"({', '.join(missing)}); go on in Python: hocket.train(resume=RUN, reward=..., workflow=...)"
            )
        # Checkpoints of earlier versions have no record of opinions; assume that there were some.
        self.progress = Progress(**{"heard": {silences.EPISODE: state["progress"]["step"]}, **state["progress"]})
        self.parts.asked = int(state["asked"])
        self.parts.ledger.restore(state["ledger"])
        if self.progress.phase:
            self.parts.enter_phase(self.progress.phase, self._learners(self.progress.phase))
            seat_references(self.config, self.parts)
        self.parts.rewards = remembering.restored(self.parts.rewards, state.get("rewards", {}))
        if "store" in state:
            self.parts.store = restored_store(state["store"], checkpoint.parent)
        self.parts.hooks.restore(state["hooks"], self.parts)
        folders = Checkpoints.policies(checkpoint)
        for name, learner in self.parts.learners.items():
            learner.restore(state["learners"][name])
            if learner.reference is not None and name + REFERENCE in folders:
                learner.reference.load(folders[name + REFERENCE])
        if self.overlap is not None:
            self.overlap.restore(state["overlap"])


def _found(run: Path, name: str) -> Task:
    """The task of this name."""
    try:
        return tasks.find(name)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}; if it was an object in Python, go on there: hocket.train(TASK, resume={str(run)!r})"
        ) from None


def resumed(
    run: Path, *, steps: int | None = None, track: Sequence[str] = (), trust: bool = False, **keywords: Any
) -> Trainer:
    """The trainer of an existing run, at its newest valid checkpoint. Only `steps` and `track` may change.

    Raises:
        ConfigurationError: when `run` is no run folder, or names foreign code and `trust` is not set.
        HocketError: when all its checkpoints are damaged or missing, unless `start_over` is set.
    """
    file = run / "config.yaml"
    if not file.is_file():
        raise ConfigurationError(f"there is no run in {run}: it has no config.yaml")
    pairs = run_pairs(run, trust=trust)
    if "task" not in dict(pairs):
        raise ConfigurationError(
            f"{file} names no task, so it is not the whole configuration of a run; put back a copy"
        )
    task = keywords.pop("task", None) or _found(run, dict(pairs)["task"])
    config = configuration.configure(pairs, task)
    config = dataclasses.replace(config, runs=str(run.parent), run=run.name)
    if steps is not None:
        config = configuration.lengthened(config, steps)
    if track:
        config = dataclasses.replace(config, track=tuple(track))
    return Trainer(config, task=task, resume=True, **keywords)
