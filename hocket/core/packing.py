"""From trajectories to the learner's packed `Batch`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, MixedActions, Occurrences, RecordedNumbers
from hocket.core.columns import ALLOWED, UNMASKED
from hocket.core.joint import parts_of
from hocket.types import Score, Trajectory, Turn


class Codes:
    """Gives each name the next integer."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]


def unique_turns(trajectories: Sequence[Trajectory]) -> list[Turn]:
    """Every turn once, contexts before what extends them, in order of first use."""
    turns: dict[int, Turn] = {}
    for trajectory in trajectories:
        for turn in trajectory.turns:
            for link in turn.context():
                turns.setdefault(id(link), link)
    return list(turns.values())


def pack(trajectories: Sequence[Trajectory]) -> Batch:
    """Packs trajectories in the order given. A `Turn` object shared by several trajectories is stored once.

    Forced decisions, and all decisions of `baseline` trajectories, get weight 0.

    Raises:
        ValueError: for an empty list, or a turn or a score whose columns differ in length.
    """
    if not trajectories:
        raise ValueError("cannot pack an empty list of trajectories")
    turns = unique_turns(trajectories)
    place = {id(turn): number for number, turn in enumerate(turns)}
    for turn in turns:
        _check(turn)
    lengths = np.array([len(turn) for turn in turns], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    visits = [[place[id(turn)] for turn in trajectory.turns] for trajectory in trajectories]
    codes = {name: Codes() for name in ("scenario", "source", "agent", "role", "policy", "state")}
    columns = {
        "parent": [-1 if turn.parent is None else place[id(turn.parent)] for turn in turns],
        "agent": [codes["agent"](turn.agent) for turn in turns],
        "role": [codes["role"](turn.role or turn.agent) for turn in turns],
        "policy": [codes["policy"](turn.policy) for turn in turns],
        # An unnamed state is unlike any other.
        "state": [codes["state"](turn.state if turn.state is not None else f"\0{n}") for n, turn in enumerate(turns)],
        "scenario": [codes["scenario"](trajectory.scenario.id) for trajectory in trajectories],
        "source": [codes["source"](trajectory.source) for trajectory in trajectories],
        "order": list(range(len(trajectories))),
        "index": _turn_index(visits, len(turns)),
    }
    occurrences = _occurrences(visits, starts, lengths)
    forced = _decisions(turns, lambda turn: turn.forced, False, torch.bool)
    learnt = torch.tensor([trajectory.source != "baseline" for trajectory in trajectories])
    weight = (learnt[occurrences.trajectory] & ~forced[occurrences.decision]).float()
    tensors: dict[str, Any] = {name: torch.tensor(column, dtype=torch.long) for name, column in columns.items()}
    return Batch(
        action=_actions(turns),
        turn=torch.repeat_interleave(torch.arange(len(turns)), torch.from_numpy(lengths)),
        segment=_decisions(turns, lambda turn: turn.segment, 0, torch.long),
        version=_decisions(turns, lambda turn: turn.version, 0, torch.long),
        forced=forced,
        logp={"behaviour": _behaviour(turns)} | _unmasked(turns),
        observation=[turn.observation for turn in turns],
        terminated=torch.tensor([trajectory.terminated for trajectory in trajectories]),
        truncated=torch.tensor([trajectory.truncated for trajectory in trajectories]),
        final_state=[trajectory.final_state for trajectory in trajectories],
        occurrences=Occurrences(occurrences.decision, occurrences.trajectory, torch.zeros_like(weight), weight),
        names={name: tuple(code.names) for name, code in codes.items()},
        scores=_scores(trajectories, turns, visits),
        temperature=_temperatures(turns),
        allowed=[ALLOWED.get(turn) for turn in turns] if any(ALLOWED.present(turn) for turn in turns) else (),
        info=_info(trajectories),
        time=_times(turns),
        joint=[turn.joint for turn in turns] if any(turn.joint is not None for turn in turns) else (),
        parts=parts_of(trajectories, codes["agent"]),
        **tensors,
    )


def _check(turn: Turn) -> None:
    for name in ("logp", "version", "forced", "segment"):
        column = getattr(turn, name)
        if column is not None and len(column) != len(turn):
            raise ValueError(f"turn of agent {turn.agent!r}: {len(turn)} decisions but {len(column)} values of {name}")


def _turn_index(visits: list[list[int]], turns: int) -> list[int]:
    index = [0] * turns
    for path in reversed(visits):
        for position, turn in enumerate(path):
            index[turn] = position
    return index


def _occurrences(visits: list[list[int]], starts: np.ndarray, lengths: np.ndarray) -> Occurrences:
    spans = [np.arange(starts[turn], starts[turn] + lengths[turn]) for path in visits for turn in path]
    decision = torch.from_numpy(np.concatenate(spans) if spans else np.zeros(0, np.int64))
    totals = torch.tensor([sum(int(lengths[turn]) for turn in path) for path in visits])
    trajectory = torch.repeat_interleave(torch.arange(len(visits)), totals)
    nothing = torch.zeros(len(decision))
    return Occurrences(decision, trajectory, nothing, nothing)


def _actions(turns: Sequence[Turn]) -> Tensor:
    filled = [np.asarray(turn.action) for turn in turns if len(turn)]
    shapes = list(dict.fromkeys(action.shape[1:] for action in filled))
    if len(shapes) > 1:
        # What reads actions reads those of one policy, by their indices.
        return cast(Tensor, _mixed(filled, shapes))
    return torch.from_numpy(np.concatenate(filled)) if filled else torch.zeros(0, dtype=torch.long)


def _mixed(actions: Sequence[NDArray[Any]], shapes: Sequence[tuple[int, ...]]) -> MixedActions:
    """Actions `[L, ...]` of turns in order, by their shapes."""
    alike = [[action for action in actions if action.shape[1:] == shape] for shape in shapes]
    part = np.concatenate([np.full(len(action), shapes.index(action.shape[1:])) for action in actions])
    place = np.zeros(len(part), np.int64)
    for number in range(len(shapes)):
        mine = part == number
        place[mine] = np.arange(mine.sum())
    parts = tuple(torch.from_numpy(np.concatenate(members)) for members in alike)
    return MixedActions(parts, torch.from_numpy(part), torch.from_numpy(place))


def _decisions(turns: Sequence[Turn], column: Callable[[Turn], Any], default: Any, dtype: torch.dtype) -> Tensor:
    """One `[T]` column, with a default for turns that do not record it."""
    entries = [(column(turn), len(turn)) for turn in turns]
    parts = [np.full(length, default) if values is None else np.asarray(values) for values, length in entries]
    return torch.from_numpy(np.concatenate(parts)).to(dtype) if parts else torch.zeros(0, dtype=dtype)


def _behaviour(turns: Sequence[Turn]) -> RecordedNumbers:
    # A log-density of many dimensions is large, and float32 would round away what a ratio is made of.
    exact = any(isinstance(turn.logp, np.ndarray) and turn.logp.dtype == np.float64 for turn in turns)
    values = _decisions(turns, lambda turn: turn.logp, 0.0, torch.float64 if exact else torch.float32)
    known = _decisions(turns, lambda turn: np.full(len(turn), turn.logp is not None), False, torch.bool)
    return RecordedNumbers(values, known)


def _unmasked(turns: Sequence[Turn]) -> dict[str, RecordedNumbers]:
    """Log-probs under the whole distribution of turns that were sampled under a mask; nothing where none was."""
    if not any(UNMASKED.present(turn) for turn in turns):
        return {}
    values = _decisions(turns, lambda turn: UNMASKED.get(turn), 0.0, torch.float32)
    known = _decisions(turns, lambda turn: np.full(len(turn), UNMASKED.present(turn)), False, torch.bool)
    return {"unmasked": RecordedNumbers(values, known)}


def _temperatures(turns: Sequence[Turn]) -> Tensor:
    """Sampling temperature per turn, `[U]`; greedy and unknown turns count as 1."""
    return torch.tensor([(turn.decoding.temperature or 1.0) if turn.decoding else 1.0 for turn in turns])


def _times(turns: Sequence[Turn]) -> Tensor | None:
    """When each decision was made, `[T]`; None where no turn says so. Turns that do not count from 0."""
    if all(turn.time is None for turn in turns):
        return None
    parts = [np.arange(len(turn)) if turn.time is None else turn.time for turn in turns]
    return torch.from_numpy(np.concatenate(parts)).long()


def _scores(
    trajectories: Sequence[Trajectory], turns: Sequence[Turn], visits: list[list[int]]
) -> dict[str, LevelScores]:
    names: dict[str, Level] = {}
    for trajectory in trajectories:
        for name, score in trajectory.scores.items():
            if names.setdefault(name, score.level) is not score.level:
                raise ValueError(f"score {name!r} is given at level {score.level} and at level {names[name]}")
    return {name: LevelScores(level, _score(name, level, trajectories, turns, visits)) for name, level in names.items()}


def _score(
    name: str, level: Level, trajectories: Sequence[Trajectory], turns: Sequence[Turn], visits: list[list[int]]
) -> Tensor:
    scores = [trajectory.scores.get(name) for trajectory in trajectories]
    if level is Level.TRAJECTORY:
        return torch.tensor([_number(None if score is None else score.value) for score in scores], dtype=torch.float64)
    if level is Level.TURN:
        values = [torch.nan] * len(turns)
        for score, path in zip(scores, visits, strict=True):
            for turn, number in zip(path, _numbers(name, score, len(path), "turns"), strict=True):
                # A shared turn keeps the first opinion about it.
                values[turn] = number if math.isnan(values[turn]) else values[turn]
        return torch.tensor(values, dtype=torch.float64)
    lengths = [trajectory.length for trajectory in trajectories]
    parts = [_numbers(name, score, length, "decisions") for score, length in zip(scores, lengths, strict=True)]
    return torch.tensor([number for part in parts for number in part], dtype=torch.float64)


def _numbers(name: str, score: Score | None, length: int, members: str) -> list[float]:
    """A score's numbers, one per member; NaN throughout without an opinion."""
    if score is None or score.value is None:
        return [torch.nan] * length
    values: Any = score.value
    numbers = [_number(value) for value in values]
    if len(numbers) != length:
        raise ValueError(f"score {name!r}: {len(numbers)} values for {length} {members}")
    return numbers


def _number(value: Any) -> float:
    return torch.nan if value is None else float(value)


def _info(trajectories: Sequence[Trajectory]) -> dict[str, list[Any]]:
    names = {name: None for trajectory in trajectories for name in trajectory.info}
    return {name: [trajectory.info.get(name) for trajectory in trajectories] for name in names}
