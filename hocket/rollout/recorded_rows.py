"""Recorded decisions of controllers in one `.npz` file, one row a decision, episodes one after the other.

    observations [N, O]      before each decision
    actions [N] or [N, A]    choices, or vectors in units where the action's range is [-1, 1]
    rewards [N]
    terminations [N]         whether the task itself ended with it, 0 or 1
    truncations [N]          whether a limit cut the episode after it, 0 or 1
    kinds [N]                of decisions, whole numbers from 1 on, for recipes that weigh them; optional
    next_observations [N, O] after each decision; without them the last rows of cut episodes are left out

The names `terminals` and `timeouts` of D4RL are read as well, and folders of Minari (`hocket.rollout.minari_rows`).
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.rollout.minari_rows import minari_columns
from hocket.types import Scenario, Score, Trajectory, Turn

OTHER_NAMES = {"terminations": "terminals", "truncations": "timeouts"}
REQUIRED = ("observations", "actions", "rewards", "terminations", "truncations")


def write_rows(file: Path, trajectories: Sequence[Trajectory]) -> int:
    """Writes episodes of one agent each; returns the number of rows.

    Raises:
        ConfigurationError: when the file cannot be written, or no episode has a decision.
    """
    episodes = [episode for episode in trajectories if episode.failure is None and episode.length]
    if not episodes:
        raise ConfigurationError(f"{file}: no episode has a decision, so there is nothing to record")
    turns = [episode.turns[0] for episode in episodes]
    ends = np.cumsum([len(turn) for turn in turns]) - 1
    columns: dict[str, NDArray[Any]] = {
        "observations": np.concatenate([np.asarray(turn.observation, np.float32) for turn in turns]),
        "actions": np.concatenate([turn.action for turn in turns]),
        "rewards": np.concatenate([np.asarray(e.scores["reward"].value, np.float64) for e in episodes]),
    }
    following = np.roll(columns["observations"], -1, axis=0)
    following[ends] = np.stack([np.asarray(e.final_state, np.float32) for e in episodes])
    columns["next_observations"] = following
    for name, marks in (("terminations", "terminated"), ("truncations", "truncated")):
        columns[name] = np.zeros(len(following), bool)
        columns[name][ends] = [getattr(e, marks) for e in episodes]
    try:
        with file.open("wb") as content:
            np.savez_compressed(content, **columns)  # type: ignore[arg-type]
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror or error}; choose another --out") from None
    return len(following)


def read_rows(file: Path, policy: str) -> list[Trajectory]:
    """The episodes of a file or folder, as decisions of a policy whose log-probs are unknown.

    Raises:
        ConfigurationError: when the file is missing or damaged, or holds NaN, arrays of unequal length, or no ends.
    """
    columns = _checked(file, minari_columns(file) if file.is_dir() else _loaded(file))
    over = (columns["terminations"] != 0) | (columns["truncations"] != 0)
    ends = np.nonzero(over)[0]
    episodes, start = [], 0
    for number, end in enumerate(ends.tolist()):
        rows = slice(start, end + 1)
        turn = Turn("agent", policy, columns["observations"][rows], columns["actions"][rows])
        turn.segment = columns["kinds"][rows] if "kinds" in columns else None
        terminated = bool(columns["terminations"][end])
        episodes.append(
            Trajectory(
                Scenario(f"{file.name}/{number}"),
                [turn],
                scores={"reward": Score(columns["rewards"][rows], Level.DECISION)},
                terminated=terminated,
                truncated=not terminated,
                final_state=columns["next_observations"][end] if "next_observations" in columns else None,
                source="imported",
            )
        )
        start = end + 1
    return episodes


def _loaded(file: Path) -> dict[str, NDArray[Any]]:
    if not file.is_file():
        raise ConfigurationError(f"store.data: there is no file {file}; record one with hocket record RUN --out {file}")
    try:
        with np.load(file, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile):
        raise ConfigurationError(f"store.data: {file} is no readable .npz file; record it anew") from None


def _checked(file: Path, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns with numbers as control networks read them."""
    for name, other in OTHER_NAMES.items():
        if name not in columns and other in columns:
            columns[name] = columns[other]
    absent = next((name for name in REQUIRED if name not in columns), None)
    if absent is not None:
        held = ", ".join(columns) or "nothing"
        raise ConfigurationError(f"store.data: {file} has no array {absent!r}, only {held}; add it")
    size = len(columns["observations"])
    for name, column in columns.items():
        if column.dtype.kind not in "biuf":
            raise ConfigurationError(f"store.data: {name} of {file} holds no numbers but {column.dtype}; write numbers")
        if column.ndim == 0 or len(column) != size:
            raise ConfigurationError(
                f"store.data: {file} has {size} observations and {column.size} {name}; give every row one of each"
            )
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            row = int(np.argwhere(~np.isfinite(column.reshape(size, -1)).all(1))[0, 0])
            raise ConfigurationError(
                f"store.data: {file} has a number that is not finite, in row {row} of {name}; drop it"
            )
    for name in ("rewards", "terminations", "truncations"):
        if columns[name].size != size:
            raise ConfigurationError(
                f"store.data: {name} of {file} has the shape {list(columns[name].shape)}; give one number a row"
            )
        columns[name] = columns[name].reshape(size)
    if "kinds" in columns:
        kinds = columns["kinds"]
        if kinds.dtype.kind not in "iu" or kinds.shape != (size,) or kinds.min(initial=1) < 1:
            raise ConfigurationError(f"store.data: kinds of {file} are not whole numbers from 1 on; write one a row")
    ended = (columns["terminations"] != 0) | (columns["truncations"] != 0)
    if not ended.any():
        raise ConfigurationError(
            f"store.data: {file} marks no end of an episode, so it is not known what follows what; set terminations "
            "or truncations"
        )
    for name in ("observations", "next_observations"):
        if name in columns:
            columns[name] = columns[name].reshape(size, -1).astype(np.float32)
    if columns.get("next_observations", columns["observations"]).shape != columns["observations"].shape:
        raise ConfigurationError(
            f"store.data: {file} has next_observations of {columns['next_observations'].shape[1]} numbers a row and "
            f"observations of {columns['observations'].shape[1]}; write both alike"
        )
    if columns["actions"].dtype.kind != "f" and columns["actions"].size == size:
        columns["actions"] = columns["actions"].reshape(size)  # One choice a row.
    if columns["actions"].dtype.kind == "f":
        columns["actions"] = columns["actions"].reshape(size, -1).astype(np.float32)
    return columns
