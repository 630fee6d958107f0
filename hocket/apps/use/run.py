"""A run, finished or stopped, as its folder holds it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from hocket.apps.report.results import results_html, results_line
from hocket.apps.use.trained_policy import TrainedPolicy
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.yaml_text import load_yaml
from hocket.stages import Policy
from hocket.train.evaluate import EvaluationResult
from hocket.train.pipeline import find_pipeline
from hocket.train.progress import RunSummary
from hocket.train.runfolder import find_run
from hocket.train.tracking import read_metrics
from hocket.train.trainer import Trainer
from hocket.train.unseen_scenarios import measured_by_run

if TYPE_CHECKING:
    from hocket.apps.report.evaluation import EvaluationSubject
    from hocket.apps.report.reading import RunRecord
    from hocket.apps.use.run_figure import RunFigure


class Run:
    """A run. `hocket.train` returns one; `Run("runs/NAME")` opens one that has finished or stopped.

    A damaged file is reported when it is read, and a checkpoint is verified before it is loaded.

    Args:
        source: the folder of a run or a plan, or its name in `runs`. trust: lets a run of others execute the code that
            it names (docs/sharing.md).

    Attributes:
        path: its folder.
        phases: the folders of all phases, if each phase is a separate run; this run is then the last phase.

    Raises:
        ConfigurationError: when there is no such run.
    """

    def __init__(self, source: str | os.PathLike[str], *, runs: str = "runs", trust: bool = False) -> None:
        name = os.fspath(source)
        plan = find_pipeline(name, runs)
        self.phases: tuple[Path, ...] = () if plan is None else _phases(plan)
        self.path: Path = find_run(name, runs)
        self._trust = trust
        self._trainer: Trainer | None = None

    @classmethod
    def of(cls, trainer: Trainer, phases: Sequence[Path] = ()) -> Self:
        """The run that a trainer has finished."""
        run = cls(trainer.folder.path, trust=True)
        run._trainer, run.phases = trainer, tuple(phases)
        return run

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {results_line(self._record)})"

    def _repr_html_(self) -> str:
        return results_html(self._record)

    # ------------------------------------------------------------ what it recorded

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration, as in `config.yaml`.

        Raises:
            HocketError: when the file is damaged.
        """
        file = self.path / "config.yaml"
        try:
            data = load_yaml(file.read_text(encoding="utf-8"))
        except Exception as error:  # Whatever is wrong with the file.
            raise HocketError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(data, dict):
            raise HocketError(f"{file} holds no configuration; put back a copy")
        return data

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """One dict per step, as in `metrics.jsonl`."""
        return read_metrics(self.path / "metrics.jsonl")

    def frame(self) -> Any:
        """The metrics as a pandas `DataFrame`, a row per step and a column per metric.

        Raises:
            ConfigurationError: without pandas.
        """
        try:
            import pandas
        except ImportError:
            raise ConfigurationError("frame() needs pandas: pip install pandas, or use .metrics") from None
        rows = self.metrics
        return pandas.DataFrame(rows).set_index("step") if rows else pandas.DataFrame()

    @property
    def summary(self) -> RunSummary:
        """The results of the run, as in `summary.json`; of a stopped run what its metrics say."""
        if self._trainer is not None:
            return self._trainer.summary(self._trainer.ended)
        return cast(RunSummary, dict(self._record.summary))

    @property
    def episodes(self) -> list[dict[str, Any]]:
        """The samples that the run recorded, as in `rollouts/`: prompts, turns, rewards, advantages; by `step`."""
        record = self._record
        return [episode for step in record.steps for episode in record.episodes(step)]

    @property
    def _record(self) -> RunRecord:
        from hocket.apps.report.reading import read_run

        return read_run(self.path)

    def plot(self, *metrics: str) -> RunFigure:
        """The curves of the report, or those of some metrics: an SVG that notebooks show and `.save(FILE)` writes.

        Raises:
            ConfigurationError: for a metric that the run has not.
        """
        from hocket.apps.use.run_figure import RunFigure

        return RunFigure.of(self._record, metrics)

    # ------------------------------------------------------------ what it trained

    @property
    def policy(self) -> Policy:
        """The trained policy, the first one of a team."""
        if self._trainer is not None:
            return self._trainer.parts.lead.policy
        return self._subject.parts.lead.policy

    def load(self, role: str | None = None, **options: Any) -> TrainedPolicy:
        """The policy ready to act, answer or score; role and options are those of `hocket.load`."""
        from hocket.apps.use.loading import load

        return load(self.path, role, **{"trust": self._trust, **self._objects(), **options})

    def _objects(self) -> dict[str, Any]:
        """The Python objects that the run was made with, in this process."""
        if self._trainer is None:
            return {}
        if not self._trainer.saved:
            raise HocketError(f"{self.path}: the last checkpoint could not be written; make room and resume the run")
        return self._trainer.python_objects

    @cached_property
    def _subject(self) -> EvaluationSubject:
        """The run with its policies and all that measures them."""
        from hocket.apps.use.loading import reader

        return reader(self.path, {}, trust=self._trust)(None)

    def evaluate(self, n: int | None = None) -> EvaluationResult:
        """Greedy success on `n` unseen scenarios, as the run measured itself."""
        if self._trainer is not None:
            return self._trainer.evaluate(n)
        return measured_by_run(self._subject.parts, full=self._subject.config.evaluation.n, n=n)


def _phases(plan: Path) -> tuple[Path, ...]:
    """The folders of the phases of a plan that have begun, in order."""
    begun = [file.parent for file in plan.glob("*/config.yaml")]
    return tuple(sorted(begun, key=lambda folder: int(folder.name.partition("-")[0])))
