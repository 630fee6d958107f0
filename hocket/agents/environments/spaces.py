"""Spaces of Gymnasium and PettingZoo in words."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import Ranges

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


def kept(value: Any) -> Any:
    """What an environment handed over, with arrays of its own: many fill the same ones again and again."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {name: kept(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [kept(part) for part in value] if isinstance(value, list) else tuple(kept(part) for part in value)
    return value


BRIGHTEST = 255
"""The upper end of pictures, whatever type their numbers have."""


def ranges_of(space: Any) -> Ranges:
    """The ranges of a space's numbers, flat; they are read as they are but for unsigned integers and those up to 255.

    Pictures have these, alone, stacked, or among other numbers in a flattened space.
    """
    if not hasattr(space, "low"):
        return ()
    low, high = (np.asarray(end, np.float64).ravel() for end in (space.low, space.high))
    scaled = np.isfinite(low) & np.isfinite(high) & (low < high)
    scaled &= (high == BRIGHTEST) | bool(np.issubdtype(space.dtype, np.unsignedinteger))
    ends = np.stack([np.where(scaled, low, 0.0), np.where(scaled, high, 1.0)])
    if not (ends != [[0.0], [1.0]]).any():
        return ()
    begin = np.flatnonzero(np.concatenate([[True], (ends[:, 1:] != ends[:, :-1]).any(0)]))
    counts = np.diff([*begin.tolist(), len(low)])
    return tuple(
        (int(count), float(ends[0, place]), float(ends[1, place])) for place, count in zip(begin, counts, strict=True)
    )


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
    remaining = {word: move for (word, move), free in zip(moves.items(), flags, strict=True) if free}
    return remaining or dict(moves)
