"""The combined reward of a batch, read at the grain a stage wants."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.columns import TOKEN_TEXTS
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_sum

REWARD = {Level.TRAJECTORY: "reward", Level.TURN: "reward/turn", Level.DECISION: "reward/decision"}
"""Where the combined reward stands, by level. A return is the sum over all three."""

RIGHT = 0.5
"""An answer is right when its return before shaping is at least this: verdicts are 1 and 0."""


def token_texts(batch: Batch, reader: str) -> list[list[str]]:
    """The text of every decision of each trajectory; empty texts where nothing was spelt.

    Joined they are the response as it was decided, special tokens included. A stage that calls this has `TOKEN_TEXTS`
    among its `reads`, so that training provides the column.

    Raises:
        ConfigurationError: without the column, or when a trajectory has another number of decisions than texts.
    """
    rows = TOKEN_TEXTS.read(batch, reader)
    lengths = batch.lengths().tolist()
    texts = [[""] * length if row is None else list(row) for row, length in zip(rows, lengths, strict=True)]
    for number, (row, length) in enumerate(zip(texts, lengths, strict=True)):
        if len(row) != length:
            raise ConfigurationError(f"trajectory {number} has {length} decisions but {len(row)} texts")
    return texts


def counted_trajectories(batch: Batch) -> Tensor:
    """Trajectories with at least one occurrence of non-zero weight, `[N]` bool; the others enter no statistic."""
    occurrences = batch.occurrences
    return segment_sum((occurrences.weight != 0).double(), occurrences.trajectory, batch.trajectories) > 0


def turn_visits(batch: Batch) -> tuple[Tensor, Tensor]:
    """Visits of trajectories to turns, in order: the visit of each occurrence `[E]`, and where each begins, `[E]` bool.

    A turn shared by several trajectories is visited once by each.
    """
    occurrences = batch.occurrences
    turn = batch.turn[occurrences.decision]
    starts = torch.ones(len(occurrences), dtype=torch.bool)
    starts[1:] = (turn[1:] != turn[:-1]) | (occurrences.trajectory[1:] != occurrences.trajectory[:-1])
    return torch.cumsum(starts, 0) - 1, starts


def rewards_by_occurrence(batch: Batch) -> Tensor:
    """The combined reward where it was earned, `[E]` float64.

    A decision's at the decision, a turn's at the turn's last decision, a trajectory's at its last decision.
    """
    occurrences = batch.occurrences
    rewards = torch.zeros(len(occurrences), dtype=torch.float64)
    if REWARD[Level.DECISION] in batch.scores:
        rewards = rewards + batch.scores[REWARD[Level.DECISION]].values
    if REWARD[Level.TURN] in batch.scores:
        turn = batch.turn[occurrences.decision]
        ends = torch.ones(len(occurrences), dtype=torch.bool)
        ends[:-1] = (turn[1:] != turn[:-1]) | (occurrences.trajectory[1:] != occurrences.trajectory[:-1])
        rewards = rewards + torch.where(ends, batch.scores[REWARD[Level.TURN]].values[turn], 0.0)
    if REWARD[Level.TRAJECTORY] in batch.scores:
        last = batch.last()
        owned = last >= 0
        rewards = rewards.index_add(0, last[owned], batch.scores[REWARD[Level.TRAJECTORY]].values[owned])
    return rewards


def paid_at_decisions(batch: Batch, rewards: Tensor) -> Batch:
    """The batch whose combined reward is `rewards` `[E]` at its decisions, in place of all that stood at any level."""
    others = {name: score for name, score in batch.scores.items() if name not in REWARD.values()}
    return batch.but(scores={**others, REWARD[Level.DECISION]: LevelScores(Level.DECISION, rewards)})


def standing(batch: Batch, name: str) -> Tensor:
    """The score `name` where it stands, `[E]` float64, NaN elsewhere: a trajectory's or turn's at its last decision.

    Raises:
        ConfigurationError: when the batch has no such score.
    """
    if name not in batch.scores:
        known = ", ".join(batch.scores) or "none"
        raise ConfigurationError(f"the data have no score {name!r}, only {known}; name one of these, or add it")
    level, values = batch.scores[name]
    occurrences = batch.occurrences
    if level is Level.DECISION:
        return values.double()
    placed = torch.full((len(occurrences),), torch.nan, dtype=torch.float64)
    if level is Level.TURN:
        _, starts = turn_visits(batch)
        ends = torch.cat([starts[1:], torch.ones(min(1, len(starts)), dtype=torch.bool)])
        placed[ends] = values.double()[batch.turn[occurrences.decision[ends]]]
        return placed
    last = batch.last()
    placed[last[last >= 0]] = values.double()[last >= 0]
    return placed


def returns(batch: Batch) -> Tensor:
    """The undiscounted return of each trajectory, `[N]` float64."""
    total = segment_sum(rewards_by_occurrence(batch), batch.occurrences.trajectory, batch.trajectories)
    if REWARD[Level.TRAJECTORY] in batch.scores:
        # A trajectory without decisions still has its own reward.
        total = torch.where(batch.last() < 0, batch.scores[REWARD[Level.TRAJECTORY]].values, total)
    return total


def reference_trajectories(batch: Batch) -> Tensor:
    """Which trajectories are of source `baseline`, `[N]` bool."""
    names = batch.names["source"]
    return batch.source == (names.index("baseline") if "baseline" in names else -1)


def right(batch: Batch, least: float = RIGHT) -> Tensor:
    """Trajectories whose return is at least `least`, `[N]` bool."""
    return returns(batch) >= least
