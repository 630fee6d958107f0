"""The numbers of a run, step by step: `metrics.jsonl`, and trackers that also show them elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hocket.core.errors import ConfigurationError, nearest
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
    """`metrics.jsonl`: one JSON object per step; missing and non-finite values are null."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonLines(path)

    def append(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a row (it must have `step`) and returns it as written."""
        if "step" not in row:
            raise ValueError("a row of metrics needs its step")
        written: dict[str, Any] = json_ready({**dict.fromkeys(KEYS), **row})
        self._lines.append(json.dumps(written, allow_nan=False))
        return written

    def truncate(self, step: int) -> None:
        """Drops the rows after `step`, atomically: a resumed run writes them again."""
        self._lines.close()
        rows = [json.dumps(row) + "\n" for row in read_metrics(self.path) if row.get("step", 0) <= step]
        write_atomic(self.path, "".join(rows))
        self._lines = JsonLines(self.path)

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl`; a torn line is left out, a missing file has none."""
    return list(read_json_lines(path))


class Tracker(Protocol):
    """Shows the numbers of a run somewhere else."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Takes one row of metrics, `step` among them."""
        ...

    def close(self) -> None:
        """Sends what is left."""
        ...


class TensorBoardTracker:
    """Writes every finite number as a TensorBoard scalar. Needs the extra `hocket[tracking]`.

    `after` is the step a resumed run goes on from: what TensorBoard has of later steps is hidden.

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
        self._writer: Any = SummaryWriter(str(folder), purge_step=None if after is None else after + 1)

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if name != "step" and number and math.isfinite(value):
                self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def open_trackers(names: Sequence[str], folder: Path, after: int | None = None) -> list[Tracker]:
    """The trackers called `names` for the run in `folder`. `after` is the step a resumed run goes on from.

    Raises:
        ConfigurationError: for an unknown name, or a missing package.
    """
    makers: dict[str, Callable[[], Tracker]] = {
        "tensorboard": lambda: TensorBoardTracker(folder / "tensorboard", after)
    }
    for name in names:
        if name not in makers:
            raise ConfigurationError(f"track = {name!r} is not a tracker{nearest(name, makers)}")
    return [makers[name]() for name in names]
