"""Recorded moments of a team in one `.npz` file, one row a moment, episodes one after the other.

observations [N, n, O]       of each agent before each moment, as its policy reads them, one-hot numbers included
actions [N, n, A]            vectors in units where the action's range is [-1, 1]
rewards [N, n]
terminations [N]             whether the task itself ended with it, 0 or 1
truncations [N]              whether a limit cut the episode after it, 0 or 1
next_observations [N, n, O]  after each moment
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.core.stored_rows import NOISE
from hocket.rollout.joint_transitions import JointTransitions
from hocket.rollout.transitions import POLICY, Transitions
from hocket.stages import State
from hocket.types import End, Scenario, Score, Trajectory, Turn

RANKS = {"observations": 3, "actions": 3, "rewards": 2, "terminations": 1, "truncations": 1, "next_observations": 3}
"""The axes of every array."""


@dataclass(frozen=True)
class RecordedTeams(JointTransitions):
    """`JointTransitions` that begin with a file of recorded moments, `data`; `noises` are of each agent's decisions."""

    def __post_init__(self) -> None:
        Transitions.__post_init__(self)
        if len(self._files) > 1 or any(share is not None for _, share in self._files):
            raise ValueError(f"data = {self.data}: moments of a team come from one file, without a share")

    def init(self) -> State:
        """No rows, or those of `data`.

        Raises:
            ConfigurationError: when the file is missing or wrong.
        """
        state: State = {"rings": {}}
        for file, _ in self._files:
            batch = pack(read_moments(Path(file)))
            state = self.add(state, paid_at_decisions(batch, batch.scores["reward"].values))
        return state

    def draw(self, state: State, count: int, key: Key) -> Batch:
        batch = super().draw(state, count, key)
        shape = (batch.decisions, self.noises, batch.action.shape[-1])
        normal = key.derive("noise of agents").numpy().standard_normal(shape, np.float32)
        return batch.but(annotations={**batch.annotations, NOISE.name: torch.from_numpy(normal)})


def read_moments(file: Path) -> list[Trajectory]:
    """The episodes of a file, as decisions of agents of one policy whose log-probs are unknown.

    Raises:
        ConfigurationError: when the file is missing or damaged, or holds arrays of wrong shapes, NaN, or no ends.
    """
    columns = _checked(file)
    ends = np.nonzero((columns["terminations"] != 0) | (columns["truncations"] != 0))[0]
    episodes, start = [], 0
    for number, end in enumerate(ends.tolist()):
        episodes.append(_episode(columns, slice(start, end + 1), f"{file.name}/{number}"))
        start = end + 1
    return episodes


def _episode(columns: dict[str, NDArray[Any]], rows: slice, name: str) -> Trajectory:
    last = rows.stop - 1
    terminated, time = bool(columns["terminations"][last]), np.arange(rows.stop - rows.start)
    turns = []
    for agent in range(columns["actions"].shape[1]):
        turn = Turn(
            f"agent_{agent}", POLICY, columns["observations"][rows, agent], columns["actions"][rows, agent], time=time
        )
        turn.end = End(terminated, not terminated, columns["next_observations"][last, agent])
        turns.append(turn)
    score = Score(columns["rewards"][rows].T.flatten().astype(np.float64), Level.DECISION)
    return Trajectory(
        Scenario(name),
        turns,
        scores={"reward": score},
        terminated=terminated,
        truncated=not terminated,
        source="imported",
    )


def _checked(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file, as float32 where they are of agents."""
    try:
        with np.load(file, allow_pickle=False) as held:
            columns: dict[str, NDArray[Any]] = {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile):
        raise ConfigurationError(f"store.data: {file} is no readable .npz file; record it anew") from None
    absent = next((name for name in RANKS if name not in columns), None)
    if absent is not None:
        raise ConfigurationError(
            f"store.data: {file} has no array {absent!r}, only {', '.join(columns) or 'nothing'}; add it"
        )
    size = columns["actions"].shape[:2]
    for name, rank in RANKS.items():
        column = columns[name]
        if column.dtype.kind not in "biuf" or column.ndim != rank or column.shape[: min(rank, 2)] != size[:rank]:
            raise ConfigurationError(
                f"store.data: {name} of {file} is {column.dtype} {list(column.shape)}; write numbers with {rank} axes, "
                "moments first and agents second"
            )
        if not np.isfinite(column).all():
            raise ConfigurationError(
                f"store.data: {name} of {file} holds a number that is not finite; drop its episode"
            )
        columns[name] = column.astype(np.float32) if rank == 3 else column
    if not (columns["terminations"].any() or columns["truncations"].any()):
        raise ConfigurationError(
            f"store.data: {file} marks no end of an episode, so it is not known what follows what; set terminations or "
            "truncations"
        )
    return columns
