"""The files of a run: messages, metrics, episodes and checkpoints in its folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket.core.errors import HocketError
from hocket.core.outcomes import StepResult, total_reward
from hocket.stages import State
from hocket.train import trust
from hocket.train.answers import sampled_answers
from hocket.train.checkpoint import CheckpointError, Checkpoints, SaveError, SavePolicy
from hocket.train.episodes import write_episodes
from hocket.train.evaluate import EvaluationResult
from hocket.train.journal import Journal
from hocket.train.loop import RunContext
from hocket.train.machine import Machine
from hocket.train.pictures import write_pictures
from hocket.train.runfolder import RunFolder
from hocket.train.settings import CheckpointSettings, Config
from hocket.train.tracking import MetricsLog, Tracker, open_trackers


class Recorder:
    """Writes into the folder of a run.

    Attributes:
        folder: the run's folder, locked. journal: results from outside the library. checkpoints: those on disk.
        saved: whether the last checkpoint was written.

    Args:
        folder: see above.
        on_message: called with every message that is written to `messages.txt`.
    """

    def __init__(self, folder: RunFolder, on_message: Callable[[str], None]) -> None:
        self.folder = folder
        self._on_message = on_message
        self.journal = Journal(folder.journal, self.say)
        self.checkpoints = Checkpoints(folder.checkpoints, on_problem=self.say)
        self._metrics = MetricsLog(folder.metrics)
        self._schedule = MetricsLog(folder.schedule, keys=()) if folder.schedule.is_file() else None
        self._trackers: list[Tracker] = []
        self._saved_step, self._saved_at = 0, time.monotonic()
        self.saved = True

    def begin(self, track: tuple[str, ...], step: int, *, kept: bool, resume: bool) -> None:
        """Prepares for the step after `step`. Drops rows of later steps, and all rows if no checkpoint was `kept`."""
        after = step if kept else -1
        self._metrics.truncate(after, self.say)
        if self._schedule is not None:
            self._schedule.truncate(after, self.say)
        self._trackers = open_trackers(track, self.folder.path, after=after if resume else None)
        self._saved_step, self._saved_at = step, time.monotonic()

    def say(self, message: str) -> None:
        """Passes a message on to `on_message` and writes it to `messages.txt`."""
        self.folder.append_message(message)
        self._on_message(message)

    def config(self, config: Config) -> None:
        """Writes `config.yaml`, which makes the run resumable, and signs the code that it names."""
        self.folder.write_text(self.folder.config, config.to_yaml())
        if problem := trust.sign(self.folder.config, tuple(config.plain().items())):
            self.say(problem)

    def schedule(self, row: Mapping[str, Any]) -> None:
        """Adds to `schedule.jsonl` the groups of a step."""
        self._schedule = self._schedule or MetricsLog(self.folder.schedule, keys=())
        self._schedule.append(row)

    def machine(self, machine: Machine) -> None:
        """Writes `machine.json`."""
        self.folder.write_json(self.folder.machine, machine.to_json())

    def metrics(self, row: Mapping[str, Any]) -> None:
        """Adds a row to `metrics.jsonl` and to the trackers."""
        self._metrics.append(row)
        for tracker in self._trackers:
            tracker.log(row)

    def episodes(self, step: int, result: StepResult, parts: RunContext) -> None:
        """Writes the trajectories of a step, and sends trackers a table of the answers.

        What fails is reported, and the run continues.
        """
        try:
            rows = write_episodes(
                self.folder.episodes(step),
                step,
                result.trajectories,
                result.batch,
                getattr(parts.player, "decode", None),  # Players without text have none.
                rewards=[total_reward(trajectory, parts.weights) for trajectory in result.trajectories],
                discarded=result.discarded,
            )
        except HocketError as error:
            self.say(f"the samples of step {step} are not kept: {error}")
            return
        for tracker in self._trackers:
            try:
                tracker.answers(step, sampled_answers(rows))
            except Exception as error:  # Whatever a service elsewhere raises: the numbers of the run do not need it.
                name = type(tracker).__name__.removesuffix("Tracker").lower()
                self.say(f"{name} has no table of the answers of step {step}: {' '.join(str(error).split())}")

    def pictures(self, step: int, result: EvaluationResult, sides: Sequence[int] | None) -> None:
        """Writes the pictures of an evaluation, where a task has some. A failed write is reported; the run goes on."""
        if sides is None:
            return
        try:
            write_pictures(self.folder.path, step, result, sides)
        except OSError as error:
            self.say(f"the pictures of step {step} are not kept: {error.strerror or error}")

    def checkpoint_due(self, settings: CheckpointSettings, step: int) -> bool:
        """Whether enough time or steps have passed since the last checkpoint."""
        return time.monotonic() - self._saved_at >= settings.seconds or step - self._saved_step >= settings.steps

    def checkpoint(
        self,
        step: int,
        state: State,
        policies: Mapping[str, SavePolicy],
        *,
        best: bool = False,
        store: State | None = None,
    ) -> Path | None:
        """Writes a checkpoint and returns its path. A failed write is reported, and the previous checkpoint stays.

        Raises:
            SaveError: when a policy cannot save itself and there is no previous checkpoint.
        """
        self._saved_step, self._saved_at = step, time.monotonic()
        try:
            path = self.checkpoints.save(step, state, policies, best=best, store=store)
        except CheckpointError as error:
            if isinstance(error, SaveError) and self.checkpoints.latest() is None:
                raise  # Nothing of this run would ever be on the disk.
            self.say(str(error))
            path = None
        self.saved = path is not None
        return path

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Writes `summary.json` and closes the trackers."""
        self.folder.write_json(self.folder.summary, summary)
        for tracker in self._trackers:
            tracker.close()
