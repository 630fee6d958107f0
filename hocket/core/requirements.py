"""What experience must hold for a method to be itself (`requires`), and which changes it stands (`survives`)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, cast

from hocket.core.batch import Level
from hocket.core.columns import SENDER, TOOL_CALLS
from hocket.types import Trajectory

Shift = Literal["agent count", "goals", "dynamics", "partners"]
"""A change of the world between training and use."""


class Requirement(enum.Enum):
    """Something that a step's trajectories show; without it a method is another one, in all silence."""

    TURNS = "several turns"
    AGENTS = "several agents"
    IN_TURN = "agents that decide one after the other within a step (`?sequenced=true`)"
    TURN_REWARDS = "rewards at turns"
    SCORES = "several scores of an answer"
    STATES = "states that several turns start from"
    BRANCHES = "candidates of a turn"
    TOOLS = "calls of tools"
    DEMONSTRATIONS = "demonstrations beside the samples"
    SHARED = "answers that others of a swarm shared (`hocket swarm`)"

    def met(self, trajectories: Sequence[Trajectory]) -> bool:
        """Whether any of a step's trajectories shows it."""
        return _MET[self](trajectories)


def _turns(trajectories: Sequence[Trajectory]) -> bool:
    return any(len(trajectory.turns) > 1 for trajectory in trajectories)


def _agents(trajectories: Sequence[Trajectory]) -> bool:
    return any(len({turn.agent for turn in trajectory.turns}) > 1 for trajectory in trajectories)


def _in_turn(trajectories: Sequence[Trajectory]) -> bool:
    def times(trajectory: Trajectory) -> list[int]:
        return [time for turn in trajectory.turns if turn.time is not None for time in turn.time.tolist()]

    return any(
        len(trajectory.turns) > 1 and 0 < len(times(trajectory)) == len(set(times(trajectory)))
        for trajectory in trajectories
    )


def _turn_rewards(trajectories: Sequence[Trajectory]) -> bool:
    return any(
        score.level is Level.TURN and any(cast(Sequence[float | None], () if score.value is None else score.value))
        for trajectory in trajectories
        for score in trajectory.scores.values()
    )


def _scores(trajectories: Sequence[Trajectory]) -> bool:
    return any(sum(score.value is not None for score in trajectory.scores.values()) > 1 for trajectory in trajectories)


def _states(trajectories: Sequence[Trajectory]) -> bool:
    visits: dict[tuple[str, str], int] = {}
    for trajectory in trajectories:
        for turn in trajectory.turns:
            if turn.state is not None and visits.setdefault((trajectory.scenario.id, turn.state), id(turn)) != id(turn):
                return True
    return False


def _branches(trajectories: Sequence[Trajectory]) -> bool:
    return any(trajectory.branches for trajectory in trajectories)


def _tools(trajectories: Sequence[Trajectory]) -> bool:
    return any(TOOL_CALLS.get(trajectory, 0) for trajectory in trajectories)


def _demonstrations(trajectories: Sequence[Trajectory]) -> bool:
    return any(trajectory.scenario.metadata.get("demonstration") is not None for trajectory in trajectories)


def _shared(trajectories: Sequence[Trajectory]) -> bool:
    return any(SENDER.present(trajectory) for trajectory in trajectories)


_MET: Mapping[Requirement, Callable[[Sequence[Trajectory]], bool]] = MappingProxyType(
    {
        Requirement.TURNS: _turns,
        Requirement.AGENTS: _agents,
        Requirement.IN_TURN: _in_turn,
        Requirement.TURN_REWARDS: _turn_rewards,
        Requirement.SCORES: _scores,
        Requirement.STATES: _states,
        Requirement.BRANCHES: _branches,
        Requirement.TOOLS: _tools,
        Requirement.DEMONSTRATIONS: _demonstrations,
        Requirement.SHARED: _shared,
    }
)
