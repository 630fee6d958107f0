"""Reads what a run left in its folder; whatever is missing is left out, so a run can be looked at while it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hocket.core.errors import ConfigurationError
from hocket.core.intervals import wilson
from hocket.core.yaml_text import load_yaml
from hocket.train.disk import log_problem, read_json_lines
from hocket.train.kinds import ACCURACY, MEASURES

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it.

    Attributes:
        rows: metrics, one per step. summary: `summary.json`, or what the rows say of an unfinished run.
        config, machine: as saved. config_text: `config.yaml` itself. messages: sentences said while training.
        steps: the steps whose rollouts were saved.
    """

    path: Path
    rows: Sequence[Row]
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    config_text: str
    machine: Mapping[str, Any]
    messages: Sequence[str]
    steps: Sequence[int]

    @property
    def name(self) -> str:
        return str(self.summary.get("name") or self.path.name)

    @property
    def measure(self) -> str:
        """What evaluation averages: `accuracy` or `return`."""
        return str(self.summary.get("measure") or measure_of(self.rows))

    @property
    def trained(self) -> Sequence[Row]:
        """The rows of training steps."""
        return [row for row in self.rows if row.get("step", 0) > 0]

    def episodes(self, step: int) -> list[dict[str, Any]]:
        """The rollouts saved of a step."""
        return list(read_json_lines(self.path / "rollouts" / f"step-{step:06d}.jsonl", log_problem))


def read_run(path: Path, *, live: bool = False) -> RunRecord:
    """Reads the run in folder `path`. What is damaged is left out, logged, and named among its messages.

    With `live` its `summary.json` is left out, which in a run that was resumed is of an earlier end; and nothing is
    logged, since the run is read again and again.

    Raises:
        ConfigurationError: when the folder holds neither metrics nor a configuration.
    """
    if not (path / "metrics.jsonl").is_file() and not (path / "config.yaml").is_file():
        raise ConfigurationError(f"{path} is not a run: it has neither config.yaml nor metrics.jsonl")
    problems: list[str] = []
    rows = list(read_json_lines(path / "metrics.jsonl", problems.append, {"step": int}))
    text = _text(path / "config.yaml")
    config = _mapping(path / "config.yaml", load_yaml, problems)
    ended = _mapping(path / "summary.json", json.loads, problems) if not live else {}
    summary = {**_outline(rows, config), **ended}
    machine = _mapping(path / "machine.json", json.loads, problems)
    for problem in () if live else problems:
        log_problem(problem)
    matches = (re.fullmatch(r"step-(\d+)\.jsonl", file.name) for file in (path / "rollouts").glob("step-*.jsonl"))
    return RunRecord(
        path=path,
        rows=rows,
        summary=summary,
        config=config,
        config_text=text,
        machine=machine,
        messages=[*(line for line in _text(path / "messages.txt").splitlines() if line), *problems],
        steps=sorted(int(match[1]) for match in matches if match),
    )


def measure_of(rows: Sequence[Row]) -> str:
    """The measure that some row has, else `accuracy`."""
    names = (name for name in MEASURES if any(row.get(f"eval/{name}") is not None for row in rows))
    return next(names, ACCURACY.name)


def eval_interval(row: Row, measure: str) -> tuple[float, float] | None:
    """The 95 % interval of a row's evaluation, when it can be known."""
    if row.get("eval/low") is not None and row.get("eval/high") is not None:
        return float(row["eval/low"]), float(row["eval/high"])
    share, n = row.get("eval/accuracy"), row.get("eval/n")
    if measure != "accuracy" or share is None or not n or not 0 <= share <= 1:
        return None
    return wilson(share * n, int(n))


def _outline(rows: Sequence[Row], config: Mapping[str, Any]) -> dict[str, Any]:
    """A summary of a run that has none yet."""
    recipe = config.get("recipe")
    outline: dict[str, Any] = {
        "task": config.get("task"),
        "model": config.get("model"),
        "seed": config.get("seed"),
        "recipe": recipe.get("name") if isinstance(recipe, Mapping) else recipe,
        "reason": "unfinished",
    }
    if rows:
        outline |= {"steps": rows[-1].get("step"), "seconds": rows[-1].get("time/total")}
    measure = measure_of(rows)
    measured = [row for row in rows if row.get(f"eval/{measure}") is not None]
    if measured:
        outline |= {"before": _evaluation(measured[0], measure), "after": _evaluation(measured[-1], measure)}
        outline["gain"] = outline["after"][measure] - outline["before"][measure]
    return outline


def _evaluation(row: Row, measure: str) -> dict[str, Any]:
    measures = {key.removeprefix("eval/"): value for key, value in row.items() if key.startswith("eval/")}
    interval = eval_interval(row, measure)
    ends = {} if interval is None else {"low": interval[0], "high": interval[1]}
    return {**measures, **ends, "step": row.get("step")}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _mapping(path: Path, parse: Callable[[str], Any], problems: list[str]) -> dict[str, Any]:
    """The mapping in a file; nothing where there is no file, and a sentence more where it holds something else."""
    if not path.is_file():
        return {}
    try:
        document = parse(_text(path))
    except (ValueError, yaml.YAMLError, RecursionError):
        document = None
    if isinstance(document, dict):
        return document
    problems.append(f"{path} cannot be read and is left out; is it the run's own?")
    return {}
