"""Training a tabular policy with the training step of any run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from hocket.core.keys import Key, uniforms
from hocket.core.outcomes import StepResult
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, World
from hocket.recipe import Recipe
from hocket.stages import Metrics
from hocket.train.aio import run_async
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Trajectory, Turn


@dataclass(frozen=True)
class ExactFigures:
    """Exact figures of a policy at a step, means over questions: success rate, entropy of answers in nats, length."""

    step: int
    success: float
    entropy: float
    length: float


class TablePlayer:
    """Answers questions from a table. A forced prefix is recorded as such, with its log-probs."""

    def __init__(self, world: World, policies: dict[str, Tabular]) -> None:
        self.world, self.policies = world, policies

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        played: list[Trajectory] = []
        for assignment in assignments:
            played += self._group(assignment, key)
        return played

    def encode(self, text: str, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Text as tokens."""
        return self.world.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""
        return self.world.decode(tokens)

    def _group(self, assignment: Assignment, key: Key) -> list[Trajectory]:
        """All samples of one assignment, token by token; an expert's are given, not drawn."""
        samples = range(assignment.first, assignment.first + assignment.samples)
        if assignment.source == "expert":
            return [self._taught(assignment, sample) for sample in samples]
        words = np.array(
            [key.derive(assignment.scenario.id, assignment.source, n).word for n in samples], dtype=np.uint64
        )
        question = np.full(len(samples), int(assignment.scenario.metadata["question"]), np.int64)
        policy = self.policies[assignment.actor]
        tokens: list[list[int]] = [[] for _ in samples]
        logps: list[list[float]] = [[] for _ in samples]
        rows: list[list[int]] = [[] for _ in samples]
        limit = min(self.world.horizon, assignment.budget or self.world.horizon)
        for place in range(limit):
            live = [n for n, row in enumerate(tokens) if not self.world.finished(row)]
            if not live:
                break
            draws = uniforms(words[live], np.full(len(live), place, np.uint64))
            temperature = assignment.decoding.temperature
            token, logp, row = policy.draw(
                question[live], [tokens[n] for n in live], draws, temperature, assignment.decoding.mask
            )
            if place < len(assignment.prefix):
                token = np.full(len(live), assignment.prefix[place], np.int64)
                logp = policy.forced(row, token, temperature)
            for at, n in enumerate(live):
                tokens[n].append(int(token[at]))
                logps[n].append(float(logp[at]))
                rows[n].append(int(row[at]))
        return [
            self._trajectory(assignment, sample, tokens[n], logps[n], rows[n], policy)
            for n, sample in enumerate(samples)
        ]

    def _taught(self, assignment: Assignment, sample: int) -> Trajectory:
        """The scenario's demonstration (text or tokens) as an answer whose probability nobody recorded."""
        answer = assignment.scenario.metadata["demonstration"]
        tokens = [int(token) for token in (self.encode(answer) if isinstance(answer, str) else answer)]
        policy = self.policies[assignment.actor]
        rows = policy.path(int(assignment.scenario.metadata["question"]), tokens)
        taught = self._trajectory(assignment, sample, tokens, [], rows, policy)
        taught.turns[0].logp = None
        return taught

    def _trajectory(
        self,
        assignment: Assignment,
        sample: int,
        tokens: list[int],
        logps: list[float],
        rows: list[int],
        policy: Tabular,
    ) -> Trajectory:
        question = int(assignment.scenario.metadata["question"])
        complete = self.world.finished(tokens)
        turn = Turn(
            agent="agent",
            policy="policy",
            observation=np.array(rows, np.int64),
            action=np.array(tokens, np.int64),
            logp=np.array(logps, np.float32),
            version=np.full(len(tokens), policy.version, np.int64),
            forced=np.arange(len(tokens)) < len(assignment.prefix),
            finish="stop" if complete else "length",
            text=self.world.written(question, tuple(tokens)),
            decoding=assignment.decoding,
        )
        way = assignment.decoding
        if way.mask is not None and logps and turn.forced is not None:
            turn.extras.update(policy.masks(rows, tokens, turn.forced, way.temperature, way.mask))
        info = dict(self.world.info(question, tuple(tokens))) if self.world.info else {}
        return Trajectory(
            assignment.scenario, [turn], sample=sample, truncated=not complete, source=assignment.source, info=info
        )


@dataclass
class _Labelled:
    """The world as the loop sees it, where `label` is asked of trajectories."""

    world: World

    def __getattr__(self, name: str) -> object:
        return getattr(self.world, name)

    def label(self, trajectory: Trajectory) -> str | None:
        return self.world.labelled(trajectory)


@dataclass
class Bench:
    """A world, a recipe and a policy, trained step by step.

    Attributes:
        lr: of AdamW where the recipe leaves it open. steps: what schedules take as the whole run.
        start: sets the policy's logits before anything else (the reference is a copy of the result).
        temperature: of sampling. prompts: questions per step; all of them when None.
    """

    world: World
    recipe: Recipe
    seed: int = 0
    lr: float = 0.05
    steps: int = 200
    prompts: int | None = None
    temperature: float = 1.0
    start: Callable[[Tabular], None] | None = None
    readings: list[ExactFigures] = field(default_factory=list)
    history: list[Metrics] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.policy = Tabular(self.world, lr=self.lr)
        if self.start is not None:
            with torch.no_grad():
                self.start(self.policy)
        recipe = self.recipe.but({"curriculum.prompts": self.prompts or self.world.questions})
        self.learner = Learner(self.policy, recipe, total_steps=self.steps)
        self.reference = self.policy.frozen_copy()
        self.parts = RunContext(
            task=_Labelled(self.world),  # type: ignore[arg-type]
            player=TablePlayer(self.world, {"policy": self.policy, "reference": self.reference}),
            rewards=recipe.rewards or self.world.rewards,
            learners={"policy": self.learner},
            decoding=Decoding(temperature=self.temperature, max_tokens=self.world.horizon),
            key=Key.of(self.seed),
            ledger=Ledger(),
        )
        self.done = 0
        self.readings.append(self.reading())

    def step(self) -> StepResult:
        """One training step."""
        self.done += 1
        result = run_async(train_step(self.parts, self.done))
        self.history.append(result.metrics)
        return result

    def run(self, steps: int, *, every: int = 10) -> Bench:
        """`steps` more steps, with a reading after each `every`; returns itself."""
        for _ in range(steps):
            self.step()
            if self.done % every == 0:
                self.readings.append(self.reading())
        return self

    def expected(self, measure: Callable[[int, Answer], float]) -> float:
        """The exact mean of `measure` over answers, then questions."""
        with torch.no_grad():
            answers = list(self.world.answers())
            means = [
                float(self.policy.expectation(question, [measure(question, answer) for answer in answers]))
                for question in range(self.world.questions)
            ]
        return sum(means) / len(means)

    def success(self) -> float:
        """The exact success rate."""
        return self.expected(self.world.correct or self.world.reward)

    def entropy(self) -> float:
        """The entropy of whole answers in nats, mean over questions."""
        with torch.no_grad():
            logp = [self.policy.logp(question) for question in range(self.world.questions)]
        return float(torch.stack([-(row.exp() * row).sum() for row in logp]).mean())

    def reading(self) -> ExactFigures:
        return ExactFigures(self.done, self.success(), self.entropy(), self.expected(lambda _, answer: len(answer)))

    def first(self, success: float) -> int | None:
        """The step of the first reading with at least this success rate."""
        return next((reading.step for reading in self.readings if reading.success >= success), None)
