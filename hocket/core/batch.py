"""The learner's view of experience: the packed batch, and groups of comparable samples in it.

Import these names from `hocket.types`, which explains the axis letters.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Level(enum.StrEnum):
    """The unit of a score, a statistic or a loss term; also the smallest unit that a loss must not split."""

    DECISION = "decision"
    SEGMENT = "segment"
    TURN = "turn"
    TRAJECTORY = "trajectory"
    PAIR = "pair"
    GROUP = "group"
    BATCH = "batch"


class RecordedNumbers(NamedTuple):
    """A number per decision, `[T]`, and whether it is known, `[T]` bool."""

    values: Tensor
    present: Tensor

    @property
    def complete(self) -> bool:
        return bool(self.present.all())


class LevelScores(NamedTuple):
    """One score for a whole batch, NaN where the reward has no opinion.

    `values` is `[N]`, `[U]` or `[E]`, by level; scores of decisions are per occurrence.
    """

    level: Level
    values: Tensor


@dataclass(frozen=True)
class Occurrences:
    """The decisions of each trajectory, contiguous per trajectory and in time order. Credit writes here.

    Attributes:
        decision: index of the decision, `[E]` in 0..T-1.
        trajectory: index of its trajectory, `[E]` in 0..N-1, non-decreasing.
        advantage: the advantage, `[E]`; 0 before credit is computed.
        weight: weight in the loss, `[E]`; 0 leaves the occurrence out (forced, baseline, filtered decisions).
        target: regression target of the value function, `[E]`, or None.
        pairs: (preferred, other) trajectories, `[P, 2]`, for pairwise objectives, or None.
        compared: the turns in which a pair is compared, `[P, 2]` in 0..U-1; None compares whole trajectories.
        pair_weight: weight of each pair, `[P]`, at least 0; None is 1 everywhere.
        pair_margin: the least margin of the preferred trajectory, in reward, `[P]`; None is 0.
        pair_target: the probability that the preferred trajectory is the better one, `[P]` in [0, 1]; None is 1.
    """

    decision: Tensor
    trajectory: Tensor
    advantage: Tensor
    weight: Tensor
    target: Tensor | None = None
    pairs: Tensor | None = None
    compared: Tensor | None = None
    pair_weight: Tensor | None = None
    pair_margin: Tensor | None = None
    pair_target: Tensor | None = None

    def __len__(self) -> int:
        return len(self.decision)

    def with_pairs(self, place: Tensor) -> Occurrences:
        """A copy with only the pairs whose trajectories are both selected, renumbered.

        `place` `[N]` is the new number of each trajectory, -1 if it is not selected.
        """
        if self.pairs is None:
            return self
        complete = (place[self.pairs] >= 0).all(1)
        columns: dict[str, Any] = {
            name: None if (column := getattr(self, name)) is None else column[complete] for name in _PER_PAIR
        }
        return replace(self, pairs=place[self.pairs][complete], **columns)


_PER_PAIR = ("compared", "pair_weight", "pair_margin", "pair_target")


@dataclass(frozen=True)
class Parts:
    """The agents' parts of joint trajectories. Each part has its own end, and credit treats it as a trajectory.

    The occurrences of a part are contiguous; a trajectory without decisions is one part. C is the number of parts.

    Attributes:
        of: the part of each occurrence, `[E]` in 0..C-1, non-decreasing.
        trajectory: the trajectory of each part, `[C]`, non-decreasing. agent: codes of `Batch.names["agent"]`, `[C]`;
            -1 without a turn.
        terminated, truncated, final_state: as in `Batch`, per part. final_joint: the joint state at its end.
        final_value: `[C]`, the value of the final state where truncated, 0 elsewhere, when annotated.
    """

    of: Tensor
    trajectory: Tensor
    agent: Tensor
    terminated: Tensor
    truncated: Tensor
    final_state: Sequence[NDArray[Any] | None]
    final_joint: Sequence[NDArray[Any] | None]
    final_value: Tensor | None = None

    @property
    def size(self) -> int:
        """The number of parts, C."""
        return len(self.trajectory)

    def select(self, place: Tensor, kept: Tensor) -> Parts:
        """The parts of selected trajectories, with the occurrences `kept` `[E]`.

        `place` `[N]` is the new number of each trajectory, -1 if it is not selected.
        """
        chosen = torch.nonzero(place[self.trajectory] >= 0).flatten()
        number = torch.full((self.size,), -1, dtype=torch.long)
        number[chosen] = torch.arange(len(chosen))
        rows = chosen.tolist()
        return Parts(
            of=number[self.of[kept]],
            trajectory=place[self.trajectory[chosen]],
            agent=self.agent[chosen],
            terminated=self.terminated[chosen],
            truncated=self.truncated[chosen],
            final_state=[self.final_state[row] for row in rows],
            final_joint=[self.final_joint[row] for row in rows],
            final_value=None if self.final_value is None else self.final_value[chosen],
        )


@dataclass(frozen=True)
class MixedActions:
    """Actions of unequal shapes, such as tokens beside pictures. Indices select rows as they do of a tensor.

    Attributes:
        parts: a tensor for each shape. part: the shape of each decision, `[T]`. place: its row there, `[T]`.
    """

    parts: tuple[Tensor, ...]
    part: Tensor
    place: Tensor

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, rows: Tensor | slice) -> Tensor | MixedActions:
        """A tensor if the selected rows have one shape."""
        part, place = self.part[rows], self.place[rows]
        if len(part) and bool((part == part[0]).all()):
            return self.parts[int(part[0])][place]
        return MixedActions(self.parts, part, place) if len(part) else self.parts[0][:0]

    def numbers(self) -> Tensor:
        """The actions that are single numbers, `[T]`; 0 elsewhere."""
        values = torch.zeros(len(self), dtype=torch.long)
        for number, held in enumerate(self.parts):
            if held.dim() == 1:
                mine = self.part == number
                values[mine] = held[self.place[mine]].long()
        return values


@dataclass(frozen=True)
class DecisionSelection:
    """The origin of a mini-batch's decisions: its decision t is decision `decision[t]` of the batch `whole`."""

    whole: Batch
    decision: Tensor


@dataclass(frozen=True)
class Batch:
    """Packed experience without padding. A decision is stored once, however many trajectories share it.

    Integer columns are codes; `names[column]` decodes `scenario`, `source`, `agent`, `role`, `policy` and `state`.

    Attributes:
        action: `[T]` or `[T, A]`; `MixedActions` where shapes differ. turn: `[T]` in 0..U-1.
        segment: `[T]`, numbered within the turn. version: `[T]`. forced: `[T]` bool.
        logp: by name (`behaviour`, `proximal`, `reference`, any policy): `RecordedNumbers` `[T]`. `sampled` is
            `behaviour` before the learner filled it in, where it was not known of every decision.
        value: the value of the state before each decision `[T]`, when annotated. entropy: `[T]`, likewise.
            annotations: columns of annotators by name, `[T]` each (see `hocket.core.annotators`).
        parent, agent, role, policy, state, index: per turn `[U]`; parent is -1 at a root, index the turn's place in
            its trajectory. observation: per turn, the input of the policy (see `Turn.observation`).
        allowed: per turn, the allowed actions of each of its decisions, `[L, V]` bool, or None; empty if no turn was
            masked. A policy's log-probs and entropies are those of the masked distribution; `logp` then has a column
            `unmasked`.
        time: the time of each decision, `[T]`, if turns are simultaneous, else None. joint: per turn, the joint state
            before each of its decisions, `[L, S]`, or None; empty if no environment has one.
        parts: the agents' parts of joint trajectories, or None; see `hocket.core.joint.apart`. final_joint: per
            trajectory, if each part is one.
        scenario, source, order: per trajectory `[N]`; order is the place in assignment order.
        terminated, truncated: `[N]` bool. final_state: per trajectory, or None. final_value: `[N]`, the value of
            `final_state` where truncated, 0 elsewhere, when annotated. valued: `[T]` bool, where `value` is known; None
            means everywhere. It is unknown for decisions of a policy without a value function.
        scores: by name. combined: whether a score named `reward` is their sum already, as in recorded batches.
        info: columns per trajectory by name, lists of length N, from training, rollouts and workflows. Each is declared
            as a value (see `hocket.core.columns`).
        taken: the origin of the decisions, for a batch made by `take`, whose turns hold more rows than its decisions.
        step: the step of the run, counted from 1; 0 outside a run. progress: the share of the run before it, in [0, 1].
    """

    action: Tensor
    turn: Tensor
    segment: Tensor
    version: Tensor
    forced: Tensor
    logp: Mapping[str, RecordedNumbers]
    parent: Tensor
    agent: Tensor
    role: Tensor
    policy: Tensor
    state: Tensor
    index: Tensor
    observation: Sequence[NDArray[Any]]
    scenario: Tensor
    source: Tensor
    order: Tensor
    terminated: Tensor
    truncated: Tensor
    occurrences: Occurrences
    names: Mapping[str, tuple[str, ...]]
    scores: Mapping[str, LevelScores] = field(default_factory=dict)
    combined: bool = False
    final_state: Sequence[NDArray[Any] | None] = ()
    final_value: Tensor | None = None
    value: Tensor | None = None
    valued: Tensor | None = None
    entropy: Tensor | None = None
    annotations: Mapping[str, Tensor] = field(default_factory=dict)
    temperature: Tensor | None = None
    allowed: Sequence[NDArray[Any] | None] = ()
    time: Tensor | None = None
    joint: Sequence[NDArray[Any] | None] = ()
    parts: Parts | None = None
    final_joint: Sequence[NDArray[Any] | None] = ()
    info: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    taken: DecisionSelection | None = None
    step: int = 0
    progress: float = 0.0

    @property
    def decisions(self) -> int:
        """The number of decisions, T."""
        return len(self.turn)

    @property
    def turns(self) -> int:
        """The number of turns, U."""
        return len(self.parent)

    @property
    def trajectories(self) -> int:
        """The number of trajectories, N."""
        return len(self.scenario)

    def tokens(self) -> NDArray[np.int64]:
        """The actions as token ids, `[T]`; 0 at decisions that are no single number."""
        action: Tensor | MixedActions = self.action
        values = action.numbers() if isinstance(action, MixedActions) else action.cpu()
        return values.numpy().astype(np.int64)

    def but(self, **changes: Any) -> Batch:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    def credited(self, **changes: Any) -> Batch:
        """A copy with some fields of its occurrences replaced."""
        return replace(self, occurrences=replace(self.occurrences, **changes))

    def lengths(self) -> Tensor:
        """Occurrences per trajectory, `[N]`."""
        return torch.bincount(self.occurrences.trajectory, minlength=self.trajectories)

    def last(self) -> Tensor:
        """The last occurrence of each trajectory, `[N]` in 0..E-1; -1 for a trajectory without decisions."""
        lengths = self.lengths()
        return torch.where(lengths > 0, torch.cumsum(lengths, 0) - 1, torch.full_like(lengths, -1))

    def restricted(self, keep: Tensor) -> Batch:
        """A copy with only the occurrences `keep`, `[E]` bool or increasing indices; all else is unchanged."""
        return replace(self, **self._occurring(keep, self.occurrences.decision[keep]))

    def _occurring(self, keep: Tensor | slice, decision: Tensor) -> dict[str, Any]:
        """The fields that change when only the occurrences `keep` remain; `decision` is their column of decisions."""
        old = self.occurrences
        occurrences = replace(
            old,
            decision=decision,
            trajectory=old.trajectory[keep],
            advantage=old.advantage[keep],
            weight=old.weight[keep],
            target=None if old.target is None else old.target[keep],
        )
        scores = {
            name: LevelScores(score.level, score.values[keep]) if score.level is Level.DECISION else score
            for name, score in self.scores.items()
        }
        parts = None if self.parts is None else replace(self.parts, of=self.parts.of[keep])
        return {"occurrences": occurrences, "scores": scores, "parts": parts}

    def of_policy(self, name: str) -> Batch:
        """A copy with only the occurrences of one policy's decisions; contexts and trajectories are unchanged."""
        names = self.names["policy"]
        code = names.index(name) if name in names else -1
        return self.restricted(self.policy[self.turn[self.occurrences.decision]] == code)

    def take(self, chosen: Tensor) -> Batch:
        """A mini-batch: only the occurrences `chosen` (increasing) and their decisions, renumbered.

        Turns keep all their rows, so `taken` maps decisions to the rows of turns.
        """
        decisions, place = torch.unique(self.occurrences.decision[chosen], return_inverse=True)
        return self._with_rows(decisions, self._occurring(chosen, place))

    def deal(self, parts: Sequence[Tensor]) -> Iterator[Batch]:
        """`take` of each of the parts, with one copy for all of them if every decision occurs once."""
        order, identity = torch.cat(list(parts)), torch.arange(len(self.occurrences))
        if not torch.equal(self.occurrences.decision, identity):
            yield from map(self.take, parts)
            return
        permuted, start = self._with_rows(order, self._occurring(order, order)), 0
        for part in parts:
            rows = slice(start, start + len(part))
            yield permuted._with_rows(rows, permuted._occurring(rows, identity[: len(part)]))
            start = rows.stop

    def _with_rows(self, rows: Tensor | slice, occurring: Mapping[str, Any]) -> Batch:
        """A copy with only the decisions `rows` and their occurrences; the columns are views if it is a slice."""
        columns = {name: column[rows] for name in _PER_DECISION if (column := getattr(self, name)) is not None}
        origin = DecisionSelection(self, torch.arange(self.decisions)) if self.taken is None else self.taken
        return replace(
            self,
            **columns,
            **occurring,
            logp={name: RecordedNumbers(*(half[rows] for half in recorded)) for name, recorded in self.logp.items()},
            annotations={name: column[rows] for name, column in self.annotations.items()},
            taken=DecisionSelection(origin.whole, origin.decision[rows]),
        )

    def select(self, chosen: Tensor) -> Batch:
        """A mini-batch: only the trajectories `chosen` (`[M]`, increasing), renumbered; turns and decisions stay."""
        place = torch.full((self.trajectories,), -1, dtype=torch.long)
        place[chosen] = torch.arange(len(chosen))
        inside = place[self.occurrences.trajectory] >= 0
        part = self.restricted(inside)
        occurrences = part.occurrences.with_pairs(place)
        rows = chosen.tolist()
        scores = {
            name: LevelScores(score.level, score.values[chosen]) if score.level is Level.TRAJECTORY else score
            for name, score in part.scores.items()
        }
        return replace(
            part,
            occurrences=replace(occurrences, trajectory=place[occurrences.trajectory]),
            scenario=self.scenario[chosen],
            source=self.source[chosen],
            order=self.order[chosen],
            terminated=self.terminated[chosen],
            truncated=self.truncated[chosen],
            parts=None if self.parts is None else self.parts.select(place, inside),
            final_state=[self.final_state[row] for row in rows] if self.final_state else (),
            final_joint=[self.final_joint[row] for row in rows] if self.final_joint else (),
            final_value=None if self.final_value is None else self.final_value[chosen],
            info={name: [column[row] for row in rows] for name, column in self.info.items()},
            scores=scores,
        )


_PER_DECISION = ("action", "turn", "segment", "version", "forced", "value", "valued", "entropy", "time")


# ---------------------------------------------------------------- groupings


@dataclass(frozen=True)
class Groups:
    """A partition of trajectories or turns.

    `index`, `[N]` or `[U]` by level, numbers the groups in order of first appearance; `size` is the number of groups.
    """

    level: Level
    index: Tensor
    size: int


_TRAJECTORY_COLUMNS = {"scenario", "source", "terminated", "truncated"}
_RECORDED = "info/"
_TURN_COLUMNS = {"agent": "agent", "role": "role", "policy": "policy", "state": "state", "turn_index": "index"}


@dataclass(frozen=True)
class GroupBy:
    """Groups samples by columns: `GroupBy("scenario")`, `GroupBy("scenario", "state")`.

    If all columns are per trajectory, the groups consist of trajectories. With any column per turn, they consist of
    turns (a turn shared by several trajectories takes the columns of the first). An empty `GroupBy()` is the whole
    batch. `info/NAME` is the column `NAME` of `Batch.info`: trajectories with equal values form a group, and those
    without a value form another one.
    """

    columns: tuple[str, ...]

    def __init__(self, *columns: str) -> None:
        known = {*_TRAJECTORY_COLUMNS, *_TURN_COLUMNS}
        unknown = [name for name in columns if name not in known and not name.startswith(_RECORDED)]
        if unknown:
            names = ", ".join([*sorted(known), f"{_RECORDED}NAME"])
            raise ValueError(f"GroupBy has no column {unknown[0]!r}; choose from {names}")
        object.__setattr__(self, "columns", columns)

    @property
    def level(self) -> Level:
        return Level.TURN if any(name in _TURN_COLUMNS for name in self.columns) else Level.TRAJECTORY

    def __call__(self, batch: Batch) -> Groups:
        """The partition of a batch's trajectories or turns."""
        size = batch.turns if self.level is Level.TURN else batch.trajectories
        columns = [self._column(name, batch).long() for name in self.columns]
        if not columns:
            return Groups(self.level, torch.zeros(size, dtype=torch.long), min(size, 1))
        codes: dict[tuple[int, ...], int] = {}
        rows = zip(*(column.tolist() for column in columns), strict=True)
        index = [codes.setdefault(row, len(codes)) for row in rows]
        return Groups(self.level, torch.tensor(index, dtype=torch.long), len(codes))

    def _column(self, name: str, batch: Batch) -> Tensor:
        if name in _TURN_COLUMNS:
            return getattr(batch, _TURN_COLUMNS[name])  # type: ignore[no-any-return]
        column: Tensor = _coded(batch, name) if name.startswith(_RECORDED) else getattr(batch, name)
        return column[trajectory_of_turn(batch)] if self.level is Level.TURN else column


def _coded(batch: Batch, name: str) -> Tensor:
    """A column of `Batch.info` as integer codes, equal for equal values; `[N]`."""
    codes: dict[str, int] = {}
    values = batch.info.get(name.removeprefix(_RECORDED)) or [None] * batch.trajectories
    return torch.tensor([codes.setdefault(repr(value), len(codes)) for value in values], dtype=torch.long)


def trajectory_of_turn(batch: Batch) -> Tensor:
    """The first trajectory that contains each turn, `[U]`; 0 for a turn without decisions."""
    occurrences = batch.occurrences
    owner = torch.full((batch.turns,), batch.trajectories, dtype=torch.long)
    owner = owner.scatter_reduce(0, batch.turn[occurrences.decision], occurrences.trajectory, "amin")
    return torch.where(owner < batch.trajectories, owner, torch.zeros_like(owner))
