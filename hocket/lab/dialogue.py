"""Worlds that answer back: what a tool or a hidden state writes into the sequence.

The environment's tokens are imposed decisions of weight 0, so they are context and carry no credit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key, uniforms
from hocket.lab.bench import Bench, TablePlayer
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, World, question_of
from hocket.stages import Reward
from hocket.types import Assignment, Trajectory

HIDDEN = InfoColumn("hidden", "What the partner of the dialogue knows and the policy does not.")


@dataclass(frozen=True, kw_only=True)
class Dialogue(World):
    """A world with an environment in it.

    Attributes:
        reply: the environment's next token after these tokens of a question, or None where the policy decides. `hidden`
            is what the environment holds in this attempt.
        hide: draws what is hidden, from the attempt's key.
        over: whether nothing can follow these tokens; the horizon and the end token besides.
        verdict: the reward of a whole sequence, given what was hidden.
    """

    reply: Callable[[int, Answer, Any], int | None]
    hide: Callable[[int, Key], Any]
    verdict: Callable[[int, Answer, Any], float]
    over: Callable[[int, Answer], bool] | None = None


@dataclass(frozen=True)
class Hidden(Reward):
    """The verdict of a dialogue as a reward; what was hidden stands in a trajectory's `info`."""

    world: Dialogue
    name: str = "verdict"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [
            self.world.verdict(
                question_of(trajectory), tuple(int(token) for turn in trajectory.turns for token in turn.action), hidden
            )
            for trajectory in trajectories
            for hidden in (HIDDEN.get(trajectory),)
        ]


class DialoguePlayer(TablePlayer):
    """Plays sample by sample, in turn with the environment."""

    def __init__(self, world: Dialogue, policies: dict[str, Tabular]) -> None:
        super().__init__(world, policies)
        self.dialogue = world

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        return [
            self._attempt(assignment, number, key.derive(assignment.scenario.id, assignment.source, number))
            for assignment in assignments
            for number in range(assignment.first, assignment.first + assignment.samples)
        ]

    def _attempt(self, assignment: Assignment, sample: int, key: Key) -> Trajectory:
        question, policy = int(assignment.scenario.metadata["question"]), self.policies[assignment.actor]
        hidden, word = self.dialogue.hide(question, key.derive("hidden")), np.array([key.word], np.uint64)
        tokens: list[int] = []
        logps: list[float] = []
        rows: list[int] = []
        imposed: list[bool] = []
        while not self._finished(question, tuple(tokens)):
            draws = uniforms(word, np.array([len(tokens)], np.uint64))
            temperature = assignment.decoding.temperature
            token, logp, row = policy.draw(np.array([question]), [tokens], draws, temperature)
            reply = self.dialogue.reply(question, tuple(tokens), hidden)
            if reply is not None:
                token = np.array([reply])
                logp = policy.forced(row, token, temperature)
            tokens.append(int(token[0]))
            logps.append(float(logp[0]))
            rows.append(int(row[0]))
            imposed.append(reply is not None)
        trajectory = self._trajectory(assignment, sample, tokens, logps, rows, policy)
        trajectory.turns[0].forced = np.array(imposed)
        HIDDEN.write(trajectory, hidden)
        return trajectory

    def _finished(self, question: int, tokens: Answer) -> bool:
        over = self.dialogue.over
        return self.world.finished(tokens) or (over is not None and over(question, tokens))


@dataclass
class DialogueBench(Bench):
    """A bench whose player takes turns with the environment. Success is measured on what was sampled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.world, Dialogue)
        self.parts.player = DialoguePlayer(self.world, {"policy": self.policy, "reference": self.reference})
        self.parts.rewards = (Hidden(self.world),)

    def earned(self, last: int) -> float:
        """The mean reward over the last steps."""
        return sum(metrics["reward/mean"] for metrics in self.history[-last:]) / last
