"""Joint trajectories: several agents in one, each with an end of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, Occurrences, Parts
from hocket.types import End, Trajectory, Turn


def parts_of(trajectories: Sequence[Trajectory], agents: Callable[[str], int]) -> Parts | None:
    """The parts of packed trajectories; None where no turn ends by itself. `agents` codes names of agents.

    A turn with an end closes a part; turns without one belong to the part that follows, and what is left when the
    trajectory ends is a part that ends as the trajectory does.
    """
    if not any(turn.end is not None for trajectory in trajectories for turn in trajectory.turns):
        return None
    of: list[Tensor] = []
    trajectory_of: list[int] = []
    agent: list[int] = []
    ends: list[End] = []
    for number, trajectory in enumerate(trajectories):
        for turns, end in _parts(trajectory):
            of.append(torch.full((sum(len(turn) for turn in turns),), len(ends), dtype=torch.long))
            trajectory_of.append(number)
            agent.append(agents(turns[-1].agent) if turns else -1)
            ends.append(end)
    return Parts(
        of=torch.cat(of),
        trajectory=torch.tensor(trajectory_of, dtype=torch.long),
        agent=torch.tensor(agent, dtype=torch.long),
        terminated=torch.tensor([end.terminated for end in ends]),
        truncated=torch.tensor([end.truncated for end in ends]),
        final_state=[end.state for end in ends],
        final_joint=[end.joint for end in ends],
    )


def _parts(trajectory: Trajectory) -> list[tuple[list[Turn], End]]:
    parts: list[tuple[list[Turn], End]] = []
    open_turns: list[Turn] = []
    for turn in trajectory.turns:
        open_turns.append(turn)
        if turn.end is not None:
            parts.append((open_turns, turn.end))
            open_turns = []
    if open_turns or not parts:
        parts.append((open_turns, End(trajectory.terminated, trajectory.truncated, trajectory.final_state)))
    return parts


def apart(batch: Batch) -> Batch:
    """The batch in which every agent's part of a joint trajectory is a trajectory of its own; itself without such.

    Occurrences stay as they are and in their order, so a credit for them is one for the batch's own. What is about a
    whole trajectory (its scores, its `info`) is repeated for each of its parts. Samples are comparable when they are
    the same agent's of the same scenario: `scenario` numbers these pairs.
    """
    parts = batch.parts
    if parts is None:
        return batch
    owner, rows = parts.trajectory, parts.trajectory.tolist()
    scores = {
        name: LevelScores(score.level, score.values[owner]) if score.level is Level.TRAJECTORY else score
        for name, score in batch.scores.items()
    }
    scenario, names = _seats(batch, parts)
    return batch.but(
        occurrences=replace(batch.occurrences, trajectory=parts.of),
        scenario=scenario,
        names={**batch.names, "scenario": names},
        source=batch.source[owner],
        order=torch.arange(parts.size),
        terminated=parts.terminated,
        truncated=parts.truncated,
        final_state=parts.final_state,
        final_joint=parts.final_joint,
        final_value=parts.final_value,
        scores=scores,
        info={name: [column[row] for row in rows] for name, column in batch.info.items()},
        parts=None,
    )


def _seats(batch: Batch, parts: Parts) -> tuple[Tensor, tuple[str, ...]]:
    """A number for every pair of scenario and agent `[C]`, and their names."""
    codes: dict[tuple[int, int], int] = {}
    pairs = zip(batch.scenario[parts.trajectory].tolist(), parts.agent.tolist(), strict=True)
    number = [codes.setdefault(pair, len(codes)) for pair in pairs]
    scenarios, agents = batch.names["scenario"], batch.names["agent"]
    names = tuple(f"{scenarios[scenario]} {agents[agent] if agent >= 0 else 'nobody'}" for scenario, agent in codes)
    return torch.tensor(number, dtype=torch.long), names


def together(batch: Batch, given: Occurrences) -> Occurrences:
    """Occurrences credited in `apart(batch)`, in the batch's own trajectories."""
    return given if batch.parts is None else replace(given, trajectory=batch.occurrences.trajectory)
