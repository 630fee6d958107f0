"""Recorded decisions in a folder of Minari: the file `main_data.hdf5`, one group an episode (Younis et al. 2024)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError

FILE = "main_data.hdf5"


def minari_columns(folder: Path) -> dict[str, NDArray[Any]]:
    """The columns of `hocket.rollout.recorded_rows`; vectors are scaled from their range to [-1, 1].

    The last decision of an episode with no end counts as cut.

    Raises:
        ConfigurationError: without h5py, for a folder without such data, and for observations or actions in parts.
    """
    file = next((place for place in (folder / "data" / FILE, folder / FILE) if place.is_file()), None)
    if file is None:
        raise ConfigurationError(
            f"store.data: folder {folder} has no {FILE}; name a data set's folder of Minari, of the format hdf5"
        )
    try:
        import h5py  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigurationError(f"store.data: {file} is read by h5py; pip install h5py") from None
    columns: dict[str, list[NDArray[Any]]] = {}
    try:
        with h5py.File(file, "r") as held:
            for name in sorted(held, key=lambda name: int(name.rpartition("_")[2])):
                for column, values in _episode(folder, held[name], h5py.Dataset).items():
                    columns.setdefault(column, []).append(values)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(f"store.data: {file} is no readable data of Minari: {error}; get it anew") from None
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return _scaled(file.parent / "metadata.json", joined)


def _episode(folder: Path, group: Any, array: type[Any]) -> dict[str, NDArray[Any]]:
    for name in ("observations", "actions"):
        if not isinstance(group[name], array):
            raise ConfigurationError(
                f"store.data: {name} of {folder} have several parts; write them as one vector to an .npz file"
            )
    observed = np.asarray(group["observations"])
    columns = {name: np.asarray(group[name]) for name in ("actions", "rewards", "terminations", "truncations")}
    cut = columns["truncations"].astype(bool)
    if len(cut) and not columns["terminations"][-1]:
        cut[-1] = True
    return {"observations": observed[:-1], "next_observations": observed[1:], **columns, "truncations": cut}


def _scaled(metadata: Path, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """With vectors in units where their range is [-1, 1], by the space that the metadata state."""
    actions = columns.get("actions")
    if actions is None or actions.dtype.kind != "f":
        return columns
    try:
        space = json.loads(json.loads(metadata.read_text())["action_space"])
        low, high = (np.asarray(space[name], np.float64) for name in ("low", "high"))
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigurationError(
            f"store.data: {metadata} states no range of actions, so they cannot be scaled; write an .npz file"
        ) from None
    return {**columns, "actions": (2 * (actions - low) / (high - low) - 1).astype(np.float32)}
