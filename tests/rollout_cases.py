"""Players and graders that need no model, and small worlds to sample from."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hocket.agents.workflows.pipeline import Pipeline
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.lab.bench import TablePlayer
from hocket.lab.policy import Tabular
from hocket.lab.talk import TalkBench
from hocket.lab.world import World
from hocket.recipes import find
from hocket.train.ledger import Ledger
from hocket.train.loop import Playing
from hocket.types import Assignment, Decoding, Experience, Scenario, Score, Trajectory, Turn


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
    revision = 0

    def history(self, scenario):
        return ()

    def outcomes(self, scenario):
        return Outcomes()

    def changed_since(self, revision):
        return ()


def assignments(*names, **metadata):
    return [Assignment(Scenario(name, prompt="?", metadata=metadata)) for name in names]


def identity(trajectories):
    return [(t.scenario.id, t.sample) for t in trajectories]


# ---------------------------------------------------------------- dialogues of a pipeline

COLOURS = ("red", "blue", "green")
DIALOGUES = [Scenario(name, name, answer="red") for name in ("one", "two")]


def talk_bench(recipe: str = "grpo") -> TalkBench:
    return TalkBench(Pipeline(), DIALOGUES, COLOURS, find(recipe), length=1)


def talked(rollout: Any, found: TalkBench) -> Experience:
    async def score(trajectories: list[Trajectory]) -> None:
        return None

    asked = [Assignment(one, decoding=found.parts.decoding) for one in DIALOGUES]
    play = Playing(found.player, Key.of(2))
    return asyncio.run(rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(3)))


# ---------------------------------------------------------------- words that end

END = 3


def letter_world(right=lambda question, answer: float(answer[-2:] == (1, END))):
    return World(questions=3, tokens=4, horizon=6, reward=right, end=END, words=("a", "b", "!", "."))


class Game:
    """Plays and scores a world, and remembers what was asked."""

    def __init__(self, task, start=None):
        self.task, self.asked = task, []
        policy = Tabular(task)
        if start:
            policy.logits.data[:] = start
        self.player = TablePlayer(task, {"policy": policy})
        self.tokenizer = self.player

    async def __call__(self, assignments):
        self.asked.append(list(assignments))
        return await self.player.play(assignments, key=Key.of(3))

    async def score(self, trajectories):
        for trajectory in trajectories:
            graded = await self.task.rewards[0]([trajectory], key=Key.of(0))
            trajectory.scores["reward"] = Score(graded[0])

    def collect(self, rollout, count=2, more=None):
        decoding = Decoding(max_tokens=6)
        asked = [Assignment(self.task.scenario("train", n), decoding=decoding) for n in range(count)]
        found = rollout.collect(asked, play=self, score=self.score, ledger=Ledger(), key=Key.of(1), more=more)
        return asyncio.run(found)


# ---------------------------------------------------------------- thoughts and answers

SEED = Key.of(3)


@dataclass(frozen=True)
class Chains(World):
    """Responses over words; an answer ends one."""

    def finished(self, tokens):
        return len(tokens) > 0 and (tokens[-1] in (3, 4) or len(tokens) >= self.horizon)


THOUGHTS = Chains(
    questions=2,
    tokens=6,
    horizon=5,
    reward=lambda question, answer: 0.0,
    context="position",
    words=("<think>", "s ", "</think>", "<answer>7</answer>", "<answer>3</answer>", "7 "),
)


def collect_thoughts(rollout, *, world=THOUGHTS, right=lambda answer: answer[-1] == 3, bias=None):
    """What a rollout brings back from the lab, the policies behind it, and what was scored."""
    policy = Tabular(world)
    if bias is not None:
        policy.logits.data[:, bias] += 1.0
    player = TablePlayer(world, {"policy": policy, "reference": policy})
    scored = []

    async def score(trajectories):
        scored.extend(trajectories)
        for trajectory in trajectories:
            answer = [int(token) for turn in trajectory.turns for token in turn.action]
            trajectory.scores["verdict"] = Score(float(right(answer)))

    asked = []
    for number in range(2):
        scenario = world.scenario("train", number)
        asked.append(Assignment(Scenario(scenario.id, scenario.prompt, "7", scenario.metadata)))
    run = rollout.collect(asked, play=Playing(player, SEED), score=score, ledger=NoHistory(), key=SEED)
    return asyncio.run(run), scored


def tokens_of(trajectory):
    return [int(token) for turn in trajectory.turns for token in turn.action]
