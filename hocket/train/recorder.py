"""What a run leaves behind while it goes on: its folder, messages, metrics, episodes and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hocket.core.errors import HocketError
from hocket.core.outcomes import StepResult, total_reward
from hocket.stages import State
from hocket.train import config as configuration
from hocket.train import trust
from hocket.train.checkpoint import CheckpointError, Checkpoints, SavePolicy
from hocket.train.episodes import write_episodes
from hocket.train.journal import Journal
from hocket.train.loop import RunContext
from hocket.train.machine import Machine
from hocket.train.runfolder import RunFolder
from hocket.train.settings import CheckpointSettings, Config
from hocket.train.tracking import MetricsLog, Tracker, open_trackers


class Recorder:
    """Writes into the folder of a run.

    Attributes:
        folder: of the run, locked. journal: answers from outside. checkpoints: as they are on disk.
        saved: whether the last checkpoint that was to be written is on disk.

    Args:
        folder: see above.
        on_message: is given every sentence that is kept in `messages.txt`.
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
        """Ready for the step after `step`; rows of later steps are dropped, all where no checkpoint was `kept`."""
        after = step if kept else -1
        self._metrics.truncate(after, self.say)
        if self._schedule is not None:
            self._schedule.truncate(after, self.say)
        self._trackers = open_trackers(track, self.folder.path, after=after if resume else None)
        self._saved_step, self._saved_at = step, time.monotonic()

    def say(self, message: str) -> None:
        """Tells who watches, and keeps the sentence."""
        self.folder.append_message(message)
        self._on_message(message)

    def config(self, config: Config) -> None:
        """Writes `config.yaml`, with which the folder is a run that can be resumed, and signs what code it names."""
        self.folder.write_text(self.folder.config, configuration.dump(config))
        if problem := trust.sign(self.folder.config, tuple(configuration.plain(config).items())):
            self.say(problem)

    def schedule(self, row: Mapping[str, Any]) -> None:
        """Adds to `schedule.jsonl` what a step was made of."""
        self._schedule = self._schedule or MetricsLog(self.folder.schedule, keys=())
        self._schedule.append(row)

    def machine(self, machine: Machine) -> None:
        """Writes `machine.json`."""
        self.folder.write_json(self.folder.machine, machine.to_json())

    def metrics(self, row: Mapping[str, Any]) -> None:
        """Adds a row to `metrics.jsonl` and shows it to the trackers."""
        self._metrics.append(row)
        for tracker in self._trackers:
            tracker.log(row)

    def episodes(self, step: int, result: StepResult, parts: RunContext) -> None:
        """Writes the trajectories of a step. What the disk refuses is said, and the run goes on without."""
        try:
            write_episodes(
                self.folder.episodes(step),
                step,
                result.trajectories,
                result.batch,
                getattr(parts.player, "decode", None),  # Players without words have none.
                rewards=[total_reward(trajectory, parts.weights) for trajectory in result.trajectories],
                discarded=result.discarded,
            )
        except HocketError as error:
            self.say(f"the samples of step {step} are not kept: {error}")

    def checkpoint_due(self, settings: CheckpointSettings, step: int) -> bool:
        """Whether the last checkpoint is long enough ago."""
        return time.monotonic() - self._saved_at >= settings.seconds or step - self._saved_step >= settings.steps

    def checkpoint(
        self, step: int, state: State, policies: Mapping[str, SavePolicy], *, best: bool = False
    ) -> Path | None:
        """Writes a checkpoint; a failed write is reported, and the one before stays."""
        self._saved_step, self._saved_at = step, time.monotonic()
        try:
            found = self.checkpoints.save(step, state, policies, best=best)
        except CheckpointError as error:
            self.say(str(error))
            found = None
        self.saved = found is not None
        return found

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Writes `summary.json` and closes the trackers."""
        self.folder.write_json(self.folder.summary, summary)
        for tracker in self._trackers:
            tracker.close()
