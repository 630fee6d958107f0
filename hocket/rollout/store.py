"""Stores: experience that a run keeps, and learns from again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.stages import Stage, State, fact


class Store(Stage):
    """Keeps the decisions of every step, and draws what the policies learn from.

    Its memory is the run's, whichever policies learn. It is large, so `add` and `learnt` change it in place. A drawn
    batch takes the way of a fresh one: Annotate, Credit, Objective, Update.
    """

    room = "rollout"

    @fact
    def rows(self) -> int:
        """The rows of a mini-batch."""
        raise NotImplementedError

    @fact
    def keeps_teams(self) -> bool:
        """Whether a row is a moment of a team, with the decisions of all its agents."""
        return False

    @fact
    def draws(self) -> int:
        """The draws of a step, each with an equal share of its gradients."""
        return 1

    def gradients(self, state: State, fresh: int) -> int:
        """How many gradients a step makes that has brought `fresh` decisions; 0 where too little is kept."""
        raise NotImplementedError

    def init(self) -> State:
        """The memory before the first step."""
        raise NotImplementedError

    def add(self, state: State, batch: Batch) -> State:
        """The memory with the decisions of a rewarded batch whose weight is not 0."""
        raise NotImplementedError

    def draw(self, state: State, count: int, key: Key) -> Batch:
        """`count` rows of every policy, as a batch in which every row is a trajectory."""
        raise NotImplementedError

    def learnt(self, state: State, errors: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> State:
        """The memory after an update from a draw; `errors` are places of rows `[M]` and their errors, by policy."""
        return state

    @fact
    def reads_errors(self) -> bool:
        """Whether `learnt` reads errors."""
        return False


Columns = dict[str, NDArray[Any]]
"""Rows as arrays of equal length."""


def length(columns: Columns) -> int:
    """The number of rows."""
    return len(next(iter(columns.values())))


def cut(columns: Columns, places: NDArray[Any] | slice) -> Columns:
    """Some of the rows."""
    return {name: column[places] for name, column in columns.items()}


def blank(columns: Columns, size: int) -> Columns:
    """Arrays of `size` rows like these, of pages that take memory when they are first written."""
    return {name: np.zeros((size, *column.shape[1:]), column.dtype) for name, column in columns.items()}
