"""A player and a grader that need no model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np

from hocket.core.keys import Key
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn


@dataclass
class Stage:
    """Records what is asked. `rule(scenario id, sample)` is the reward, or None for an attempt that fails."""

    rule: object
    asked: list = field(default_factory=list)
    scored: list = field(default_factory=list)

    async def play(self, assignments):
        self.asked.append(list(assignments))
        return [
            self.trajectory(assignment, assignment.first + i)
            for assignment in assignments
            for i in range(assignment.samples)
        ]

    def trajectory(self, assignment, sample):
        turn = Turn("solo", "solo", np.zeros(1, np.int64), np.array([sample]), decoding=assignment.decoding)
        failed = self.rule(assignment.scenario.id, sample) is None
        return Trajectory(
            assignment.scenario, [turn], sample, source=assignment.source, failure="lost" if failed else None
        )

    async def score(self, trajectories):
        self.scored += trajectories
        for trajectory in trajectories:
            reward = self.rule(trajectory.scenario.id, trajectory.sample)
            if reward is not None:
                trajectory.scores["verdict"] = Score(float(reward))

    def collect(self, rollout, asked, more=None):
        coroutine = rollout.collect(
            asked, play=self.play, score=self.score, ledger=NoHistory(), key=Key.of(1), more=more
        )
        return asyncio.run(coroutine)


class NoHistory:
    def history(self, scenario):
        return ()


def assignments(*names, **metadata):
    return [Assignment(Scenario(name, prompt="?", metadata=metadata)) for name in names]


def identity(trajectories):
    return [(t.scenario.id, t.sample) for t in trajectories]
