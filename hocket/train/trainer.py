"""The steppable trainer: steps, evaluations, checkpoints and the run folder. It never owns `main`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hocket import tasks
from hocket.core.aliases import present_state
from hocket.core.outcomes import StepResult, total_reward
from hocket.errors import ConfigurationError, HocketError
from hocket.stages import Reward, State, Task
from hocket.train import config as configuration
from hocket.train.adapting import Adapting, in_words
from hocket.train.aio import run_async
from hocket.train.assemble import build_learners, build_parts, configured_models, seat_references
from hocket.train.checkpoint import CheckpointError, Checkpoints
from hocket.train.config import Config
from hocket.train.episodes import write_episodes
from hocket.train.evaluate import Evaluated, evaluate
from hocket.train.journal import Journal
from hocket.train.loop import train_step
from hocket.train.machine import Change, Machine, told_threads
from hocket.train.memory import planned
from hocket.train.overlap import Overlap, advice, halved
from hocket.train.runfolder import RunFolder
from hocket.train.sparing import out_of_memory
from hocket.train.tracking import MetricsLog, Tracker, open_trackers
from hocket.types import Trajectory
from hocket.workflows import SingleTurn

REFERENCE = "-reference"
"""Ends the name under which a checkpoint keeps a reference that is not the configured model."""

FEW = 50
"""Fewer unseen problems than this are worth a warning."""

SHOWN = 8
"""Answers shown before and after training."""


class Observer(Protocol):
    """Who watches a run: the live display, or nobody."""

    def started(self, trainer: Trainer) -> None: ...
    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None: ...
    def said(self, message: str) -> None: ...


class Nobody:
    """Watches nothing."""

    def started(self, trainer: Trainer) -> None:
        pass

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        pass

    def said(self, message: str) -> None:
        pass


@dataclass
class Progress:
    """Where a run stands; part of every checkpoint.

    Attributes:
        step: steps done. phase: the phase they ended in. elapsed: seconds of training over all sessions.
        before, after: summaries of the first and the latest evaluation. best: the best one and its step.
        shown: some problems and their answers before training; answers: those after.
    """

    step: int = 0
    phase: int = 0
    elapsed: float = 0.0
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    best: State = field(default_factory=dict)
    shown: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)


class Trainer:
    """Trains by a configuration, one `step()` at a time, or to the end with `run()`.

    Args:
        config: what to do; a `Config`, see `hocket.train`.
        task, rewards, workflow: objects that replace what the configuration names.
        observer: is told what happens.
        resume: continue the run that `config.runs`/`config.run` names from its newest valid checkpoint.
    """

    def __init__(
        self,
        config: Config,
        *,
        task: Task | None = None,
        rewards: Sequence[Reward] = (),
        workflow: Any = None,
        observer: Observer | None = None,
        resume: bool = False,
    ) -> None:
        self.observer: Observer = observer or Nobody()
        self.task = task or tasks.find(config.task)
        self.folder = RunFolder.open(Path(config.runs), config.run, stem=_stem(config), resume=resume)
        self.config = dataclasses.replace(configuration.settled(config, self.task), run=self.folder.path.name)
        try:
            self._begin(rewards, workflow, resume=resume)
        except BaseException:
            self.folder.abandon(new=not resume)
            raise

    def _begin(self, rewards: Sequence[Reward], workflow: Any, *, resume: bool) -> None:
        """Builds everything in the run folder, from the newest checkpoint where there is one."""
        config = self.config
        if not resume:
            # With it the folder is a run, which can be resumed however early it was stopped.
            self.folder.write_text(self.folder.config, configuration.dump(config))
        self.journal = Journal(self.folder.journal)
        self.log = MetricsLog(self.folder.metrics)
        self.checkpoints = Checkpoints(self.folder.checkpoints, on_problem=self.say)
        self.progress = Progress()
        newest = self.checkpoints.latest() if resume else None
        self.machine = self._choose(resume=resume)
        self.machine.apply()
        self.parts = build_parts(
            config,
            self.task,
            rewards=rewards,
            workflow=workflow,
            weights=weights_in(newest),
            journal=self.journal,
            precision=self.machine.precision,
        )
        self._choose_memory()
        self.adapting = Adapting(pinned=config.threads is not None or told_threads() is not None)
        self.overlap = Overlap(config, self.parts) if config.overlap else None
        if newest is not None:
            self._restore(newest)
        done = self.progress.step
        if self.total_steps < done:
            raise ConfigurationError(f"steps = {self.total_steps}: run {self.folder.name} has done {done}; set more")
        if resume:
            self.folder.write_text(self.folder.config, configuration.dump(config))
        after = self.progress.step if newest is not None else -1
        self.log.truncate(after)
        self.trackers: list[Tracker] = open_trackers(config.track, self.folder.path, after=after if resume else None)
        self._saved_step, self._saved_at = self.progress.step, time.monotonic()
        self._clock = time.monotonic()
        if self.overlap is not None and self.progress.step < self.total_steps:
            warning = None if resume else advice(config)
            if warning is not None:
                self.say(warning)
            self.overlap.start()

    # ------------------------------------------------------------ stepping

    @property
    def total_steps(self) -> int:
        return self.config.total_steps

    @property
    def done(self) -> bool:
        return self.progress.step >= self.total_steps and bool(self.progress.before)

    def step(self) -> dict[str, Any]:
        """The evaluation before training when nothing was done yet, else one training step; returns its metrics row."""
        if not self.progress.before:
            return self._log(0, self._evaluate(0))
        step = self.progress.step + 1
        self._enter_phase(step)
        self.adapting.begin(self.machine, self.parts.learners.values(), step)
        result = self._train(step)
        self.progress.step = step
        changes = self._adapt(step)
        metrics = result.metrics | (self._evaluate(step) if self._evaluation_due(step) else {})
        row = self._log(step, metrics | self.machine.peak())
        for message in result.messages:
            self.say(f"step {step}: {message}")
        if self._evaluation_due(step) or step == 1:
            self._pause()
            self._record(step, result)
        # A step that was redone in smaller parts must not be replayed in larger ones.
        spared = any(change.step == step for change in changes)
        self._checkpoint_if_due(step, best=self.progress.best.get("step") == step, now=spared)
        return row

    def run(self) -> None:
        """Steps to the end and writes the summary and the report."""
        self.observer.started(self)
        while not self.done:
            self.observer.stepped(self, self.step())
        self.finish("finished")

    def _train(self, step: int) -> StepResult:
        try:
            if self.overlap is not None:
                onward = _phase_of(self.config, step + 1) == self.progress.phase
                return self.overlap.step(step, onward=onward, last=step >= self.total_steps)
            return run_async(train_step(self.parts, step))
        except (MemoryError, RuntimeError) as error:
            if out_of_memory(error):
                raise HocketError(
                    f"out of memory in step {step}: lower rollout.samples, curriculum.prompts or decoding.max_tokens"
                ) from error
            raise

    def _pause(self) -> None:
        """Waits for what is collected beside the steps: player, task and rewards serve one at a time."""
        if self.overlap is not None:
            self.overlap.pause()

    def _enter_phase(self, step: int) -> None:
        """Begins the phase that `step` lies in: a new recipe from the weights reached, with a fresh reference."""
        phase = _phase_of(self.config, step)
        if phase == self.progress.phase:
            return
        self.progress.phase = phase
        policies = {name: learner.policy for name, learner in self.parts.learners.items()}
        self.parts.begin_phase(build_learners(self.config, policies, self.config.phases[phase][0]))
        seat_references(self.config, self.parts)

    # ------------------------------------------------------------ evaluation

    def _evaluation_due(self, step: int) -> bool:
        every = self.config.evaluation.every
        return step == self.total_steps or (every > 0 and step % every == 0)

    def evaluate(self, n: int | None = None) -> Evaluated:
        """Greedy success on `n` unseen scenarios with the current weights."""
        self._pause()
        parts, whole = self.parts, self.config.evaluation.n
        work = evaluate(
            self.task,
            parts.player,
            parts.rewards,
            n=n or whole,
            among=whole,
            decoding=parts.decoding,
            key=parts.key.derive("evaluation"),
            journal=parts.journal,
        )
        return run_async(work)

    def _evaluate(self, step: int) -> dict[str, float]:
        ends = step in (0, self.total_steps)
        found = self.evaluate(self.config.evaluation.n if ends else self.config.evaluation.between)
        if step == 0:
            _check_possible(found)
        now = {**found.summary(), "step": step}
        self.progress.after = now
        if step == 0:
            self.progress.before = now
            self.progress.shown = _in_words(found)
            if self.task.kind == "text" and found.n < FEW:
                self.say(f"only {found.n} unseen problems to measure on: differences of some ten points are noise")
            cut = [played.info["limit"] for played in found.trajectories if "limit" in played.info]
            if cut and len(cut) == len(found.trajectories):
                self.say(f"all {len(cut)} episodes before training were cut short: {cut[0]}")
        if ends and step:
            self.progress.answers = _in_words(found)
        # There is no checkpoint of step 0, so the best is one of those after it.
        if step and (not self.progress.best or found.success >= self.progress.best["success"]):
            self.progress.best = {"success": found.success, "step": step}
        return {**found.metrics(), "time/evaluate": found.seconds}

    # ------------------------------------------------------------ what is written

    def say(self, message: str) -> None:
        """Tells the observer, and keeps the sentence in `messages.txt`."""
        self.folder.append_message(message)
        self.observer.said(message)

    def _choose(self, *, resume: bool) -> Machine:
        """What this machine does best, or what an earlier session of the run settled on."""
        if resume and self.folder.machine.is_file():
            return Machine.recorded(self.folder.machine)
        models = configured_models(self.config) if self.task.kind == "text" else []
        machine = Machine.chosen(self.config, models)
        return halved(machine, self.config) if self.config.overlap else machine

    def _choose_memory(self) -> None:
        """Completes the choices of a new run and records them."""
        learners = self.parts.learners.values()
        if not self.machine.memory.why:
            several = not isinstance(getattr(self.parts.player, "workflow", SingleTurn()), SingleTurn)
            memory = planned(self.config, self.task, learners, several_turns=several)
            self.machine = dataclasses.replace(self.machine, memory=memory)
            self.folder.write_json(self.folder.machine, self.machine.to_json())

    def _adapt(self, step: int) -> list[Change]:
        """What the machine made necessary in `step`, recorded and told."""
        changes = self.adapting.changes(self.parts.learners.values(), step)
        for change in changes:
            self.machine = self.machine.changed(change)
            self.say(in_words(change))
        if changes:
            self.folder.write_json(self.folder.machine, self.machine.to_json())
        advice = self.adapting.advice()
        if advice is not None:
            self.say(advice)
        return changes

    def _log(self, step: int, metrics: dict[str, float]) -> dict[str, Any]:
        now = time.monotonic()
        self.progress.elapsed += now - self._clock
        self._clock = now
        row = {"step": step, **metrics, "time/total": self.progress.elapsed}
        self.log.append(row)
        for tracker in self.trackers:
            tracker.log(row)
        return row

    def _record(self, step: int, result: StepResult) -> None:
        decode = getattr(self.parts.player, "decode", None)  # Players without words have none.
        rewards = [total_reward(trajectory, self.parts.weights) for trajectory in result.trajectories]
        write_episodes(
            self.folder.episodes(step),
            step,
            result.trajectories,
            result.batch,
            decode,
            rewards=rewards,
            discarded=result.discarded,
        )

    def _checkpoint_if_due(self, step: int, *, best: bool, now: bool) -> None:
        settings = self.config.checkpoint
        late = time.monotonic() - self._saved_at >= settings.seconds or step - self._saved_step >= settings.steps
        if late or best or now or step == self.total_steps:
            self.save(best=best)

    def save(self, *, best: bool = False) -> Path | None:
        """Writes a checkpoint now; a failed write is reported and the run goes on with the one before."""
        self._saved_step, self._saved_at = self.progress.step, time.monotonic()
        learners = self.parts.learners
        policies = {name: learner.policy.save for name, learner in learners.items()}
        if self.progress.phase:
            references = {n: learner.reference for n, learner in learners.items() if learner.reference is not None}
            policies |= {name + REFERENCE: reference.save for name, reference in references.items()}
        try:
            return self.checkpoints.save(self.progress.step, self.state(), policies, best=best)
        except CheckpointError as error:
            self.say(str(error))
            return None

    def finish(self, reason: str) -> None:
        """Writes `summary.json` and `report.html`, and lets go of the run folder."""
        if self.overlap is not None:
            self.overlap.close()
        self.folder.write_json(self.folder.summary, self.summary(reason))
        for tracker in self.trackers:
            tracker.close()
        from hocket.report.page import write_report  # Needed once, at the end: a run starts faster without it.

        write_report(self.folder.path)
        self.folder.release()

    def summary(self, reason: str) -> dict[str, Any]:
        """What `summary.json` holds."""
        progress, config = self.progress, self.config
        name = "accuracy" if self.task.kind == "text" else "return"
        before, after = progress.before.get(name), progress.after.get(name)
        return {
            "name": self.folder.path.name,
            "task": config.task,
            "recipe": config.method,
            "model": config.model if self.task.kind == "text" else "a small network",
            "seed": config.seed,
            "steps": progress.step,
            "seconds": progress.elapsed,
            "measure": name,
            "before": progress.before,
            "after": progress.after,
            "gain": None if before is None or after is None else after - before,
            "best": progress.best,
            "samples": [
                {
                    "prompt": first["prompt"],
                    "answer": first["answer"],
                    "before": first["text"],
                    "after": last["text"],
                    "right_before": first["right"],
                    "right_after": last["right"],
                }
                for first, last in zip(progress.shown, progress.answers, strict=False)
            ],
            "reason": reason,
        }

    # ------------------------------------------------------------ state

    def state(self) -> State:
        """Everything but weights, as one tree."""
        return {
            "progress": dataclasses.asdict(self.progress),
            "asked": self.parts.asked,
            "ledger": self.parts.ledger.state(),
            "learners": {name: learner.state() for name, learner in self.parts.learners.items()},
            **({} if self.overlap is None else {"overlap": self.overlap.state()}),
            "hooks": self.parts.hooks.state(self.parts),
        }

    def _restore(self, checkpoint: Path) -> None:
        state = present_state(self.checkpoints.load(checkpoint))
        self.progress = Progress(**state["progress"])
        self.parts.asked = int(state["asked"])
        self.parts.ledger.restore(state["ledger"])
        if self.overlap is not None:
            self.overlap.restore(state["overlap"])
        if self.progress.phase:
            policies = {name: learner.policy for name, learner in self.parts.learners.items()}
            recipe = self.config.phases[self.progress.phase][0]
            self.parts.learners = build_learners(self.config, policies, recipe)
            seat_references(self.config, self.parts)
        self.parts.hooks.restore(state["hooks"], self.parts)
        kept = Checkpoints.policies(checkpoint)
        for name, learner in self.parts.learners.items():
            learner.restore(state["learners"][name])
            if learner.reference is not None and name + REFERENCE in kept:
                learner.reference.load(kept[name + REFERENCE])


def _stem(config: Config) -> str:
    return f"{Path(config.task).stem.replace(':', '-').lower()}-{config.recipe.name}"


def _phase_of(config: Config, step: int) -> int:
    ends = 0
    for number, (_, steps) in enumerate(config.phases):
        ends += steps
        if step <= ends:
            return number
    return len(config.phases) - 1


def weights_in(checkpoint: Path | None) -> dict[str, Path]:
    """The policy folders of a checkpoint by policy name, references aside."""
    if checkpoint is None:
        return {}
    found = Checkpoints.policies(checkpoint)
    return {name: folder for name, folder in found.items() if not name.endswith(REFERENCE)}


def _check_possible(found: Evaluated) -> None:
    """Refuses to train where not one episode came to anything.

    Raises:
        HocketError: with the first one's reason.
    """
    played = found.trajectories
    if any(trajectory.length and trajectory.failure is None for trajectory in played):
        return
    reasons = [trajectory.failure or trajectory.info.get("limit") for trajectory in played]
    reason = next((reason for reason in reasons if reason), "no decision was made in any of them")
    raise HocketError(f"none of the {len(played)} episodes before training came to anything: {reason}")


def _in_words(found: Evaluated) -> list[State]:
    """The first problems of an evaluation and what was answered; none where nothing is said."""
    return [
        {
            "prompt": _prompt(trajectory),
            "answer": None if trajectory.scenario.answer is None else str(trajectory.scenario.answer),
            "text": trajectory.text,
            "right": success > 0.5,
        }
        for trajectory, success in zip(found.trajectories[:SHOWN], found.each, strict=False)
        if trajectory.scenario.prompt is not None
    ]


def _prompt(trajectory: Trajectory) -> str:
    return "\n".join(str(message["content"]) for message in trajectory.scenario.messages)


def resumed(run: Path, *, steps: int | None = None, track: Sequence[str] = (), **keywords: Any) -> Trainer:
    """The trainer of an existing run, at its newest valid checkpoint. Only `steps` and `track` may change.

    Raises:
        ConfigurationError: when `run` is no run folder.
    """
    file = run / "config.yaml"
    if not file.is_file():
        raise ConfigurationError(f"there is no run in {run}: it has no config.yaml")
    pairs = configuration.read_pairs(file)
    task = keywords.pop("task", None) or tasks.find(dict(pairs)["task"])
    config = configuration.configure(pairs, task)
    config = dataclasses.replace(config, runs=str(run.parent), run=run.name)
    if steps is not None:
        config = configuration.lengthened(config, steps)
    if track:
        config = dataclasses.replace(config, track=tuple(track))
    return Trainer(config, task=task, resume=True, **keywords)
