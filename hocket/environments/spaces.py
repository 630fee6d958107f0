"""Spaces of Gymnasium and PettingZoo in words."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError

_MOST = 256


def shown(value: Any) -> str:
    """An observation in words: numbers as they are, arrays as rows of numbers, dictionaries line by line."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {shown(part)}" for name, part in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(shown(part) for part in value)
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return _rows(value)
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.4g}"
    return str(value)


def _rows(array: np.ndarray) -> str:
    if array.ndim == 1:
        return " ".join(
            f"{value:.4g}" if np.issubdtype(array.dtype, np.floating) else str(int(value)) for value in array
        )
    return ("\n" if array.ndim == 2 else "\n\n").join(_rows(part) for part in array)


def actions_of(where: str, space: Any, names: Sequence[str] | None = None) -> dict[str, Any] | None:
    """What stands for each move in words; None where any text is an action.

    Args:
        where: what the space belongs to, for errors.
        names: the moves in words, in the order of a discrete space; numbers without them.

    Raises:
        ConfigurationError: for a space that has no list of actions.
    """
    kind = type(space).__name__
    if kind == "Text":
        return None
    if kind == "Discrete":
        first, count = int(space.start), int(space.n)
        if names is not None and len(names) != count:
            raise ConfigurationError(f"{where} has {count} actions, and {len(names)} names are given")
        words = names or [str(first + place) for place in range(count)]
        return {word: first + place for place, word in enumerate(words)}
    if kind in ("MultiDiscrete", "MultiBinary"):
        sizes = np.atleast_1d(space.nvec if kind == "MultiDiscrete" else np.full(space.shape, 2)).ravel()
        if int(np.prod(sizes.astype(np.float64))) <= _MOST:
            ways = itertools.product(*(range(int(size)) for size in sizes))
            return {" ".join(map(str, way)): np.array(way, space.dtype).reshape(space.shape) for way in ways}
    raise ConfigurationError(
        f"{where} takes actions from {space}, which cannot be listed in words; wrap it so that its actions are "
        "discrete, or train a control policy on it (--task gym:NAME)"
    )


def allowed(moves: Mapping[str, Any], mask: Any) -> dict[str, Any]:
    """The moves that a mask leaves, in the order of a discrete space; all without a mask, or when it leaves none."""
    if mask is None:
        return dict(moves)
    flags = np.asarray(mask).astype(bool).ravel().tolist()
    kept = {word: move for (word, move), free in zip(moves.items(), flags, strict=True) if free}
    return kept or dict(moves)
