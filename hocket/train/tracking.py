"""The numbers of a run, step by step: `metrics.jsonl`, and trackers that also show them elsewhere."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.yaml_text import load_yaml
from hocket.train.answers import SampledAnswer, table_of
from hocket.train.disk import JsonLines, json_ready, read_json_lines, write_atomic

KEYS = (
    "step",
    "reward/mean",
    "loss",
    "entropy",
    "kl/reference",
    "kl/behaviour",
    "groups/total",
    "groups/with_signal",
    "eval/accuracy",
    "eval/n",
    "tokens/generated",
    "ratio/saturated",
    "time/rollout",
    "time/update",
)
"""What every row has, null where it was not measured. Times are in seconds, entropies and divergences in nats."""


class MetricsLog:
    """`metrics.jsonl` or the like: one JSON object per step; non-finite values, and missing `keys`, are null."""

    def __init__(self, path: Path, keys: Sequence[str] = KEYS) -> None:
        self.path, self._keys = path, keys
        self._lines = JsonLines(path)

    def append(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a row (it must have `step`) and returns it as written."""
        if "step" not in row:
            raise ValueError("a row of metrics needs its step")
        written: dict[str, Any] = json_ready({**dict.fromkeys(self._keys), **row})
        self._lines.append(json.dumps(written, allow_nan=False))
        return written

    def truncate(self, step: int, on_problem: Callable[[str], None] = lambda sentence: None) -> None:
        """Drops the rows after `step`, atomically: a resumed run writes them again. Damaged ones go to `on_problem`."""
        self._lines.close()
        rows = read_json_lines(self.path, on_problem, {"step": int})
        write_atomic(self.path, "".join(json.dumps(row) + "\n" for row in rows if row["step"] <= step))
        self._lines = JsonLines(self.path)

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl`; a damaged line is left out, a missing file has none."""
    return list(read_json_lines(path, needs={"step": int}))


class Tracker(Protocol):
    """Shows the numbers of a run somewhere else."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Takes one row of metrics, `step` among them."""
        ...

    def answers(self, step: int, answers: Sequence[SampledAnswer]) -> None:
        """Takes the answers sampled in a step whose rollouts are recorded, after its row."""
        ...

    def close(self) -> None:
        """Sends what is left."""
        ...


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row of metrics, without its step."""
    return {
        name: value
        for name, value in row.items()
        if name != "step" and isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }


class TensorBoardTracker:
    """Writes every finite number as a TensorBoard scalar. Needs the extra `hocket[tracking]`.

    `after` is the step a resumed run goes on from: what the files have of later steps is taken out of them.

    Raises:
        ConfigurationError: when TensorBoard is not installed.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigurationError(
                "tracking with TensorBoard needs the tensorboard package; run: pip install 'hocket[tracking]'"
            ) from error
        if after is not None:
            _taken_back(folder / "tensorboard", after)
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in _numbers(row).items():
            self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()

    def answers(self, step: int, answers: Sequence[SampledAnswer]) -> None:
        """Writes nothing: curves alone are shown there."""

    def close(self) -> None:
        self._writer.close()


def _taken_back(folder: Path, step: int) -> None:
    """Drops what TensorBoard's files have of steps after `step`, which are done again; not every reader would."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    for file in sorted(folder.glob("events.out.tfevents.*")):
        events = [(Event.FromString(record), record) for record in RawEventFileLoader(str(file)).Load()]
        records = [record for event, record in events if event.step <= step]
        if len(records) < len(events):
            written = io.BytesIO()
            for record in records:
                RecordWriter(written).write(record)
            write_atomic(file, written.getvalue())


class WandbTracker:
    """Sends every finite number to Weights & Biases, with the run's configuration, and tables of answers.

    Needs the extra `hocket[wandb]`.

    Project, entity and mode are wandb's own settings (`WANDB_PROJECT`, `WANDB_ENTITY`, `WANDB_MODE=offline`); the
    project is `hocket` unless set. A resumed run goes on under the id that its folder keeps; of steps that are done
    again, wandb keeps what it heard first.

    Raises:
        ConfigurationError: when wandb is not installed, or refuses to begin.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigurationError(
                "tracking with Weights & Biases needs the wandb package; run: pip install 'hocket[wandb]'"
            ) from error
        known = _known(folder, "wandb") if after is not None else None
        more = {"project": "hocket"} if "WANDB_PROJECT" not in os.environ else {}
        if known is not None:
            more |= {"id": known, "resume": "allow"}
        self._wandb: Any = wandb
        try:
            self._run: Any = wandb.init(name=folder.name, dir=str(folder), config=_configuration(folder), **more)
        except Exception as error:
            raise _refused("wandb", error, "run `wandb login`, or set WANDB_MODE=offline") from error
        _remember(folder, "wandb", str(self._run.id))

    def log(self, row: Mapping[str, Any]) -> None:
        self._run.log(_numbers(row), step=int(row["step"]))

    def answers(self, step: int, answers: Sequence[SampledAnswer]) -> None:
        columns, rows = table_of(step, answers)
        self._run.log({"answers": self._wandb.Table(columns=columns, data=rows)}, step=step)

    def close(self) -> None:
        self._run.finish()


class MlflowTracker:
    """Sends every finite number to MLflow, with `config.yaml` and tables of answers as artifacts.

    Needs the extra `hocket[mlflow]`.

    Server and experiment are MLflow's own settings (`MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`); the experiment is
    `hocket` unless set. A resumed run goes on under the id that its folder keeps; of steps that are done again, what
    MLflow heard first stays, as it would show both.

    Raises:
        ConfigurationError: when mlflow is not installed, or refuses to begin.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise ConfigurationError(
                "tracking with MLflow needs the mlflow package; run: pip install 'hocket[mlflow]'"
            ) from error
        known = _known(folder, "mlflow") if after is not None else None
        self._mlflow: Any = mlflow
        self._heard = -1
        try:
            if "MLFLOW_EXPERIMENT_NAME" not in os.environ:
                mlflow.set_experiment("hocket")
            run = mlflow.start_run(run_id=known) if known is not None else mlflow.start_run(run_name=folder.name)
            if known is not None:
                heard = mlflow.MlflowClient().get_metric_history(known, "time/total")  # Every row has it.
                self._heard = max((int(metric.step) for metric in heard), default=-1)
            if (folder / "config.yaml").is_file():
                mlflow.log_artifact(str(folder / "config.yaml"))
        except Exception as error:
            raise _refused(
                "mlflow", error, "set MLFLOW_TRACKING_URI to a server or folder that can be reached"
            ) from error
        _remember(folder, "mlflow", str(run.info.run_id))

    def log(self, row: Mapping[str, Any]) -> None:
        if row["step"] > self._heard:
            self._mlflow.log_metrics(_numbers(row), step=int(row["step"]))

    def answers(self, step: int, answers: Sequence[SampledAnswer]) -> None:
        if step > self._heard:
            columns, rows = table_of(step, answers)
            data = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
            self._mlflow.log_table(data, artifact_file=f"answers/step-{step:06d}.json")

    def close(self) -> None:
        self._mlflow.end_run()


class TrackioTracker:
    """Sends every finite number to Trackio, with the run's configuration, and tables of answers.

    Needs the extra `hocket[trackio]`. The project is `TRACKIO_PROJECT`, or `hocket`; where it is shown is Trackio's own
    setting (`TRACKIO_SPACE_ID`, `TRACKIO_SERVER_URL`, else this machine's folder). A resumed run goes on under its
    name; of steps that are done again, what Trackio heard first stays.

    Raises:
        ConfigurationError: when trackio is not installed, or refuses to begin.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        try:
            import trackio
        except ImportError as error:
            raise ConfigurationError(
                "tracking with Trackio needs the trackio package; run: pip install 'hocket[trackio]'"
            ) from error
        known = _known(folder, "trackio") if after is not None else None
        self._trackio: Any = trackio
        try:
            with _stdout_to_stderr():
                self._run: Any = trackio.init(
                    project=os.environ.get("TRACKIO_PROJECT", "hocket"),
                    name=known or folder.name,
                    config=_configuration(folder),
                    resume="never" if known is None else "allow",
                    embed=False,
                )
        except Exception as error:
            raise _refused("trackio", error, "check TRACKIO_SPACE_ID, TRACKIO_SERVER_URL and TRACKIO_DIR") from error
        # It has no public name: the step after the last one that Trackio has.
        self._heard = -1 if known is None else int(getattr(self._run, "_next_step", 0)) - 1
        _remember(folder, "trackio", str(self._run.name))

    def log(self, row: Mapping[str, Any]) -> None:
        self._send(_numbers(row), int(row["step"]))

    def answers(self, step: int, answers: Sequence[SampledAnswer]) -> None:
        columns, rows = table_of(step, answers)
        self._send({"answers": self._trackio.Table(columns=columns, data=rows)}, step)

    def _send(self, what: Mapping[str, Any], step: int) -> None:
        if step > self._heard:
            with _stdout_to_stderr():
                self._run.log(dict(what), step=step)

    def close(self) -> None:
        with _stdout_to_stderr():
            self._run.finish()


def _stdout_to_stderr() -> contextlib.redirect_stdout[Any]:
    """For libraries that print: stdout holds results alone."""
    return contextlib.redirect_stdout(sys.stderr)


_IDS = "trackers.json"
"""In a run's folder: under which id each tracker knows it."""


def _known(folder: Path, tracker: str) -> str | None:
    return _ids(folder).get(tracker)


def _remember(folder: Path, tracker: str, name: str) -> None:
    write_atomic(folder / _IDS, json.dumps({**_ids(folder), tracker: name}))


def _ids(folder: Path) -> dict[str, str]:
    ids: dict[str, str] = json.loads((folder / _IDS).read_text()) if (folder / _IDS).is_file() else {}
    return ids


def _configuration(folder: Path) -> dict[str, Any]:
    """What the run is configured with, as its folder has it."""
    file = folder / "config.yaml"
    return dict(load_yaml(file.read_text()) or {}) if file.is_file() else {}


def _refused(tracker: str, error: Exception, fix: str) -> ConfigurationError:
    return ConfigurationError(f"track = {tracker!r}: {' '.join(str(error).split())}; {fix}")


TRACKERS: Mapping[str, Callable[[Path, int | None], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
    "trackio": TrackioTracker,
}
"""What `--track` may name."""


def open_trackers(names: Sequence[str], folder: Path, after: int | None = None) -> list[Tracker]:
    """The trackers called `names` for the run in `folder`. `after` is the step a resumed run goes on from.

    Raises:
        ConfigurationError: for an unknown name, or a missing package.
    """
    for name in names:
        if name not in TRACKERS:
            raise ConfigurationError(f"track = {name!r} is not a tracker{nearest(name, TRACKERS)}")
    return [TRACKERS[name](folder, after) for name in names]
