"""Answers of one model to a task's unseen scenarios as lines of JSON, which `hocket eval --answers FILE` adds to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.signals import RIGHT
from hocket.stages import Task
from hocket.types import Trajectory


def add_answers(path: Path, task: Task, trajectories: Sequence[Trajectory], each: Sequence[float]) -> None:
    """Adds a line for every answer: `task, id, prompt, expected, given, right, text`.

    `given` is what is compared, None where the text holds nothing of the kind. What was there stays, so that a model's
    answers to several tasks stand in one file.

    Raises:
        ConfigurationError: when the task has no labels, nothing tells right from wrong, or the file cannot be written.
    """
    label = getattr(task, "label", None)
    if label is None or len(each) != len(trajectories):
        raise ConfigurationError(f"--answers: those to {task.name} cannot be compared as texts; drop it")
    rows = [
        {
            "task": task.name,
            "id": trajectory.scenario.id,
            "prompt": trajectory.scenario.prompt,
            "expected": trajectory.scenario.answer,
            "given": label(trajectory),
            "right": success >= RIGHT,
            "text": trajectory.answer,
        }
        for trajectory, success in zip(trajectories, each, strict=True)
    ]
    try:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    except OSError as problem:
        raise ConfigurationError(f"--answers {path} cannot be written: {problem.strerror}") from problem


def read_answers(path: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The lines of such a file by task and scenario; of two for the same the later.

    Raises:
        ConfigurationError: when there is no such file, or a line is none of these.
    """
    answers: dict[tuple[str, str], Mapping[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{path} cannot be read; `hocket eval RUN --answers {path}` writes it") from problem
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            answers[str(row["task"]), str(row["id"])] = {"right": bool(row["right"]), "given": row["given"]}
        except (ValueError, KeyError, TypeError) as problem:
            raise ConfigurationError(
                f"{path}, line {number} is no answer with task, id, given and right; `hocket eval RUN --answers FILE` "
                "writes such files"
            ) from problem
    return answers
