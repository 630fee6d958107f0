"""What is compared with what: trajectories, or turns as each trajectory saw them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.segments import segment_count, segment_sum, suffix_sum
from hocket.core.signals import REWARD, counted_trajectories, returns, rewards_by_occurrence


class Units(NamedTuple):
    """The M members that groups are made of.

    Attributes:
        member: the unit of each occurrence, `[E]`.
        trajectory: whose it is, `[M]`.
        turn: its turn, `[M]`; None when units are whole trajectories.
        value: its undiscounted return (a turn's: the reward from its first decision to the end; a step's: what was
            earned in it), `[M]` float64.
        counted: whether any of its occurrences has a weight, `[M]`; the others enter no statistic and get no credit.
    """

    member: Tensor
    trajectory: Tensor
    turn: Tensor | None
    value: Tensor
    counted: Tensor

    def groups(self, by: GroupBy, batch: Batch) -> tuple[Tensor, int]:
        """The group number of each unit, `[M]`, and how many groups there are."""
        grouping = by(batch)
        if grouping.level is Level.TRAJECTORY:
            return grouping.index[self.trajectory], grouping.size
        if self.turn is None:
            raise ValueError("whole trajectories cannot be grouped by columns of turns")
        return grouping.index[self.turn], grouping.size


def trajectory_units(batch: Batch) -> Units:
    """Every trajectory with its return."""
    everyone = torch.arange(batch.trajectories)
    return Units(batch.occurrences.trajectory, everyone, None, returns(batch), counted_trajectories(batch))


def turn_units(batch: Batch) -> Units:
    """Every visit of a trajectory to a turn, with its reward-to-go. A shared turn is one unit per trajectory."""
    occurrences = batch.occurrences
    turn = batch.turn[occurrences.decision]
    starts = torch.ones(len(occurrences), dtype=torch.bool)
    starts[1:] = (turn[1:] != turn[:-1]) | (occurrences.trajectory[1:] != occurrences.trajectory[:-1])
    member = torch.cumsum(starts, 0) - 1
    to_go = suffix_sum(rewards_by_occurrence(batch), occurrences.trajectory, batch.trajectories)
    counted = segment_count(member[occurrences.weight != 0], int(starts.sum())) > 0
    return Units(member, occurrences.trajectory[starts], turn[starts], to_go[starts], counted)


def step_units(batch: Batch) -> Units:
    """Every segment of every visit of a trajectory to a turn, with the reward earned in it."""
    occurrences = batch.occurrences
    turn, segment = batch.turn[occurrences.decision], batch.segment[occurrences.decision]
    starts = torch.ones(len(occurrences), dtype=torch.bool)
    starts[1:] = (
        (turn[1:] != turn[:-1])
        | (segment[1:] != segment[:-1])
        | (occurrences.trajectory[1:] != occurrences.trajectory[:-1])
    )
    member, size = torch.cumsum(starts, 0) - 1, int(starts.sum())
    earned = segment_sum(rewards_by_occurrence(batch), member, size)
    counted = segment_count(member[occurrences.weight != 0], size) > 0
    return Units(member, occurrences.trajectory[starts], turn[starts], earned, counted)


def chains(batch: Batch, units: Units) -> Tensor:
    """Which agent of which trajectory each visit to a turn belongs to, `[M]`; codes below N times the agents."""
    assert units.turn is not None
    return units.trajectory * len(batch.names["agent"]) + batch.agent[units.turn]


def agent_returns(batch: Batch, units: Units, gamma: float) -> Tensor:
    """`g_t = sum_{k >= t} gamma^(k - t) r_k` over the agent's own turns from each visit on, `[M]` float64.

    r_k is what was earned in the visit; the reward of the whole trajectory stands at the agent's last one. Agents that
    alternate so discount by their own turns, and what another earned in its turns is not theirs.
    """
    local = {name: score for name, score in batch.scores.items() if name != REWARD[Level.TRAJECTORY]}
    earned = segment_sum(rewards_by_occurrence(batch.but(scores=local)), units.member, len(units.counted))
    chain = chains(batch, units)
    order = torch.argsort(chain, stable=True)
    _, index = torch.unique_consecutive(chain[order], return_inverse=True)
    sorted_earned, size = earned[order], int(index[-1]) + 1 if len(index) else 0
    if REWARD[Level.TRAJECTORY] in batch.scores and len(index):
        last = torch.ones(len(index), dtype=torch.bool)
        last[:-1] = index[1:] != index[:-1]
        outcome = batch.scores[REWARD[Level.TRAJECTORY]].values.double()[units.trajectory[order]]
        sorted_earned = sorted_earned + torch.where(last, outcome, 0.0)
    returns = torch.zeros_like(earned)
    returns[order] = suffix_sum(sorted_earned, index, size, discount=gamma)
    return returns
