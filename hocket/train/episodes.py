"""Rollouts as people and the report read them: one JSON object per trajectory.

Besides what was sampled and credited, turns say how they hang together: `id` (equal where trajectories share a turn)
and `parent` (the id of the turn it extends, null at a root) number the turns of a step; `new` counts the last messages
of `prompt` that came since the parent; `conversation` numbers the histories that an agent began; `state` is the key it
was grouped by; `rewards` holds turn-level scores by name; `outside` marks answers of a model that is not trained here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.batch import Batch, Level
from hocket.core.columns import CONVERSATION, LABEL
from hocket.core.errors import HocketError
from hocket.core.packing import unique_turns
from hocket.core.signals import REWARD, returns
from hocket.train.disk import json_ready, read_json_lines, write_atomic
from hocket.types import Scenario, Trajectory, Turn

Decode = Callable[[Sequence[int]], str]
"""The text of token ids."""

Episode = dict[str, Any]

BRIEF = 500
"""Characters of one value of a trajectory's `info` that are kept at most; its limit is kept whole."""


def episodes(
    trajectories: Sequence[Trajectory],
    batch: Batch | None,
    decode: Decode | None = None,
    *,
    step: int = 0,
    rewards: Sequence[float | None] | None = None,
    discarded: Sequence[Trajectory] = (),
) -> list[Episode]:
    """The JSON form of trajectories, in their order, then of the discarded ones.

    Args:
        trajectories: what was sampled.
        batch: the credited batch packed from exactly these trajectories; advantages and weights are read off its
            occurrences, the final answer as a word off its column `label`. An occurrence that is no longer in it has
            advantage null. None when nothing was credited.
        decode: gives the text of single tokens.
        step: the training step.
        rewards: total per trajectory before shaping; the batch's combined reward when None.
        discarded: sampled and scored, but not learnt from; marked `discarded`.

    Raises:
        ValueError: when the batch is not of these trajectories.
    """
    if rewards is None and batch is not None and any(name in batch.scores for name in REWARD.values()):
        rewards = returns(batch).tolist()
    credit = None if batch is None else _Credit(trajectories, batch)
    spell = _speller(decode)
    groups: dict[str, int] = {}
    numbers = {id(turn): number for number, turn in enumerate(unique_turns([*trajectories, *discarded]))}
    rows = []
    for number, trajectory in enumerate([*trajectories, *discarded]):
        learnt = number < len(trajectories)
        row = episode(
            trajectory,
            step=step,
            group=groups.setdefault(trajectory.scenario.id, len(groups)),
            advantages=credit.advantages(number, trajectory) if credit and learnt else None,
            weights=credit.weights(number, trajectory) if credit and learnt else None,
            reward=rewards[number] if rewards is not None and learnt else None,
            spell=spell,
            numbers=numbers,
        )
        if learnt and batch is not None and LABEL.present(batch):
            row["label"] = LABEL.rows(batch)[number]
        if learnt and batch is not None and batch.occurrences.pairs is not None:
            row["paired"] = True  # Learnt from by comparison, whatever the advantage.
        rows.append(row if learnt else row | {"discarded": True})
    return rows


def episode(
    trajectory: Trajectory,
    *,
    step: int = 0,
    group: int = 0,
    advantages: Sequence[NDArray[Any]] | None = None,
    weights: Sequence[NDArray[Any]] | None = None,
    reward: float | None = None,
    spell: Callable[[int], str] | None = None,
    numbers: Mapping[int, int] | None = None,
) -> Episode:
    """One trajectory as JSON data. `advantages` and `weights` have one array `[L]` per turn, NaN where unknown.

    `numbers` are those of the turns by `id(turn)`, contexts included; None numbers them within the trajectory.
    """
    numbers = numbers or {id(turn): number for number, turn in enumerate(unique_turns([trajectory]))}
    rewards = _turn_rewards(trajectory)
    turns = []
    for number, turn in enumerate(trajectory.turns):
        parent = None if turn.parent is None else numbers[id(turn.parent)]
        row = {"id": numbers[id(turn)], "parent": parent, **_turn(turn, spell)}
        if rewards[number]:
            row["rewards"] = rewards[number]
        row["advantage"] = None if advantages is None else _floats(advantages[number])
        if weights is not None and not np.all(weights[number] == 1.0):
            row["weight"] = _floats(weights[number])
        turns.append(row)
    return {
        "step": step,
        "group": group,
        "sample": trajectory.sample,
        "scenario": _scenario(trajectory.scenario),
        "turns": turns,
        "scores": json_ready({name: score.value for name, score in trajectory.scores.items()}),
        "feedback": {name: score.feedback for name, score in trajectory.scores.items() if score.feedback},
        "reward": json_ready(reward),
        "source": trajectory.source,
        "kept": weights is not None and any(bool(np.nansum(np.abs(weight)) > 0) for weight in weights),
        "truncated": trajectory.truncated,
        "terminated": trajectory.terminated,
        "failure": trajectory.failure,
        "info": _brief(trajectory.info),
    }


def write_episodes(
    path: Path,
    step: int,
    trajectories: Sequence[Trajectory],
    batch: Batch | None,
    decode: Decode | None = None,
    *,
    rewards: Sequence[float | None] | None = None,
    discarded: Sequence[Trajectory] = (),
) -> list[Episode]:
    """Writes `rollouts/step-000123.jsonl` whole, replacing an earlier one, and returns its rows; see `episodes`.

    Raises:
        HocketError: when the disk refuses.
    """
    rows = episodes(trajectories, batch, decode, step=step, rewards=rewards, discarded=discarded)
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HocketError(f"{path} cannot be written: {reason}; free some disk space or check the disk.") from error
    return rows


def read_episodes(path: Path) -> list[Episode]:
    """The episodes of one step; none when the file is missing."""
    return list(read_json_lines(path))


class _Credit:
    """Looks up what each turn of each trajectory was credited."""

    def __init__(self, trajectories: Sequence[Trajectory], batch: Batch) -> None:
        if batch.trajectories != len(trajectories):
            raise ValueError(f"{len(trajectories)} trajectories, but a batch of {batch.trajectories}")
        turns = unique_turns(trajectories)
        lengths = np.array([len(turn) for turn in turns], dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        if batch.decisions != int(lengths.sum()):
            raise ValueError(f"these trajectories have {int(lengths.sum())} decisions, the batch {batch.decisions}")
        self._starts = {id(turn): int(start) for turn, start in zip(turns, starts, strict=True)}
        occurrences = batch.occurrences
        self._decision = occurrences.decision.numpy(force=True)
        self._advantage = occurrences.advantage.numpy(force=True)
        self._weight = occurrences.weight.numpy(force=True)
        owner = occurrences.trajectory.numpy(force=True)
        self._bounds = np.searchsorted(owner, np.arange(len(trajectories) + 1))

    def advantages(self, number: int, trajectory: Trajectory) -> list[NDArray[Any]]:
        return [self._column(self._advantage, number, turn, np.nan) for turn in trajectory.turns]

    def weights(self, number: int, trajectory: Trajectory) -> list[NDArray[Any]]:
        return [self._column(self._weight, number, turn, 0.0) for turn in trajectory.turns]

    def _column(self, column: NDArray[Any], trajectory: int, turn: Turn, missing: float) -> NDArray[Any]:
        span = slice(self._bounds[trajectory], self._bounds[trajectory + 1])
        place = self._decision[span] - self._starts[id(turn)]
        inside = (place >= 0) & (place < len(turn))
        values = np.full(len(turn), missing, dtype=column.dtype)
        values[place[inside]] = column[span][inside]
        return values


def _turn(turn: Turn, spell: Callable[[int], str] | None) -> Episode:
    recorded = turn.observation.dtype.names is not None
    control = recorded or np.issubdtype(turn.observation.dtype, np.floating) or turn.observation.ndim > 1
    discrete = np.issubdtype(turn.action.dtype, np.integer) and turn.action.ndim == 1
    row: Episode = {
        "agent": turn.agent,
        "role": turn.role or turn.agent,
        "policy": turn.policy,
        "prompt": json_ready(list(turn.prompt)),
        "new": new_messages(turn),
        "conversation": CONVERSATION.get(turn),
        "state": turn.state,
        "observation": _observed(turn),
        "length": len(turn),
        "tokens": turn.action.tolist() if discrete else None,
        "text": turn.text,
        "token_texts": [spell(int(token)) for token in turn.action] if spell and discrete and not control else None,
        "logp": None if turn.logp is None else _floats(turn.logp),
        "finish": turn.finish,
    }
    if not discrete:
        row["actions"] = _digest(turn.action) if recorded else json_ready(turn.action)
    if turn.forced is not None and turn.forced.any():
        row["forced"] = turn.forced.tolist()
        # What was sampled and yet is imposed as a whole came from a seat where nobody learns.
        if turn.decoding is not None and turn.forced.all():
            row["outside"] = True
    return row


def _observed(turn: Turn) -> Any:
    """Token ids, the ends of what a controller saw, or a digest of denoising steps."""
    rows = turn.observation
    if rows.dtype.names is not None:
        return _digest(rows)
    return _ends(rows) if np.issubdtype(rows.dtype, np.floating) or rows.ndim > 1 else rows.tolist()


def _digest(values: NDArray[Any]) -> Episode:
    """The shape and a hash of states of pictures, which would dwarf everything else."""
    content = np.ascontiguousarray(values).tobytes()
    return {"shape": list(values.shape), "digest": hashlib.blake2b(content, digest_size=16).hexdigest()}


def new_messages(turn: Turn) -> int:
    """How many of the last messages of a turn's prompt came since its parent; all of them at a root."""
    if turn.parent is None:
        return len(turn.prompt)
    past = len(turn.parent.prompt)
    if turn.prompt[:past] != turn.parent.prompt:
        return len(turn.prompt)
    # The parent's own answer stands between, unless the turn goes on with that very answer.
    return max(len(turn.prompt) - past - 1, 0)


def _turn_rewards(trajectory: Trajectory) -> list[dict[str, float]]:
    """The turn-level scores of each turn by name, where there is an opinion."""
    rewards: list[dict[str, float]] = [{} for _ in trajectory.turns]
    for name, score in trajectory.scores.items():
        if score.level is not Level.TURN or score.value is None:
            continue
        values = np.atleast_1d(np.asarray(score.value, dtype=np.float64)).tolist()
        for place, value in zip(rewards, values, strict=False):
            if np.isfinite(value):
                place[name] = value
    return rewards


def _scenario(scenario: Scenario) -> Episode:
    fields = json_ready({"id": scenario.id, "prompt": scenario.prompt, "answer": scenario.answer})
    more = {"origin": scenario.origin, "metadata": _brief(scenario.metadata)}
    return {**fields, **{name: value for name, value in more.items() if value}}


def _brief(info: Mapping[str, Any]) -> Episode:
    """The values of `info` that are plain and short; long texts are cut."""
    brief = {}
    for name, value in info.items():
        if isinstance(value, str) and name != "limit" and len(value) > BRIEF:
            brief[str(name)] = value[: BRIEF - 1] + "…"
        elif _plain(value):
            ready = json_ready(value)
            if isinstance(value, str) or len(json.dumps(ready)) <= BRIEF:
                brief[str(name)] = ready
    return brief


def _plain(value: Any, most: int = 64) -> bool:
    """Whether a value is numbers and texts, or a small collection of such."""
    if isinstance(value, Mapping):
        return len(value) <= most and all(_plain(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return len(value) <= most and all(_plain(item) for item in value)
    return value is None or isinstance(value, (str, bool, int, float, np.generic))


def _ends(observations: NDArray[Any]) -> Episode:
    """Only the first and the last observation of a control turn; all of them would dwarf everything else."""
    ends = [observations[0], observations[-1]] if len(observations) else [None, None]
    return {"shape": list(observations.shape), "first": json_ready(ends[0]), "last": json_ready(ends[1])}


def _floats(values: NDArray[Any]) -> list[float | None]:
    """Numbers written short; float32 without loss, null where not finite."""
    values = np.asarray(values)
    # The shortest text of a float32 is half as long as that of the float64 it widens to. Credit computed in float64
    # keeps nine digits.
    single = values.dtype == np.float32
    numbers = [float(text) for text in values.astype("U")] if single else [float(f"{value:.9g}") for value in values]
    return [number if np.isfinite(number) else None for number in numbers]


def _speller(decode: Decode | None) -> Callable[[int], str] | None:
    if decode is None:
        return None
    texts: dict[int, str] = {}

    def spell(token: int) -> str:
        if token not in texts:
            texts[token] = decode([token])
        return texts[token]

    return spell
