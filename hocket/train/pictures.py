"""The pictures of evaluations, in files of a run's folder: `pictures/step-000123.jsonl`."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.train.disk import write_atomic
from hocket.train.evaluate import EvaluationResult

FOLDER = "pictures"
MOST = 64
"""Pictures of an evaluation that are kept."""
SIDE = 128
"""Pixels of a side of those in colour, at most; larger ones are made smaller by a whole number."""


def pictures_file(run: Path, step: int) -> Path:
    """The file of the pictures of the evaluation after `step`."""
    return run / FOLDER / f"step-{step:06d}.jsonl"


def write_pictures(run: Path, step: int, result: EvaluationResult, sides: Sequence[int]) -> None:
    """Writes the first pictures of an evaluation: prompt, success, reward, and its bytes.

    With `sides` they are grey, `[rows, columns]` from states in [-1, 1]; without, states are pictures `[H, W, 3]`.

    Raises:
        OSError: when the disk refuses.
    """
    rows: list[dict[str, Any]] = []
    for trajectory, success in zip(result.trajectories[:MOST], result.each, strict=False):
        if trajectory.final_state is None or not np.isfinite(trajectory.final_state).all():
            continue
        state = np.asarray(trajectory.final_state)
        if sides:
            shown = ((state + 1.0) * 127.5).clip(0.0, 255.0).round().astype(np.uint8)
        else:
            shown = _smaller(state)
        scores = [score.value for score in trajectory.scores.values() if isinstance(score.value, (int, float))]
        message = trajectory.scenario.messages[-1]["content"] if trajectory.scenario.messages else ""
        row = {"scenario": trajectory.scenario.id, "prompt": message, "success": success, "reward": sum(scores)}
        name, size = ("grey", sides) if sides else ("colour", shown.shape[:2])
        rows.append({**row, "sides": list(size), name: base64.b64encode(shown.tobytes()).decode()})
    file = pictures_file(run, step)
    file.parent.mkdir(exist_ok=True)
    write_atomic(file, "".join(json.dumps(row) + "\n" for row in rows))


def _smaller(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Means of squares of pixels, so that no side is longer than `SIDE`."""
    factor = -(-max(picture.shape[:2]) // SIDE)
    height, width = (side // factor for side in picture.shape[:2])
    squares = picture[: height * factor, : width * factor].reshape(height, factor, width, factor, 3)
    result: NDArray[np.uint8] = squares.mean((1, 3)).round().astype(np.uint8)
    return result
