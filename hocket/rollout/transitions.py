"""Transitions that a run keeps: a ring of rows for each policy, drawn uniformly or by their errors.

A row is a decision: what was observed and done, what the next n decisions paid, what was observed then, and how much of
its value counts. Several decisions are joined as rows are added, when their whole episode is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, Occurrences, RecordedNumbers
from hocket.core.errors import ConfigurationError
from hocket.core.joint import apart
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import REWARD, paid_at_decisions, rewards_by_occurrence
from hocket.core.stored_rows import ALLOWED_THEN, FOLLOWING, GOES_ON, KIND, NOISE, PAID, PLACE, STEP, TO_GO
from hocket.rollout.recorded_rows import read_rows
from hocket.rollout.row_sequences import ending_at, in_sequences
from hocket.rollout.store import Columns, Store, blank, cut, length
from hocket.rollout.sum_tree import SumTree
from hocket.stages import State

POLICY = "policy"
"""The policy of a run with one controller."""


@dataclass(frozen=True)
class Transitions(Store):
    """The latest `size` decisions of each policy. A full store drops its oldest rows.

    With `take` = `prioritised` a row is drawn in proportion to `(|error| + 1e-6) ** alpha`, its latest distance of
    action value and backup; a new row takes the largest so far. Its weight in the loss is `(M p) ** -beta` over the
    largest of the draw, p its probability and M the number of rows (Schaul et al., arXiv 1511.05952).

    Attributes:
        size: rows kept. rows: of a mini-batch. steps: the decisions that a row joins, n. gamma: discount per decision.
        length: rows of a sequence. Above 1, a draw takes a row and those before it in its episode, `length` in all
            where there are so many; `rows` counts sequences.
        take: how rows are drawn. ratio: gradients per fresh decision. gradients_per_step: a fixed number instead.
        noises: standard normal numbers drawn with a row, for so many actions drawn anew; of vectors alone.
        begin: the least number of rows before anything is learnt. draws: of a step; with more than one, later draws
            know the errors of earlier ones, and other policies' changes.
        alpha, beta: of prioritised draws.
        data: files of recorded decisions, with which the store begins, separated by commas; see `hocket record`. With
            `FILE=SHARE` for each, rows are drawn from them in these shares, and from fresh decisions in what is left.
    """

    size: int = 1_000_000
    rows: int = 256
    steps: int = 1
    length: int = 1
    gamma: float = 0.99
    take: Literal["uniform", "prioritised"] = "uniform"
    ratio: float = 1.0
    gradients_per_step: int | None = None
    noises: int = 2
    begin: int = 100
    draws: int = 1
    alpha: float = 0.6
    beta: float = 0.4
    data: str | None = None

    def __post_init__(self) -> None:
        if self.take not in ("uniform", "prioritised"):
            raise ValueError(f"take must be uniform or prioritised, not {self.take!r}")
        if min(self.rows, self.steps, self.draws, self.length) < 1 or self.noises < 2 or self.begin < 0:
            raise ValueError(
                "rows, steps, draws and length must be at least 1, noises at least 2, and begin at least 0"
            )
        if self.size < self.rows:
            raise ValueError(
                f"size = {self.size} keeps fewer rows than a mini-batch has ({self.rows}); set a larger size"
            )
        if self.begin > self.size:
            raise ValueError(f"begin = {self.begin} waits for more rows than are kept; set at most size = {self.size}")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")
        if not self.ratio > 0 or (self.gradients_per_step is not None and self.gradients_per_step < 1):
            raise ValueError("ratio must be positive, and gradients_per_step at least 1")
        shares = [share for _, share in self._files if share is not None]
        if shares and (len(shares) < len(self._files) or min(shares) < 0 or not 0 < sum(shares) <= 1 + 1e-9):
            raise ValueError(f"data = {self.data}: give every file a share of at least 0, with a sum in (0, 1]")
        if shares and self.take == "prioritised":
            raise ValueError(f"data = {self.data}: rows are drawn by shares or by errors; drop the shares, or take")
        if min(self.alpha, self.beta) < 0:
            raise ValueError("alpha and beta must be at least 0")

    @property
    def _files(self) -> list[tuple[str, float | None]]:
        """The files of `data`, with their shares.

        Raises:
            ValueError: for a share that is no number.
        """
        parts = [part.strip().rpartition("=") for part in (self.data or "").split(",") if part.strip()]
        return [(name, float(share)) if mark else (share, None) for name, mark, share in parts]

    @property
    def reads_errors(self) -> bool:
        return self.take == "prioritised"

    def init(self) -> State:
        """No rows, or those of `data`.

        Raises:
            ConfigurationError: when a file of `data` is missing or wrong.
        """
        state: State = {"rings": {}}
        sources: list[tuple[int, float]] = []
        for file, share in self._files:
            batch = pack(read_rows(Path(file), POLICY))
            state = self.add(state, paid_at_decisions(batch, batch.scores["reward"].values))
            if share is not None:
                sources.append((int(state["rings"][POLICY]["added"]), share))
        return {**state, "sources": sources} if sources else state

    def gradients(self, state: State, fresh: int) -> int:
        held = [min(int(ring["added"]), self.size) for ring in state["rings"].values()]
        if not held or min(held) < max(self.begin, 1):
            return 0
        return max(round(fresh * self.ratio), 0) if self.gradients_per_step is None else self.gradients_per_step

    # ------------------------------------------------------------ adding

    def add(self, state: State, batch: Batch) -> State:
        """See `Store.add`.

        Raises:
            ConfigurationError: for rows of other shapes than those kept.
        """
        split = apart(batch)
        for name in batch.names["policy"]:
            columns = rows_of(split.of_policy(name), self.steps, self.gamma, sequences=self.length > 1)
            if columns and length(columns):
                ring = state["rings"][name] = self._extended(state["rings"].get(name), columns, name)
                if "sources" in state and int(ring["added"]) > self.size:
                    raise ConfigurationError(
                        f"store.size = {self.size}: data of which a share is drawn and fresh decisions no longer fit; "
                        "set a larger size"
                    )
        return state

    def _extended(self, ring: State | None, columns: Columns, policy: str) -> State:
        """A ring with rows after its newest."""
        if ring is None:
            ring = {"added": 0, "columns": blank(columns, self.size)}
            if self.reads_errors:
                ring |= {"tree": SumTree(self.size), "largest": 1.0}
        _check_shapes(ring["columns"], columns, policy)
        count, added = length(columns), int(ring["added"])
        if count > self.size:
            columns, added, count = cut(columns, slice(count - self.size, None)), added + count - self.size, self.size
        places = (added + np.arange(count)) % self.size
        for name, column in columns.items():
            ring["columns"][name][places] = column
        if self.reads_errors:
            ring["tree"].put(places, np.full(count, ring["largest"]))
        ring["added"] = added + count
        return ring

    # ------------------------------------------------------------ drawing

    def draw(self, state: State, count: int, key: Key) -> Batch:
        """See `Store.draw`. Rows are drawn independently, so one may come twice; all rings draw by the same numbers.

        Raises:
            ConfigurationError: when no rows are kept.
        """
        rings: Mapping[str, State] = state["rings"]
        if not rings:
            raise ConfigurationError("the store is empty, so nothing can be drawn; let it keep a step first")
        drawn, places, weights, counts = [], [], [], []
        for ring in rings.values():
            place, weight = self._places(ring, count, key.derive("rows").numpy(), state.get("sources", ()))
            if self.length > 1:
                place, reach = ending_at(place, self.length, ring["columns"][STEP.name], int(ring["added"]))
                weight = np.repeat(weight, reach)
                counts.append(reach)
            places.append(place)
            weights.append(weight)
            drawn.append(cut(ring["columns"], place))
        batch = batch_of_rows(list(rings), drawn, places, weights, key, self.noises)
        return batch if self.length == 1 else in_sequences(batch, counts)

    def _places(
        self, ring: State, count: int, rng: np.random.Generator, sources: Sequence[tuple[int, float]]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The places of drawn rows `[count]`, and their weights; `sources` end at a row and have a share each."""
        held = min(int(ring["added"]), self.size)
        if sources:
            return by_shares(sources, held, count, rng), np.ones(count, np.float32)
        if not self.reads_errors:
            return rng.integers(0, held, count), np.ones(count, np.float32)
        place, share = ring["tree"].draw(rng.random(count))
        weight = np.power(held * share, -self.beta)
        return place, (weight / weight.max()).astype(np.float32)

    def learnt(self, state: State, errors: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> State:
        for name, (places, error) in errors.items() if self.reads_errors else ():
            ring = state["rings"][name]
            priority = np.power(np.abs(error).astype(np.float64) + 1e-6, self.alpha)
            ring["tree"].put(places, priority)
            ring["largest"] = max(float(ring["largest"]), float(priority.max(initial=0.0)))
        return state


def by_shares(
    sources: Sequence[tuple[int, float]], held: int, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Places of rows `[count]` in these shares: source i ends before row `sources[i][0]`; the rest are fresh rows."""
    ends = np.array([*(int(end) for end, _ in sources), held])
    shares = np.array([float(share) for _, share in sources])
    shares = np.append(shares, max(1.0 - shares.sum(), 0.0))
    starts = np.concatenate([[0], ends[:-1]])
    shares *= ends > starts
    source = rng.choice(len(ends), size=count, p=shares / shares.sum())
    places: NDArray[np.int64] = starts[source] + (rng.random(count) * (ends - starts)[source]).astype(np.int64)
    return places


def _check_shapes(kept: Columns, columns: Columns, policy: str) -> None:
    for name in {*kept, *columns}:
        old, new = (part[name].shape[1:] if name in part else None for part in (kept, columns))
        if old != new:
            raise ConfigurationError(
                f"the store keeps {name} of {'no' if old is None else list(old)} numbers a row for policy {policy!r}, "
                f"and these rows have {'none' if new is None else list(new)}; take data of the same task"
            )


# ---------------------------------------------------------------- rows


def rows_of(batch: Batch, steps: int, gamma: float, *, sequences: bool = False) -> Columns:
    """The counted decisions of a rewarded batch of one policy as rows; each joins `steps` of them.

    Rows hold `observed`, `action`, `logp` (NaN where unknown), `paid`, `following`, `goes_on`, and where actions were
    restricted `allowed` and `allowed_then`; for `sequences` also `step` and `to_go`; of data that state kinds `kind`. A
    decision whose episode was cut without a final state is left out.
    """
    occurrences = batch.occurrences
    size = len(occurrences)
    if not size:
        return {}
    decision, trajectory = occurrences.decision.numpy(), occurrences.trajectory.numpy()
    observed = _of_turns(batch, decision, batch.observation)
    ends = np.append(np.nonzero(np.diff(trajectory))[0], size - 1)
    last = ends[np.searchsorted(ends, np.arange(size))]
    place, reward = np.arange(size), rewards_by_occurrence(batch).numpy()
    paid, reach = np.zeros(size), place.copy()
    for number in range(steps):
        inside = place + number <= last
        paid[inside] += gamma**number * reward[(place + number)[inside]]
        reach += inside
    goes_on, ended = np.power(gamma, reach - place), reach > last
    following = observed[np.minimum(reach, size - 1)]
    final, known = _final_states(batch, trajectory[ends], observed)
    of_end = np.searchsorted(ends, last[ended])
    following[ended] = final[of_end]
    terminated = batch.terminated.numpy()[trajectory]
    goes_on[ended & terminated] = 0.0
    usable = occurrences.weight.numpy() != 0
    usable[ended] &= known[of_end] | terminated[ended]
    behaviour = batch.logp["behaviour"]
    logp = np.where(behaviour.present.numpy(), behaviour.values.numpy(), np.nan).astype(np.float32)
    columns = {
        "observed": observed,
        "action": batch.action.numpy()[decision],
        "logp": logp[decision],
        "paid": paid.astype(np.float32),
        "following": following,
        "goes_on": goes_on.astype(np.float32),
    }
    if any(mask is not None for mask in batch.allowed):
        allowed = _of_turns(batch, decision, batch.allowed)
        then = allowed[np.minimum(reach, size - 1)]
        then[ended] = True  # What a final state allows is not recorded.
        columns |= {"allowed": allowed, "allowed_then": then}
    if (kind := batch.segment.numpy()[decision]).any():
        columns[KIND.name] = kind
    if sequences:
        starts = np.concatenate([[0], ends[:-1] + 1])[np.searchsorted(ends, place)]
        total = np.concatenate([[0.0], np.cumsum(reward)])
        columns |= {STEP.name: (place - starts).astype(np.int64)}
        columns |= {TO_GO.name: (total[last + 1] - total[place]).astype(np.float32)}
    return cut(columns, usable)


def _of_turns(batch: Batch, decision: NDArray[Any], values: Any) -> NDArray[Any]:
    """What turns hold of each of these decisions, `[E, ..]`."""
    turn = batch.turn.numpy()
    starts = np.searchsorted(turn, np.arange(batch.turns))
    used, owner = np.unique(turn[decision], return_inverse=True)
    held = [np.asarray(values[number]) for number in used]
    base = np.cumsum([0, *(len(rows) for rows in held[:-1])])
    joined: NDArray[Any] = np.concatenate(held)[base[owner] + decision - starts[used][owner]]
    return joined.astype(np.float32) if joined.dtype == np.float64 else joined


def _final_states(
    batch: Batch, trajectories: NDArray[Any], observed: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The final states of these trajectories, `[M, O]`, 0 where unknown, and which are known, `[M]`."""
    final = np.zeros((len(trajectories), *observed.shape[1:]), observed.dtype)
    known = np.zeros(len(trajectories), bool)
    for place, number in enumerate(trajectories.tolist()):
        state = batch.final_state[number] if len(batch.final_state) else None
        if state is not None and np.shape(state) == observed.shape[1:]:
            final[place], known[place] = state, True
    return final, known


# ---------------------------------------------------------------- batches


def batch_of_rows(
    policies: list[str],
    drawn: list[Columns],
    places: list[NDArray[Any]],
    weights: list[NDArray[Any]],
    key: Key,
    noises: int = 2,
) -> Batch:
    """Rows of each policy as a batch: a turn for each policy, a trajectory for each row."""
    sizes = [length(columns) for columns in drawn]
    size, number = sum(sizes), len(policies)

    def column(name: str) -> Tensor:
        return torch.from_numpy(_stacked([columns[name] for columns in drawn]))

    def zeros(count: int = size) -> Tensor:
        return torch.zeros(count, dtype=torch.long)

    action, logp, goes_on = column("action"), column("logp"), column("goes_on")
    every, turns = torch.arange(size), torch.arange(number)
    annotations = {FOLLOWING.name: column("following"), GOES_ON.name: goes_on, PAID.name: column("paid")}
    annotations[PLACE.name] = torch.from_numpy(np.concatenate(places))
    annotations |= {name: column(name) for name in (KIND.name, STEP.name, TO_GO.name) if name in drawn[0]}
    allowed: list[NDArray[Any] | None] = []
    if "allowed" in drawn[0]:
        annotations[ALLOWED_THEN.name] = column("allowed_then")
        allowed = [columns["allowed"] for columns in drawn]
    if action.is_floating_point():
        shape = (size, noises, action.shape[-1])
        normal = key.derive("noise").numpy().standard_normal(shape, np.float32)
        annotations[NOISE.name] = torch.from_numpy(normal)
    known = ~torch.isnan(logp)
    weight = torch.from_numpy(np.concatenate(weights))
    return Batch(
        action=action,
        turn=torch.repeat_interleave(turns, torch.tensor(sizes)),
        segment=zeros(),
        version=zeros(),
        forced=torch.zeros(size, dtype=torch.bool),
        logp={"behaviour": RecordedNumbers(torch.where(known, logp, 0.0), known)},
        parent=torch.full((number,), -1, dtype=torch.long),
        agent=turns,
        role=turns,
        policy=turns,
        state=turns,
        index=zeros(number),
        observation=[columns["observed"] for columns in drawn],
        scenario=zeros(),
        source=zeros(),
        order=every,
        terminated=goes_on == 0,
        truncated=torch.zeros(size, dtype=torch.bool),
        occurrences=Occurrences(every, every, torch.zeros(size), weight),
        names={
            "scenario": ("the store",),
            "source": ("replay",),
            **{name: tuple(policies) for name in ("agent", "role", "policy", "state")},
        },
        scores={REWARD[Level.DECISION]: LevelScores(Level.DECISION, annotations[PAID.name].double())},
        combined=True,
        annotations=annotations,
        allowed=allowed,
    )


def _stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays behind one another; narrower ones are filled up with zeros."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.shape[1] if part.ndim > 1 else 0 for part in parts)
    if width and any(part.shape[1] != width for part in parts):
        parts = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    return np.concatenate(parts)
