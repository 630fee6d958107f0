"""`hocket eval --task SHIFTED --beside RUN2`: what a policy loses where the world is another than in its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hocket.apps.report.evaluation import load, measure_subject
from hocket.core import sums
from hocket.core.errors import ConfigurationError
from hocket.core.intervals import mean_interval
from hocket.train import config as configuration
from hocket.train.trust import run_pairs


def shift_drop(
    source: Path,
    other: Path,
    pairs: Sequence[tuple[str, Any]],
    *,
    n: int,
    task: str | None,
    which: str,
    trust: bool = False,
) -> dict[str, Any]:
    """How much less `source` earns on a task than `other`, which was trained on it, with a 95 % interval.

    Both play the same `n` unseen scenarios greedily, and the interval is of the mean difference by scenario. The task
    is `other`'s where none is named.

    Raises:
        ConfigurationError: for a task that `other` was not trained on, or a policy that does not fit it.
    """
    home = configuration.task_of(run_pairs(other, trust=trust)) if (other / "config.yaml").is_file() else None
    if home is None or (task is not None and home != task):
        trained = f"{other} was trained on {home}" if home else f"{other} is no run"
        raise ConfigurationError(
            f"--beside takes a run that was trained on the shifted task; {trained}. Train one with --task "
            f"{task or home or 'NAME'}"
        )
    subjects = [load(folder, pairs, task=home, which=which, trust=trust) for folder in (source, other)]
    away, at_home = (measure_subject(subject, n) for subject in subjects)
    if len(away.each) != len(at_home.each) or not away.each:
        raise ConfigurationError(f"--beside compares success by scenario, which {home} does not have")
    drops = [best - mine for mine, best in zip(away.each, at_home.each, strict=True)]
    name = away.measure.name
    return {
        "source": str(subjects[0].checkpoint or source),
        "beside": str(subjects[1].checkpoint or other),
        "task": home,
        "n": away.n,
        "rows": [
            (f"{name}, trained elsewhere", away.success, away.low, away.high),
            (f"{name}, trained here", at_home.success, at_home.low, at_home.high),
            ("drop", sums.mean(drops), *mean_interval(drops)),
        ],
        "traits": {},
        "decoding": dataclasses.asdict(subjects[0].config.decoding),
    }
