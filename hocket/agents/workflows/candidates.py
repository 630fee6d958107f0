"""Several candidate answers to one question, of which one is executed: branches of an episode.

`await agent.candidates(question, score=f)` draws as many answers as the rollout requests (one, unless it is
`hocket.rollout.AgentTurnTree`), scores each, and continues with one of them as if it were the only answer. The others
become trajectories of one turn in `Trajectory.branches`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from hocket.agents.workflows.reply import Reply
from hocket.core.batch import Level
from hocket.core.candidates import TURN_REWARD, Branching
from hocket.core.errors import HocketError
from hocket.types import Score, Trajectory, Turn

Opinion = float | Mapping[str, float]
"""The reward of a candidate: one number, or `team` (for the whole team) and others (for the agent itself)."""

Judge = Callable[[Reply], Opinion | Awaitable[Opinion]]
"""Scores one candidate without changing the episode; with an environment, on a copy of it."""


class Candidate(NamedTuple):
    """Candidate answer `number` of call `place` of an episode, and its reward."""

    place: int
    number: int
    turn: Turn
    reward: float
    taken: bool


async def judged(judge: Judge, reply: Reply, branching: Branching) -> float:
    """The mixed reward `alpha * team + sum of the others` of one candidate.

    Raises:
        HocketError: when the reward is not a finite number.
    """
    judgement = judge(reply)
    opinion = await judgement if inspect.isawaitable(judgement) else judgement
    if isinstance(opinion, Mapping):
        reward = sum(branching.alpha * value if name == "team" else value for name, value in opinion.items())
    else:
        reward = float(opinion)
    if not math.isfinite(reward):
        raise HocketError(f"score() gave {reward} for a candidate of {reply.turn.agent!r}; return a finite number")
    return reward


def chosen(rewards: list[float], branching: Branching) -> int:
    """The executed candidate: the best (the earliest of equals), or the first."""
    return 0 if branching.take == "first" else max(range(len(rewards)), key=lambda number: rewards[number])


def settle(trajectory: Trajectory, candidates: list[Candidate]) -> None:
    """Writes the rewards of candidates: of executed ones into the trajectory, of others into its branches."""
    if not candidates:
        return
    earned = {id(candidate.turn): candidate.reward for candidate in candidates if candidate.taken}
    trajectory.scores[TURN_REWARD] = Score([earned.get(id(turn)) for turn in trajectory.turns], Level.TURN)
    trajectory.branches = [
        Trajectory(
            trajectory.scenario,
            [candidate.turn],
            sample=trajectory.sample,
            scores={TURN_REWARD: Score([candidate.reward], Level.TURN)},
            source="branch",
        )
        for candidate in sorted(candidates)
        if not candidate.taken
    ]
