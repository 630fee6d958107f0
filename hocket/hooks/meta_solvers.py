"""Mixtures over a population by the payoffs of its members: who is to be met how often."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError

Floats = NDArray[np.float64]


def uniform(members: int) -> Floats:
    """Everybody equally often, as in fictitious play."""
    return np.full(members, 1.0 / members)


def nash(payoffs: Floats) -> tuple[Floats, float]:
    """A Nash equilibrium's mixture over the rows of a zero-sum game, `[M]`, and its value, by a linear programme.

    Args:
        payoffs: what the row earns against the column, `[M, N]`.

    Raises:
        ConfigurationError: for an empty or unfinished table, and without scipy.
    """
    table = np.asarray(payoffs, np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ConfigurationError(
            f"a meta-solver needs a table of finite payoffs with a member at least, not one of shape {table.shape}; "
            "let the population play first"
        )
    try:
        from scipy.optimize import linprog
    except ImportError as error:
        raise ConfigurationError("a Nash mixture is found by scipy, which is missing; pip install scipy") from error
    rows, columns = table.shape
    # Maximise v with sum_i p_i table[i, j] >= v for every column j.
    result = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-table.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[*[(0.0, None)] * rows, (None, None)],
    )
    mixture = np.maximum(result.x[:rows], 0.0)
    return mixture / mixture.sum(), float(result.x[-1])
