"""The replay store: earlier trajectories per scenario, with their exact token ids, log-probs, versions and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from hocket.core import sums
from hocket.core.columns import InfoColumn
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.occurrences import unmarked
from hocket.rollout.dynamic import total
from hocket.stages import State
from hocket.types import Decoding, End, Level, Scenario, Score, Trajectory, Turn

AGE = InfoColumn("age", "Of a replayed trajectory, how many steps ago it was sampled.")

Take = Literal["all", "recent", "best", "spread", "any"]
"""Which of a scenario's stored trajectories are drawn: the newest (`recent`), those of highest return (`best`), the
subset of largest variance of returns (`spread`), or random ones (`any`). `all` is as `recent`."""


def worth(trajectory: Trajectory) -> float:
    """The sum of a trajectory's scores, before shaping."""
    return sums.total(map(total, trajectory.scores.values()))


@dataclass(frozen=True)
class ReplayStore:
    """A bounded store of trajectories by scenario; a full scenario drops its oldest trajectory, or its worst.

    The stored trajectories are plain data in the run's state, so they are in every checkpoint. Replayed trajectories
    have source `replay`. Token ids are not encoded again, log-probs are those of the policy that sampled them (so that
    ratios are to that policy), and `info["age"]` is their age. They are no samples of this step: the ledger, the counts
    of tokens and the agreement of sampler and learner ignore them.

    Attributes:
        size: the most trajectories per scenario. scenarios: the most scenarios; the least recently extended is dropped.
        keep: which trajectories stay in a full scenario, the `newest` or the `best` (in a tie the newest).
    """

    size: int = 16
    scenarios: int = 4096
    keep: Literal["newest", "best"] = "newest"

    def __post_init__(self) -> None:
        if self.size < 1 or self.scenarios < 1:
            raise ValueError(f"size and scenarios must be at least 1, not {self.size} and {self.scenarios}")
        if self.keep not in ("newest", "best"):
            raise ValueError(f"keep must be newest or best, not {self.keep!r}")

    def init(self) -> State:
        """An empty store, at step 0."""
        return {"step": 0, "kept": {}}

    def add(self, state: State, trajectories: Sequence[Trajectory]) -> State:
        """The state of the next step, with these trajectories added; failed and empty ones are skipped.

        Raises:
            HocketError: for a turn that cannot be stored, such as one sampled under a mask.
        """
        step = int(state["step"]) + 1
        groups: dict[str, list[State]] = dict(state["kept"])
        for trajectory in trajectories:
            if trajectory.failure is None and trajectory.length:
                scenario = unmarked(trajectory.scenario.id)
                held = [*groups.pop(scenario, []), {"step": step, "worth": worth(trajectory), **written(trajectory)}]
                if len(held) > self.size:
                    last = 0 if self.keep == "newest" else min(range(len(held)), key=lambda n: held[n]["worth"])
                    del held[last]
                groups[scenario] = held
        for oldest in list(groups)[: max(len(groups) - self.scenarios, 0)]:
            del groups[oldest]
        return {"step": step, "kept": groups}

    def count(self, state: State, scenario: str) -> int:
        """The number of stored trajectories of a scenario."""
        return len(state["kept"].get(unmarked(scenario), ()))

    def draw(
        self, state: State, scenario: Scenario, count: int, take: Take, key: Key, *, least: float = -math.inf
    ) -> list[Trajectory]:
        """At most `count` stored trajectories of a scenario whose scores sum to at least `least`, oldest first."""
        held = [row for row in state["kept"].get(unmarked(scenario.id), ()) if row["worth"] >= least]
        places = chosen([row["worth"] for row in held], count, take, key)
        age = int(state["step"]) + 1
        return [_replayed(held[place], scenario, age - int(held[place]["step"]), place) for place in places]


def chosen(worth: Sequence[float], count: int, take: Take, key: Key) -> list[int]:
    """The places of the drawn trajectories, increasing; `worth` is that of each stored trajectory, oldest first.

    The subset of largest variance consists of some of the smallest and some of the largest values; in a tie, the split
    with the most of the largest values is taken.

    Raises:
        ValueError: for an unknown `take`.
    """
    if take not in get_args(Take):
        raise ValueError(f"take must be one of {', '.join(get_args(Take))}, not {take!r}")
    size = len(worth)
    if count <= 0 or size <= count:
        return list(range(size if count > 0 else 0))
    if take in ("all", "recent"):
        return list(range(size - count, size))
    if take == "any":
        return sorted(key.numpy().permutation(size)[:count].tolist())
    order = sorted(range(size), key=lambda place: (worth[place], place))
    if take == "best":
        return sorted(order[size - count :])
    splits = [order[:low] + order[size - count + low :] for low in range(count + 1)]
    return sorted(max(splits, key=lambda places: float(np.var([worth[place] for place in places]))))


# ---------------------------------------------------------------- plain data

_ARRAYS = ("observation", "action", "logp", "version", "forced", "segment", "time", "joint")
_PLAIN = ("agent", "policy", "role", "state", "finish", "text")
_DECODING = ("temperature", "top_k", "top_p", "min_p", "max_tokens", "stop", "banned")


def written(trajectory: Trajectory) -> State:
    """A trajectory without its scenario, as plain data; its turns and their contexts are numbered.

    Raises:
        HocketError: for a turn that was sampled under a mask of actions.
    """
    turns: dict[int, Turn] = {}
    for leaf in trajectory.turns:
        for turn in leaf.context():
            turns.setdefault(id(turn), turn)
    number = {place: index for index, place in enumerate(turns)}
    return {
        "turns": [
            {
                **{name: getattr(turn, name) for name in (*_ARRAYS, *_PLAIN)},
                "parent": -1 if turn.parent is None else number[id(turn.parent)],
                "end": None if turn.end is None else vars(turn.end),
                "decoding": None if turn.decoding is None else _decoding(turn.decoding),
                "prompt": [_plain(dict(message)) for message in turn.prompt],
                "extras": _kept(turn.extras),
            }
            for turn in turns.values()
        ],
        "own": [number[id(turn)] for turn in trajectory.turns],
        "scores": {
            name: {"value": _plain(score.value), "level": str(score.level), "feedback": score.feedback}
            for name, score in trajectory.scores.items()
        },
        "ended": [trajectory.terminated, trajectory.truncated],
        "final": trajectory.final_state,
        "info": _kept(trajectory.info),
    }


def _decoding(decoding: Decoding) -> State:
    if decoding.mask is not None:
        raise HocketError(
            "a turn that was sampled under a mask of actions cannot be replayed; drop the mask or the store"
        )
    return {name: getattr(decoding, name) for name in _DECODING}


def _kept(notes: dict[str, Any]) -> State:
    """The notes of a trajectory or turn that a checkpoint can hold."""
    data = {}
    for name, value in notes.items():
        try:
            data[name] = _plain(value)
        except HocketError:
            continue
    return data


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, np.ndarray)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        parts = [_plain(item) for item in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(item) for name, item in value.items()}
    raise HocketError(f"a {type(value).__name__} cannot be kept")


def told_of(scenario: Scenario) -> State:
    """A scenario as plain data; `Scenario(**data)` is the inverse.

    Raises:
        HocketError: for metadata other than text, numbers, lists and mappings of them.
    """
    try:
        data: State = _plain(vars(scenario))
    except HocketError as error:
        raise HocketError(f"scenario {scenario.id!r} cannot be asked again in a later step: {error}") from None
    return data


def restored(kept: State, scenario: Scenario) -> Trajectory:
    """The trajectory that `written` turned into `kept`, as sample 0 of source `own`."""
    turns: list[Turn] = []
    for row in kept["turns"]:
        way = row["decoding"]
        turns.append(
            Turn(
                **{name: row[name] for name in (*_ARRAYS, *_PLAIN)},
                parent=None if row["parent"] < 0 else turns[row["parent"]],
                end=None if row["end"] is None else End(**row["end"]),
                decoding=None if way is None else Decoding(**way),
                prompt=tuple(row["prompt"]),
                extras=dict(row["extras"]),
            )
        )
    return Trajectory(
        scenario,
        [turns[number] for number in kept["own"]],
        scores={
            name: Score(score["value"], Level(score["level"]), score["feedback"])
            for name, score in kept["scores"].items()
        },
        terminated=kept["ended"][0],
        truncated=kept["ended"][1],
        final_state=kept["final"],
        info=dict(kept["info"]),
    )


def _replayed(kept: State, scenario: Scenario, age: int, place: int) -> Trajectory:
    made = restored(kept, scenario)
    made.sample, made.source = -1 - place, "replay"
    AGE.write(made, age)
    return made


def mixed_in(groups: Sequence[Sequence[Trajectory]], replayed: Sequence[Sequence[Trajectory]]) -> list[Trajectory]:
    """The trajectories of fresh groups, each group followed by its replayed trajectories."""
    return [trajectory for fresh, old in zip(groups, replayed, strict=True) for trajectory in (*fresh, *old)]


def ages(replayed: Sequence[Trajectory]) -> dict[str, float]:
    """Metrics: the number of replayed trajectories, and their mean and largest age in steps."""
    steps = [float(AGE.get(trajectory)) for trajectory in replayed]
    mean = sum(steps) / len(steps) if steps else math.nan
    return {"replay/trajectories": float(len(steps)), "replay/age": mean, "replay/oldest": max(steps, default=math.nan)}


def replaced_failure(group: list[Trajectory], success: Trajectory, key: Key) -> list[Trajectory]:
    """A group in which `success` replaces a random member."""
    place = int(key.numpy().integers(len(group)))
    return [*group[:place], success, *group[place + 1 :]]
