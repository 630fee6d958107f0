"""What is counted only where episodes have several turns, agents or tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hocket.core.batch import Level
from hocket.core.columns import TOOL_CALLS
from hocket.core.outcomes import earned_by_role
from hocket.stages import Metrics
from hocket.types import Trajectory


def team_metrics(trajectories: Sequence[Trajectory], weights: Mapping[str, float]) -> Metrics:
    """`turns/mean`, `tools/calls` and `reward/agent/ROLE`, means over episodes, each only where it says something."""
    metrics: Metrics = {}
    if any(len(trajectory.turns) > 1 for trajectory in trajectories):
        metrics["turns/mean"] = sum(len(trajectory.turns) for trajectory in trajectories) / len(trajectories)
    calls = [float(TOOL_CALLS.get(trajectory)) for trajectory in trajectories if TOOL_CALLS.present(trajectory)]
    if calls:
        metrics["tools/calls"] = sum(calls) / len(calls)
    return metrics | _agent_rewards(trajectories, weights)


def _agent_rewards(trajectories: Sequence[Trajectory], weights: Mapping[str, float]) -> Metrics:
    """The weighted rewards of each role's turns, summed per episode in which it acted."""
    earned: dict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        of = earned_by_role(trajectory, weights)
        for role in {turn.role or turn.agent for turn in trajectory.turns}:
            earned[role].append(of.get(role, 0.0))
    scored = any(
        score.level is Level.TURN
        or (score.level is Level.DECISION and any(turn.end is not None for turn in trajectory.turns))
        for trajectory in trajectories
        for score in trajectory.scores.values()
    )
    if len(earned) < 2 or not scored:
        return {}
    return {f"reward/agent/{role}": sum(values) / len(values) for role, values in sorted(earned.items())}
